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
from ._model import Model as Model
from ._topology import Topology as Topology
