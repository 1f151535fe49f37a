"""The shoulder of Holzbaur et al. (2005) with its 15 muscles, from figures in a file.

Three coordinates drive it: plane of elevation, elevation and axial rotation (rad). All
other joint variables follow them through the model's couplers. Attachment points that
slide are carried in the original by bodies without mass on three prismatic joints each.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

import empbody as eb
from empbody.model import Chain
from empbody.rhythms import AbstractRhythm, Affine, Compose, Identity, SimmSpline, Stack

FOLDER = pathlib.Path(__file__).parent / "reference" / "holzbaur"
MUSCLES = (
    *("DELT1", "DELT2", "DELT3", "SUPSP", "INFSP", "SUBSC", "TMIN", "TMAJ"),
    *("PECM1", "PECM2", "PECM3", "LAT1", "LAT2", "LAT3", "CORB"),
)
COORDINATES = ("elv_angle", "shoulder_elv", "shoulder_rot")
SURFACES = {
    "cylinder": eb.WrapCylinder,
    "sphere": eb.WrapSphere,
    "ellipsoid": eb.WrapEllipsoid,
    "torus": eb.WrapTorus,
}


def holzbaur(wrapping: bool = False, moving: Literal["points", "bodies"] = "points") -> eb.Model:
    """The model; sliding points as `MovingPoint`s of the bone, or on bodies that slide."""
    figures = json.loads((FOLDER / "figures.json").read_text())
    bodies = [eb.Body("thorax", joint=eb.Weld())]
    variables = []
    for joint in figures["joints"]:
        name = joint["body"]
        bodies.append(
            eb.Body(name, joint["parent"], _turns(joint), **figures["masses"].get(name, {}))
        )
        variables += [variable for variable, _ in joint["axes"]]
    if moving == "bodies":
        for name, parent in figures["carriers"].items():
            slides = [f"{name}_{axis}" for axis in ("tx", "ty", "tz")]
            axes = zip(np.eye(3), slides, strict=True)
            chain = Chain(tuple(eb.Prismatic(axis, name=slide) for axis, slide in axes))
            bodies.append(eb.Body(name, parent, chain))
            variables += slides
    return eb.Model.build(
        coordinates=COORDINATES,
        bodies=bodies,
        rhythm=_rhythm(variables, figures["couplers"]),
        ranges={name: tuple(ends) for name, ends in figures["coordinates"].items()},
        muscles=[
            eb.Path(
                name,
                [_point(figures, body, location, moving) for body, location in path["points"]],
                [eb.Wrap(*wrap) for wrap in path["wraps"]] if wrapping else (),
            )
            for name, path in figures["muscles"].items()
        ],
        surfaces=[
            SURFACES[surface.pop("type")](name=name, **surface)
            for name, surface in figures["surfaces"].items()
        ]
        if wrapping
        else (),
    )


def _turns(joint: Mapping[str, Any]) -> Chain:
    """Rotations in turn; the joint frame stands in the parent by a translation only."""
    turns = [eb.Revolute(axis, name=variable) for variable, axis in joint["axes"]]
    first = eb.Revolute(turns[0].axis, joint["translation"], name=turns[0].name)
    return Chain((first, *turns[1:]))


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
    figures: Mapping[str, Any], body: str, location: Sequence[float], moving: str
) -> eb.PathPoint | eb.MovingPoint:
    carriers = figures["carriers"]
    if moving == "bodies" or body not in carriers:
        return eb.PathPoint(body, location)
    # A carrier may ride on another: their displacements add.
    slides: dict[str, AbstractRhythm] = {}
    while body in carriers:
        knots = [figures["couplers"][f"{body}_{axis}"] for axis in ("tx", "ty", "tz")]
        (driver,) = {driver for driver, _, _ in knots}
        splines = [(SimmSpline(x, y), (0,)) for _, x, y in knots]
        slides[driver] = Stack(splines, n_in=1)
        body = carriers[body]
    side_by_side = Stack([(slide, (i,)) for i, slide in enumerate(slides.values())], len(slides))
    total = Affine(np.tile(np.eye(3), len(slides)), location)
    return eb.MovingPoint(body, Compose(total, side_by_side), tuple(slides))
