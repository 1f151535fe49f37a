"""Muscles of the shoulder: points, also sliding ones, surfaces and Hill figures."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..model import (
    MovingPoint,
    Path,
    PathPoint,
    Wrap,
    WrapCylinder,
    WrapEllipsoid,
    WrapSphere,
    WrapTorus,
)
from ..muscles import Muscle
from ..rhythms import AbstractRhythm, Affine, Compose, SimmSpline, Stack
from ._shoulder_figures import SLIDES, figures

Carried = Literal["points", "bodies"]
_SURFACES = {
    "cylinder": WrapCylinder,
    "sphere": WrapSphere,
    "ellipsoid": WrapEllipsoid,
    "torus": WrapTorus,
}


def path(name: str, wrapping: bool, moving: Carried = "points") -> Path:
    """A muscle's path; sliding points as `MovingPoint`s of the bone, or on sliding bodies."""
    given = figures()["muscles"][name]
    points = [_point(body, location, moving) for body, location in given["points"]]
    return Path(name, points, [Wrap(*wrap) for wrap in given["wraps"]] if wrapping else ())


def muscle(name: str, wrapping: bool, tendon: Literal["elastic", "rigid"]) -> Muscle:
    """A muscle with its path and Hill figures; curves are those of De Groote and Fregly."""
    way = path(name, wrapping)
    return Muscle(name, way.points, way.wraps, tendon=tendon, **figures()["muscles"][name]["hill"])


def surfaces(wrapping: bool, muscles: Sequence[str]) -> list[Any]:
    """What those muscles slide over."""
    given = figures()
    wraps = [wrap for name in muscles for wrap in given["muscles"][name]["wraps"]]
    used = {surface for surface, *_ in wraps} if wrapping else set()
    return [_surface(name, each) for name, each in given["surfaces"].items() if name in used]


def _surface(name: str, surface: Mapping[str, Any]) -> Any:
    sizes = {key: value for key, value in surface.items() if key != "type"}
    return _SURFACES[surface["type"]](name=name, **sizes)


def _point(body: str, location: Sequence[float], moving: Carried) -> PathPoint | MovingPoint:
    given = figures()
    carriers = given["carriers"]
    if moving == "bodies" or body not in carriers:
        return PathPoint(body, location)
    # A carrier may ride on another: their displacements add.
    slides: dict[str, AbstractRhythm] = {}
    while body in carriers:
        knots = [given["couplers"][f"{body}_{axis}"] for axis in SLIDES]
        (driver,) = {driver for driver, _, _ in knots}
        splines = [(SimmSpline(x, y), (0,)) for _, x, y in knots]
        slides[driver] = Stack(splines, n_in=1)
        body = carriers[body]
    side_by_side = Stack([(slide, (i,)) for i, slide in enumerate(slides.values())], len(slides))
    total = Affine(np.tile(np.eye(3), len(slides)), location)
    return MovingPoint(body, Compose(total, side_by_side), tuple(slides))
