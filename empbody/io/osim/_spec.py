"""What a model file says, in plain data that do not depend on the file's version.

Lengths in m, angles in rad, masses in kg. Placements are 4×4: frame in its body.
"""

from dataclasses import dataclass, field

import numpy as np

from ._functions import Function
from ._xml import Node

GROUND = "ground"


@dataclass(frozen=True, eq=False)
class BodySpec:
    """A rigid body; `inertia` (3×3) about the centre of mass in body axes."""

    name: str
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    meshes: tuple[str, ...]
    node: Node


@dataclass(frozen=True, eq=False)
class FrameSpec:
    """A frame fixed to a body: `path` is its absolute path in the file."""

    path: str
    body: str
    placement: np.ndarray
    node: Node

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, eq=False)
class AxisSpec:
    """One step of a joint's motion: a turn about, or a slide along, `direction`.

    The step's value is `function` of the named coordinates of the file.
    """

    name: str
    turns: bool
    direction: np.ndarray
    function: Function
    coordinates: tuple[str, ...]
    node: Node


@dataclass(frozen=True, eq=False)
class JointSpec:
    """A joint as steps between two frames: parent frame, steps in turn, child frame."""

    name: str
    kind: str
    parent: str
    parent_placement: np.ndarray
    child: str
    child_placement: np.ndarray
    axes: tuple[AxisSpec, ...]
    coordinates: tuple[str, ...]
    node: Node


@dataclass(frozen=True, eq=False)
class CoordinateSpec:
    """A coordinate; `prescribed` is its function of time where the file prescribes it."""

    name: str
    joint: str
    motion: str
    """"rotational", "translational" or "coupled": the first is in degrees in motion files."""
    default: float
    speed: float
    range: tuple[float, float]
    clamped: bool
    locked: bool
    prescribed: Function | None
    node: Node

    @property
    def rotational(self) -> bool:
        """Whether the coordinate is an angle (rad; degrees in motion files)."""
        return self.motion == "rotational"


@dataclass(frozen=True, eq=False)
class CouplerSpec:
    """dependent = function(independent ...)."""

    name: str
    dependent: str
    independent: tuple[str, ...]
    function: Function
    enforced: bool
    node: Node


@dataclass(frozen=True, eq=False)
class MarkerSpec:
    """A marker at `location` in a body's frame."""

    name: str
    body: str
    location: np.ndarray
    node: Node


@dataclass(eq=False)
class ModelSpec:
    """A whole file. `forces` holds the members of its force set as they stand."""

    file: str
    version: int
    name: str
    root: Node
    model: Node
    ground: Node | None
    gravity: tuple[float, float, float]
    bodies: dict[str, BodySpec] = field(default_factory=dict)
    ground_meshes: tuple[str, ...] = ()
    frames: dict[str, FrameSpec] = field(default_factory=dict)
    joints: list[JointSpec] = field(default_factory=list)
    coordinates: dict[str, CoordinateSpec] = field(default_factory=dict)
    couplers: list[CouplerSpec] = field(default_factory=list)
    constraints: list[Node] = field(default_factory=list)
    """Constraints that are not couplers, as they stand in the file."""
    markers: list[MarkerSpec] = field(default_factory=list)
    forces: list[Node] = field(default_factory=list)
