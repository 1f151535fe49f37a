"""Paths of a file: points in order, fixed, moving or conditional, and what they wrap over."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...model import ConditionalPoint, MovingPoint, PathPoint, Wrap
from ...model._path import AnyPoint
from ...model._surface import METHODS
from ._conditions import condition_on_free
from ._context import Context
from ._expressions import Curve, Expression, apply, combine, constant
from ._frames import socket
from ._functions import read_function
from ._wraps import WrapTable
from ._xml import Node

AXES = "xyz"
_OTHER_PATHS = {
    "FunctionBasedPath": "a fitted function that has no points: use the model that it was fitted "
    "to, whose muscles have a <GeometryPath>",
    "Scholz2015GeometryPath": "which is not read: write its points and obstacles as a "
    "<GeometryPath> with a PathPointSet and a PathWrapSet",
}


@dataclass(frozen=True)
class PathRead:
    """Points and wraps of one path."""

    points: Sequence[AnyPoint]
    wraps: Sequence[Wrap]


def read_path(context: Context, owner: Node, table: WrapTable) -> PathRead | None:
    """The path of a muscle, ligament or spring; None where it was left out as unsupported."""
    node = _geometry(owner)
    if node is None:
        other = next((c for c in owner.walk() if c.tag in _OTHER_PATHS), None)
        if other is not None:
            context.refuse(owner, f"its path is a {other.tag}, {_OTHER_PATHS[other.tag]}")
            return None
        owner.fail(f"{owner.label} has no <GeometryPath>")
    points: list[AnyPoint] = []
    nodes: list[Node] = []
    place: list[int | None] = []
    """Where each point of the file went; None for one that the path never goes through."""
    for child in node.objects("PathPointSet"):
        point = _point(context, owner, child)
        if point is _UNSUPPORTED:
            return None
        place.append(None if point is None else len(points))
        if isinstance(point, PathPoint | MovingPoint | ConditionalPoint):
            points.append(point)
            nodes.append(child)
    context.path_nodes.setdefault(owner.name, nodes)
    if len(points) < 2:
        node.fail(f"the path of {owner.label} has {len(points)} points; it needs 2 at least")
    for which, point in (("first", points[0]), ("last", points[-1])):
        if isinstance(point, ConditionalPoint):
            context.refuse(owner, f"the {which} point of its path is conditional")
            return None
    wraps = []
    if context.wrapping:
        for child in node.objects("PathWrapSet"):
            wrap = _wrap(context, owner, child, place, table)
            if wrap is not None:
                wraps.append(wrap)
    return PathRead(points, wraps)


def _geometry(owner: Node) -> Node | None:
    found = owner.child("GeometryPath")
    if found is None:
        holder = owner.child("path")
        found = None if holder is None else holder.child("GeometryPath")
    return found


_UNSUPPORTED = object()


def _point(context: Context, owner: Node, node: Node) -> AnyPoint | object | None:
    """A point; None for one that is never taken, `_UNSUPPORTED` where it cannot be had."""
    frame = socket(node, "parent_frame") or node.word("body")
    if not frame:
        node.fail(f"{node.label} of {owner.label} names no body")
    body, base = context.body_of(frame, node)
    if node.tag == "MovingPathPoint":
        return _moving(context, node, body, base)
    location = base[:3, :3] @ _location(node) + base[:3, 3]
    if node.tag == "PathPoint":
        return PathPoint(body, location)
    if node.tag == "ConditionalPathPoint":
        return _conditional(context, owner, node, body, location)
    context.refuse(node, f"this kind of path point is not known; it belongs to {owner.label}")
    return _UNSUPPORTED


def _location(node: Node) -> np.ndarray:
    values = np.asarray(node.vector("location", 3, (0.0, 0.0, 0.0)))
    if not np.all(np.isfinite(values)):
        node.fail(f"<location> of {node.label} holds an infinite number")
    return values


def _moving(context: Context, node: Node, body: str, base: np.ndarray) -> AnyPoint:
    local = [_component(context, node, axis) for axis in AXES]
    turned = [
        combine(float(base[i, 3]), [(float(base[i, k]), local[k]) for k in range(3)])
        for i in range(3)
    ]
    if all(component.is_constant for component in turned):
        return PathPoint(body, np.asarray([component.offset for component in turned]))
    rhythm, inputs = context.rhythm(turned)
    return MovingPoint(body, rhythm, inputs)


def _component(context: Context, node: Node, axis: str) -> Expression:
    """One component of a moving point's location in its frame.

    OpenSim holds a moving point still where its coordinate is beyond its range.
    """
    holder = _named(node, f"{axis}_location")
    function = None if holder is None else read_function(holder)
    if function is None:
        return constant(0.0)
    name = socket(node, f"{axis}_coordinate") or node.word(f"{axis}_coordinate")
    if not name or name.lower() == "unassigned":
        return function.of([constant(0.0)])
    bare = context.coordinate_name(name, node)
    return function.of([held(context.values[bare], *context.spec.coordinates[bare].range)])


def held(value: Expression, low: float, high: float) -> Expression:
    """A value that stops at the ends of a range."""
    if value.is_constant:
        return constant(float(np.clip(value.offset, low, high)) if low <= high else value.offset)
    if low == high:
        return constant(low)
    if not low < high or not np.all(np.isfinite([low, high])):
        return value
    # Pieces of first degree: at rest, the value itself, at rest.
    pieces = (low, 0.0, low, 1.0, high, 0.0)
    return apply(Curve("pieces", (1.0, low, high), pieces, (1.0, 0.0) * 3), [value])


def _named(node: Node, name: str) -> Node | None:
    """A property: an element of that tag, or a function of that name."""
    found = node.child(name)
    if found is None:
        found = next((child for child in node.children if child.name == name), None)
    return found


def _conditional(
    context: Context, owner: Node, node: Node, body: str, location: np.ndarray
) -> AnyPoint | object | None:
    name = socket(node, "coordinate") or node.word("coordinate")
    if not name or name.lower() == "unassigned":
        node.fail(f"{node.label} of {owner.label} names no coordinate")
    low, high = node.vector("range", 2)
    value = context.values[context.coordinate_name(name, node)]
    found = condition_on_free(context, value, low, high)
    if found is True:
        return PathPoint(body, location)
    if found is False:
        context.note(
            "ignored", node, f"{owner.label} never goes through it: {name} is out of range"
        )
        return None
    if isinstance(found, str):
        context.refuse(node, f"{found}; it belongs to {owner.label}")
        return _UNSUPPORTED
    if found.words:
        context.note("approximated", node, found.words)
    return ConditionalPoint(body, location, found.coordinate, (found.low, found.high))


def _wrap(
    context: Context, owner: Node, node: Node, place: Sequence[int | None], table: WrapTable
) -> Wrap | None:
    if node.tag != "PathWrap":
        context.refuse(node, f"this way to wrap is not known; it belongs to {owner.label}")
        return None
    name = node.word("wrap_object").rsplit("/", 1)[-1]
    if name not in table.surfaces:
        if context.skip:
            context.note("unsupported", node, f"{owner.label}: there is no surface {name!r}")
            return None
        node.fail(f"{owner.label} wraps over {name!r}, which the file does not have")
    count = len(place)
    bounds = np.asarray(node.vector("range", 2, (-1.0, -1.0)))
    if not np.all(np.abs(bounds) < 1e6):
        node.fail(f"the range of {owner.label} over {name!r} is {bounds}, not numbers of points")
    first, last = (int(x) for x in bounds)
    first, last = (1 if first < 1 else first), (count if last < 1 else last)
    kept = [p for p in place[first - 1 : last] if p is not None]
    if len(kept) < 2:
        words = f"{owner.label} cannot touch {name!r} between points {first} and {last}"
        context.note("ignored", node, words)
        return None
    method = node.word("method", "hybrid").lower()
    if method not in METHODS:
        method = "hybrid"
    return Wrap(name, kept[0] + 1, kept[-1] + 1, method)
