"""Springs, stops and bushings of a file as force elements."""

from collections.abc import Sequence

import numpy as np

from ...forces import Bushing, PointSpring, SoftStops, VariableSprings
from ...model import AbstractForce
from ._context import Context
from ._frames import placement, socket
from ._xml import Node

CONTROLLED = (
    "CoordinateActuator",
    "ActivationCoordinateActuator",
    "TorqueActuator",
    "PointActuator",
    "PointToPointActuator",
    "BodyActuator",
)
"""Actuators that give force only by a control, which the caller gives as `tau` or as a force."""

_DEGREE = np.pi / 180.0


def soft_stops(context: Context, nodes: Sequence[Node]) -> list[AbstractForce]:
    """All limit forces on coordinates in one element; the file's numbers are in degrees."""
    kept = _movable(context, nodes)
    if not kept:
        return []
    columns: dict[str, list[float]] = {}
    for node in kept:
        name = context.coordinate_name(node.word("coordinate"), node)
        unit = _DEGREE if context.spec.coordinates[name].rotational else 1.0
        numbers = {
            "lower": node.number("lower_limit", 0.0) * unit,
            "upper": node.number("upper_limit", 0.0) * unit,
            "lower_stiffness": node.number("lower_stiffness", 1.0) / unit,
            "upper_stiffness": node.number("upper_stiffness", 1.0) / unit,
            "damping": node.number("damping", 0.001) / unit,
            "transition": node.number("transition", 0.1) * unit,
        }
        if not np.all(np.isfinite(list(numbers.values()))):
            node.fail(f"numbers of {node.label} must be finite")
        if not numbers["transition"] > 0.0:
            node.fail(f"<transition> of {node.label} must be positive")
        for what, value in numbers.items():
            columns.setdefault(what, []).append(value)
    rhythm, inputs = _variables(context, kept)
    return [SoftStops(inputs, **columns, rhythm=rhythm, names=[node.name for node in kept])]


def generalised_springs(context: Context, nodes: Sequence[Node]) -> list[AbstractForce]:
    """All linear springs on coordinates in one element."""
    kept = _movable(context, nodes)
    if not kept:
        return []
    tags = {"stiffness": "stiffness", "rest": "rest_length", "damping": "viscosity"}
    columns = {what: [node.number(tag, 0.0) for node in kept] for what, tag in tags.items()}
    for k, node in enumerate(kept):
        if not np.all(np.isfinite([column[k] for column in columns.values()])):
            node.fail(f"numbers of {node.label} must be finite")
    rhythm, inputs = _variables(context, kept)
    return [VariableSprings(inputs, **columns, rhythm=rhythm, names=[node.name for node in kept])]


def _movable(context: Context, nodes: Sequence[Node]) -> list[Node]:
    kept = []
    for node in nodes:
        name = node.word("coordinate")
        if not name:
            node.fail(f"{node.label} names no coordinate")
        if context.constant(name, node) is not None:
            context.note("ignored", node, f"coordinate {name!r} does not move")
            continue
        context.note("read", node, "")
        kept.append(node)
    return kept


def _variables(context: Context, nodes: Sequence[Node]):
    names = [context.coordinate_name(node.word("coordinate"), node) for node in nodes]
    return context.rhythm([context.values[name] for name in names])


_FAR = 1e12
"""Farther than any point of a model (m)."""


def point_spring(context: Context, node: Node) -> AbstractForce:
    bodies, points = [], []
    for k in "12":
        frame = socket(node, f"body{k}") or node.word(f"body{k}")
        body, base = context.body_of(frame, node)
        point = np.asarray(node.vector(f"point{k}", 3, (0.0, 0.0, 0.0)))
        if not np.all(np.abs(point) < _FAR):
            node.fail(f"point{k} of {node.label} is not a place: {point}")
        bodies.append(body)
        points.append(base[:3, :3] @ point + base[:3, 3])
    stiffness, rest = node.number("stiffness", 1.0), node.number("rest_length", 0.0)
    if not np.all(np.isfinite([stiffness, rest])):
        node.fail(f"numbers of {node.label} must be finite")
    context.note("read", node, "")
    return PointSpring(bodies[0], points[0], bodies[1], points[1], stiffness, rest)


def bushing(context: Context, node: Node) -> AbstractForce:
    frames = [_bushing_frame(context, node, k) for k in "12"]
    tags = ("rotational_stiffness", "translational_stiffness")
    tags += ("rotational_damping", "translational_damping")
    vectors = {tag: np.asarray(node.vector(tag, 3, (0.0, 0.0, 0.0))) for tag in tags}
    if not np.all(np.isfinite(list(vectors.values()))):
        node.fail(f"numbers of {node.label} must be finite")
    context.note("read", node, "")
    (body_a, a), (body_b, b) = frames
    return Bushing(
        body_a,
        body_b,
        **vectors,
        translation_a=a[:3, 3],
        rotation_a=a[:3, :3],
        translation_b=b[:3, 3],
        rotation_b=b[:3, :3],
        name=node.name,
    )


def _bushing_frame(context: Context, node: Node, k: str) -> tuple[str, np.ndarray]:
    """From 4.0 on a frame by name, before that a body with numbers."""
    frame = socket(node, f"frame{k}")
    if frame:
        return context.body_of(frame, node)
    body, base = context.body_of(node.word(f"body_{k}"), node)
    numbers = [
        np.asarray(node.vector(f"{what}_body_{k}", 3, (0.0, 0.0, 0.0)))
        for what in ("location", "orientation")
    ]
    return body, base @ placement(*numbers)
