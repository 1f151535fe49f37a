"""Bodies, joints and the model made of them."""

from ._body import Body as Body
from ._force import AbstractForce as AbstractForce
from ._joints import (
    Ball as Ball,
    Chain as Chain,
    Cylindrical as Cylindrical,
    Free as Free,
    Joint as Joint,
    Planar as Planar,
    Prismatic as Prismatic,
    Revolute as Revolute,
    Universal as Universal,
    Weld as Weld,
)
from ._marker import Marker as Marker
from ._model import Model as Model
from ._path import (
    AbstractMuscles as AbstractMuscles,
    AbstractUnit as AbstractUnit,
    ConditionalPoint as ConditionalPoint,
    MovingPoint as MovingPoint,
    Path as Path,
    PathPoint as PathPoint,
)
from ._path_set import (
    PathLayout as PathLayout,
    PathSet as PathSet,
    SurfaceSlot as SurfaceSlot,
    WrapSlot as WrapSlot,
)
from ._path_table import PathTable as PathTable
from ._surface import (
    Surface as Surface,
    Wrap as Wrap,
    WrapCylinder as WrapCylinder,
    WrapEllipsoid as WrapEllipsoid,
    WrapSphere as WrapSphere,
    WrapTorus as WrapTorus,
)
from ._topology import Topology as Topology
