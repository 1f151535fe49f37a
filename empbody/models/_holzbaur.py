"""The shoulder of Holzbaur et al. (2005) with its 15 muscles, from the figures in a file.

Three coordinates drive it: plane of elevation, elevation and axial rotation (rad). All
other joint variables follow them through the model's couplers. Attachment points that
slide are carried in the original by bodies without mass on three prismatic joints each.
"""

import functools
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..model import (
    Body,
    Chain,
    Model,
    MovingPoint,
    Path,
    PathPoint,
    Prismatic,
    Revolute,
    Weld,
    Wrap,
    WrapCylinder,
    WrapEllipsoid,
    WrapSphere,
    WrapTorus,
)
from ..rhythms import AbstractRhythm, Affine, Compose, Identity, SimmSpline, Stack

COORDINATES = ("elv_angle", "shoulder_elv", "shoulder_rot")
SLIDES = ("tx", "ty", "tz")
_SURFACES = {
    "cylinder": WrapCylinder,
    "sphere": WrapSphere,
    "ellipsoid": WrapEllipsoid,
    "torus": WrapTorus,
}


@functools.cache
def figures() -> Mapping[str, Any]:
    """The file's content: lengths in m, angles in rad, surfaces as in an OpenSim file.

    Joints are rotations in turn about axes fixed in the turned frame; a coupler is
    (coordinate, knots, values) of a SimmSpline; carriers are the bodies that slide, with
    the bodies they slide on.
    """
    file = importlib.resources.files("empbody.models") / "_holzbaur.json"
    return json.loads(file.read_text(encoding="utf-8"))


def holzbaur(wrapping: bool = False, moving: Literal["points", "bodies"] = "points") -> Model:
    """The model; sliding points as `MovingPoint`s of the bone, or on bodies that slide."""
    given = figures()
    bodies = [Body("thorax", joint=Weld())]
    variables = []
    for joint in given["joints"]:
        name = joint["body"]
        bodies.append(Body(name, joint["parent"], _turns(joint), **given["masses"].get(name, {})))
        variables += [variable for variable, _ in joint["axes"]]
    if moving == "bodies":
        for name, parent in given["carriers"].items():
            slides = [f"{name}_{axis}" for axis in SLIDES]
            axes = zip(np.eye(3), slides, strict=True)
            chain = Chain(tuple(Prismatic(axis, name=slide) for axis, slide in axes))
            bodies.append(Body(name, parent, chain))
            variables += slides
    return Model.build(
        coordinates=COORDINATES,
        bodies=bodies,
        rhythm=_rhythm(variables, given["couplers"]),
        ranges={name: tuple(ends) for name, ends in given["coordinates"].items()},
        muscles=[
            Path(
                name,
                [_point(given, body, location, moving) for body, location in path["points"]],
                [Wrap(*wrap) for wrap in path["wraps"]] if wrapping else (),
            )
            for name, path in given["muscles"].items()
        ],
        surfaces=[_surface(name, surface) for name, surface in given["surfaces"].items()]
        if wrapping
        else (),
    )


def _turns(joint: Mapping[str, Any]) -> Chain:
    """Rotations in turn; the joint frame stands in the parent by a translation only."""
    turns = [Revolute(axis, name=variable) for variable, axis in joint["axes"]]
    first = Revolute(turns[0].axis, joint["translation"], name=turns[0].name)
    return Chain((first, *turns[1:]))


def _surface(name: str, surface: Mapping[str, Any]) -> Any:
    sizes = {key: value for key, value in surface.items() if key != "type"}
    return _SURFACES[surface["type"]](name=name, **sizes)


def _rhythm(variables: Sequence[str], couplers: Mapping[str, Any]) -> Stack:
    """Joint variables: coordinates themselves, or splines of one of them."""
    parts: list[tuple[AbstractRhythm, tuple[int, ...]]] = []
    outputs: list[str] = []
    for i, name in enumerate(COORDINATES):
        parts.append((Identity(), (i,)))
        outputs.append(name)
    together: dict[tuple[str, tuple[float, ...]], dict[str, list[float]]] = {}
    for name in variables:
        if name not in COORDINATES:
            driver, x, y = couplers[name]
            together.setdefault((driver, tuple(x)), {})[name] = y
    for (driver, x), columns in together.items():
        values = np.column_stack(list(columns.values()))
        parts.append((SimmSpline(x, values), (COORDINATES.index(driver),)))
        outputs += columns
    order = [outputs.index(name) for name in variables]
    return Stack(parts, n_in=len(COORDINATES), order=order)


def _point(
    given: Mapping[str, Any], body: str, location: Sequence[float], moving: str
) -> PathPoint | MovingPoint:
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
