"""The shoulder of Holzbaur et al. (2005) with its 15 muscles as published: paths only.

Three coordinates drive it: plane of elevation, elevation and axial rotation (rad). All
other joint variables follow them through the model's couplers. Attachment points that
slide are carried in the original by bodies without mass on three prismatic joints each.
This is the form that is compared with OpenSim; `shoulder` is the one to work with.
"""

import numpy as np

from ..model import Body, Chain, Model, Prismatic, Weld
from ._shoulder_axes import published_axes
from ._shoulder_couplers import couplers
from ._shoulder_figures import (
    COORDINATES as COORDINATES,
    SLIDES as SLIDES,
    figures as figures,
)
from ._shoulder_inertia import inertia
from ._shoulder_paths import Carried, path, surfaces
from ._shoulder_tree import turns


def holzbaur(wrapping: bool = False, moving: Carried = "points") -> Model:
    """The model; sliding points as `MovingPoint`s of the bone, or on bodies that slide."""
    given = figures()
    bodies = [Body("thorax", joint=Weld())]
    variables, axes = [], published_axes()
    for joint in given["joints"]:
        name = joint["body"]
        joints = turns(joint["translation"], axes[name])
        bodies.append(Body(name, joint["parent"], joints, **inertia(name)))
        variables += [variable for variable, _ in axes[name]]
    if moving == "bodies":
        for name, parent in given["carriers"].items():
            slides = [f"{name}_{axis}" for axis in SLIDES]
            pairs = zip(np.eye(3), slides, strict=True)
            chain = Chain(tuple(Prismatic(axis, name=slide) for axis, slide in pairs))
            bodies.append(Body(name, parent, chain))
            variables += slides
    muscles = tuple(given["muscles"])
    return Model.build(
        coordinates=COORDINATES,
        bodies=bodies,
        rhythm=couplers(variables),
        ranges={name: tuple(ends) for name, ends in given["coordinates"].items()},
        muscles=[path(name, wrapping, moving) for name in muscles],
        surfaces=surfaces(wrapping, muscles),
    )
