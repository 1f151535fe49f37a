"""Description of one rigid body in a tree."""

from dataclasses import dataclass
from typing import Any

from ._joints import Joint


@dataclass(frozen=True)
class Body:
    """A rigid body and the joint that carries it.

    `com` is the centre of mass in the body frame (m); `inertia` is about the centre of
    mass in body axes (kg m²): (xx, yy, zz), (xx, yy, zz, xy, xz, yz) or 3×3. A body with
    zero mass and inertia takes no part in the dynamics.

    `any_inertia` takes principal moments that no rigid body has (one larger than the sum of
    the other two), which published models hold; otherwise they are refused.
    """

    name: str
    parent: str = "ground"
    joint: Joint | None = None
    mass: Any = 0.0
    com: Any = (0.0, 0.0, 0.0)
    inertia: Any = (0.0, 0.0, 0.0)
    any_inertia: bool = False
