"""The chain of bones: thorax, clavicle, scapula, humerus, with what cancels turns between."""

from typing import Any

from ..model import Body, Chain, Revolute, Weld
from ._shoulder_axes import Axes, chain_axes
from ._shoulder_figures import figures
from ._shoulder_inertia import inertia


def turns(translation: Any, axes: Axes) -> Chain:
    """Rotations in turn; the joint frame stands in the parent by a translation only."""
    (name, axis), *rest = axes
    first = Revolute(axis, translation, name=name)
    return Chain((first, *(Revolute(axis, name=name) for name, axis in rest)))


def bones(exact: bool = False) -> list[Body]:
    """The bodies; those with "phant" in their names have no mass and only turn.

    `exact` takes the published axes to the last digit, which are not quite orthogonal.
    """
    axes = chain_axes(exact)
    bodies = [Body("thorax", joint=Weld())]
    for joint in figures()["joints"]:
        name = joint["body"]
        chain = turns(joint["translation"], axes[name])
        bodies.append(Body(name, joint["parent"], chain, **inertia(name)))
    return bodies


def forearm_and_hand() -> list[Body]:
    """Ulna, radius and hand welded to the humerus: elbow straight, wrist and forearm neutral."""
    return [
        Body(name, place["parent"], Weld(place["translation"]), **inertia(name))
        for name, place in figures()["forearm"].items()
    ]
