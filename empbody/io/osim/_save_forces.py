"""Springs, stops, bushings and strings that were changed, written to a file's elements."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ...forces import Bushing, PointSpring, SoftStops, VariableSprings
from ...paths._tension import CurveTension, ElasticTension, PathForce
from ._forces import acts
from ._frames import inverse, socket
from ._save_paths import write_points
from ._xml import Node

_DEGREE = np.pi / 180.0
_STOPS = {
    "lower": ("lower_limit", 1),
    "upper": ("upper_limit", 1),
    "lower_stiffness": ("lower_stiffness", -1),
    "upper_stiffness": ("upper_stiffness", -1),
    "damping": ("damping", -1),
    "transition": ("transition", 1),
}
"""Element of each number, and the power of degrees in its unit."""
_SPRINGS = {"stiffness": "stiffness", "rest": "rest_length", "damping": "viscosity"}
_LAWS = {
    "PathSpring": {
        "stiffness": "stiffness",
        "rest_length": "resting_length",
        "dissipation": "dissipation",
    },
    "Ligament": {"rest_length": "resting_length", "force": "pcsa_force"},
    "Blankevoort1991Ligament": {
        "rest_length": "slack_length",
        "force": "linear_stiffness",
        "damping": "damping_coefficient",
    },
}
_BUSHING = (
    "rotational_stiffness",
    "translational_stiffness",
    "rotational_damping",
    "translational_damping",
)


def write_forces(saving: Any) -> None:
    """Numbers of force elements that differ from the file's.

    **Raises:** `ValueError`, naming the element, for a number that has no place in it, and
    for elements that were added or taken away.
    """
    new, old = saving.model.forces, saving.before.forces
    if [type(force) for force in new] != [type(force) for force in old]:
        raise ValueError(
            f"the model has {len(new)} force elements and its file {len(old)}, or of other "
            "kinds: only their numbers can be written"
        )
    nodes = {node.name: node for node in saving.source.spec.forces}
    springs = iter(_point_springs(saving))
    for after, before in zip(new, old, strict=True):
        if isinstance(after, SoftStops):
            _columns(saving, nodes, after, before, _stop)
        elif isinstance(after, VariableSprings):
            _columns(saving, nodes, after, before, _spring)
        elif isinstance(after, PointSpring):
            _point_spring(saving, next(springs), after, before)
        elif isinstance(after, Bushing):
            _bushing(saving, nodes[after.name], after, before)
        elif isinstance(after, PathForce):
            _strings(saving, nodes, after, before)


def changed_leaves(new: Any, old: Any) -> list[bool]:
    """For each array of a tree, whether it differs."""
    both = [jax.tree.leaves(tree) for tree in (new, old)]
    if len(both[0]) != len(both[1]):
        return [True] * len(both[0])
    return [not np.array_equal(a, b, equal_nan=True) for a, b in zip(*both, strict=True)]


def _refuse(node: Node, what: str) -> None:
    raise ValueError(f"{what} of {node.label} was changed, which cannot be written to its element")


def _differs(after: Any, before: Any, what: str) -> np.ndarray:
    return np.atleast_1d(np.asarray(getattr(after, what)) != np.asarray(getattr(before, what)))


def _columns(
    saving: Any,
    nodes: dict[str, Node],
    after: Any,
    before: Any,
    write: Callable[[Any, Node, str, float], None],
) -> None:
    if any(changed_leaves(after.variables, before.variables)):
        _refuse(nodes[after.names[0]], "the rhythm of the coordinate")
    for what in _STOPS if isinstance(after, SoftStops) else _SPRINGS:
        for k in np.flatnonzero(_differs(after, before, what)):
            write(saving, nodes[after.names[k]], what, float(getattr(after, what)[k]))


def _stop(saving: Any, node: Node, what: str, value: float) -> None:
    context = saving.source.context
    name = context.coordinate_name(node.word("coordinate"), node)
    unit = _DEGREE if context.spec.coordinates[name].rotational else 1.0
    tag, power = _STOPS[what]
    saving.document.set(node, tag, value / unit**power)


def _spring(saving: Any, node: Node, what: str, value: float) -> None:
    saving.document.set(node, _SPRINGS[what], value)


def _point_springs(saving: Any) -> list[Node]:
    """Elements of the model's point springs, which carry no names, in their order."""
    given = saving.source.spec.forces
    return [node for node in given if node.tag == "PointToPointSpring" and acts(node)]


def _point_spring(saving: Any, node: Node, after: PointSpring, before: PointSpring) -> None:
    document = saving.document
    for what in ("stiffness", "rest_length"):
        if _differs(after, before, what).any():
            document.set(node, what, float(getattr(after, what)))
    if _differs(after, before, "damping").any():
        _refuse(node, "the damping")
    for k, what in (("1", "point_a"), ("2", "point_b")):
        if _differs(after, before, what).any():
            frame = socket(node, f"body{k}") or node.word(f"body{k}")
            there = inverse(saving.source.context.body_of(frame, node)[1])
            at = there[:3, :3] @ np.asarray(getattr(after, what)) + there[:3, 3]
            document.set(node, f"point{k}", at)


def _bushing(saving: Any, node: Node, after: Bushing, before: Bushing) -> None:
    for what in _BUSHING:
        if _differs(after, before, what).any():
            saving.document.set(node, what, np.asarray(getattr(after, what)))
    for what in ("frame_a", "frame_b"):
        if any(changed_leaves(getattr(after, what), getattr(before, what))):
            _refuse(node, "a frame")


def _strings(saving: Any, nodes: dict[str, Node], after: PathForce, before: PathForce) -> None:
    if after.carrier is None or before.carrier is None:
        raise ValueError(f"the strings {', '.join(after.names)} do not belong to the model")
    for name, new, old in zip(before.names, after.laws, before.laws, strict=True):
        if not any(changed_leaves(new, old)):
            continue
        node = nodes[name]
        tags = _LAWS.get(node.tag, {})
        if type(new) is not type(old) or not isinstance(new, ElasticTension | CurveTension):
            _refuse(node, "the law of the tension")
        for what, value in vars(new).items():
            if not np.array_equal(value, getattr(old, what)):
                if what not in tags:
                    _refuse(node, f"{what.replace('_', ' ')}")
                saving.document.set(node, tags[what], float(np.asarray(value)))
    write_points(saving, after.carrier.paths, before.carrier.paths)
