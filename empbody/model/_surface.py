"""Surfaces that musculotendon paths slide over, and how a path uses them. Descriptions only."""

from dataclasses import dataclass
from typing import Any

QUADRANTS = ("all", "x", "+x", "-x", "y", "+y", "-y", "z", "+z", "-z")
METHODS = ("hybrid", "midpoint", "axial")


@dataclass(frozen=True)
class WrapCylinder:
    """A cylinder about the z axis of its own frame, with its centre at the origin.

    `translation` (m) and `rotation` (3×3, or XYZ body-fixed angles in rad) place that
    frame in the body. `length` (m) is the distance between the end faces: a segment that
    crosses the axis only beyond them is not caught. `quadrant` names the half of the
    surface that the path bears on ("+x", "-y", ...); "all" takes the shorter way.
    """

    name: str
    body: str
    radius: Any
    length: Any = float("inf")
    translation: Any = (0.0, 0.0, 0.0)
    rotation: Any = (0.0, 0.0, 0.0)
    quadrant: str = "all"
    active: bool = True


@dataclass(frozen=True)
class WrapSphere:
    """A sphere; see `WrapCylinder` for its placement and quadrant."""

    name: str
    body: str
    radius: Any
    translation: Any = (0.0, 0.0, 0.0)
    rotation: Any = (0.0, 0.0, 0.0)
    quadrant: str = "all"
    active: bool = True


@dataclass(frozen=True)
class WrapEllipsoid:
    """An ellipsoid with semi-axes `dimensions` (m) along x, y, z of its own frame."""

    name: str
    body: str
    dimensions: Any
    translation: Any = (0.0, 0.0, 0.0)
    rotation: Any = (0.0, 0.0, 0.0)
    quadrant: str = "all"
    active: bool = True


@dataclass(frozen=True)
class WrapTorus:
    """A ring about the z axis of its own frame; paths pass through its hole.

    `inner_radius` is that of the tube, `outer_radius` that of the circle in the tube's
    middle (m), as OpenSim takes them.
    """

    name: str
    body: str
    inner_radius: Any
    outer_radius: Any
    translation: Any = (0.0, 0.0, 0.0)
    rotation: Any = (0.0, 0.0, 0.0)
    quadrant: str = "all"
    active: bool = True


Surface = WrapCylinder | WrapSphere | WrapEllipsoid | WrapTorus


@dataclass(frozen=True)
class Wrap:
    """That a path may lie on a surface, between two of its points.

    `first` and `last` count path points from 1, both included; None means the path's own
    end. `method` is kept for OpenSim files: its three methods are ways to approximate the
    path over an ellipsoid, where the paths here are exact geodesics.
    """

    surface: str
    first: int | None = None
    last: int | None = None
    method: str = "hybrid"
