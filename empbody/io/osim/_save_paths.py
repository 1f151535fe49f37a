"""Points of paths that were changed, written to their elements."""

import xml.etree.ElementTree as ElementTree
from typing import Any

import jax
import numpy as np

from ...model import PathSet
from ...rhythms import AbstractRhythm, Affine, Compose, Stack
from ._conditions import SLACK
from ._frames import inverse, socket
from ._save_functions import Form, form_of, sum_of, write_form
from ._xml import Node

_AXES = "xyz"
_ARGUMENT = "(argument)"


def write_points(saving: Any, new: PathSet, old: PathSet) -> None:
    """Places of points, functions of moving ones and ranges of conditional ones.

    **Raises:** `ValueError`, naming the point and its path, for what its element cannot hold.
    """
    layout = old.layout
    nodes: dict[int, Node] = {}
    for unit, name in enumerate(layout.names):
        found = saving.source.context.path_nodes.get(name, ())
        nodes |= dict(zip(layout.points_of(unit), found, strict=True))
    moves = {point for point, _ in layout.moving}
    for point, node in nodes.items():
        if not np.array_equal(new.location[point], old.location[point]):
            owner = layout.names[layout.unit_of(point)]
            if point in moves or node.tag == "MovingPathPoint":
                raise ValueError(
                    f"the location of {node.label} of {owner!r} was changed, but it is a function "
                    "of coordinates: change that"
                )
            place = inverse(_base(saving, node))
            at = np.asarray(new.location[point], dtype=np.float64)
            saving.document.set(node, "location", place[:3, :3] @ at + place[:3, 3])
    for k, (point, _) in enumerate(layout.moving):
        if not np.array_equal(new.moving_range[k], old.moving_range[k]):
            raise ValueError(
                f"the range of {nodes[point].label} was changed; the format has none but that of "
                "the coordinate"
            )
        if _differ(new.moving[k], old.moving[k]):
            _moving(saving, nodes[point], new.moving[k], old.moving[k])
    for k, (point, _) in enumerate(layout.conditional):
        if not np.array_equal(new.condition[k], old.condition[k]):
            _condition(saving, nodes[point], np.asarray(new.condition[k]))


def _base(saving: Any, node: Node) -> np.ndarray:
    """Placement in its body of the frame that a point is given in."""
    frame = socket(node, "parent_frame") or node.word("body")
    return saving.source.context.body_of(frame, node)[1]


def _differ(a: Any, b: Any) -> bool:
    if jax.tree.structure(a) != jax.tree.structure(b):
        return True
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return not all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)


def _condition(saving: Any, node: Node, ends: np.ndarray) -> None:
    context = saving.source.context
    name = socket(node, "coordinate") or node.word("coordinate")
    value = context.values[context.coordinate_name(name, node)]
    if not value.is_affine:
        raise ValueError(
            f"the range of {node.label} was changed; its coordinate {name!r} is a curve of another "
            "one, to which the range cannot be turned back"
        )
    (slope,) = value.slopes.values()
    low, high = sorted(value.offset + slope * float(end) for end in ends)
    saving.document.set(node, "range", [low + SLACK, high - SLACK])


def _moving(saving: Any, node: Node, new: AbstractRhythm, old: AbstractRhythm) -> None:
    """Functions of the components in the point's own frame, of the arguments they have."""
    forms = [_component(new, old, k) for k in range(3)]
    if any(form is None for form in forms):
        raise ValueError(
            f"the function of {node.label} is a {type(new).__name__} that the format does not "
            "have, or what drives it was changed; change values of the file's own functions"
        )
    back = inverse(_base(saving, node))
    for i, axis in enumerate(_AXES):
        parts = [(float(back[i, k]), form) for k, form in enumerate(forms)]
        form = sum_of(float(back[i, 3]), parts)  # pyright: ignore[reportArgumentType]
        if form is None:
            raise ValueError(
                f"the functions of {node.label} in its turned frame are sums of several curves, "
                "which cannot be written"
            )
        _write(saving, node, f"{axis}_location", form)


def _component(new: AbstractRhythm, old: AbstractRhythm, k: int) -> Form | None:
    """Output k as a form of the function's own argument."""
    if isinstance(new, Stack) and isinstance(old, Stack):
        if (new.inputs, new.order) != (old.inputs, old.order):
            return None
        place = k if new.order is None else new.order[k]
        for part, before, inputs in zip(new.rhythms, old.rhythms, new.inputs, strict=True):
            count = len(inputs) if part.n_out is None else part.n_out
            if place < count:
                return _component(part, before, place)
            place -= count
        return None
    if isinstance(new, Compose) and isinstance(old, Compose) and not isinstance(new.outer, Affine):
        if _differ(new.inner, old.inner):
            return None
        return form_of(new.outer, k, [_ARGUMENT])
    inputs = new.n_in if new.n_in is not None else 1
    return form_of(new, k, [_ARGUMENT]) if inputs == 1 else None


def _write(saving: Any, node: Node, name: str, form: Form) -> None:
    """A function in the place of the one of that name."""
    element = saving.document.element(node)
    holder = element.find(name)
    if holder is None:
        for child in list(element):
            if child.get("name") == name:
                element.remove(child)
        write_form(element, form).set("name", name)
        return
    for child in list(holder):
        holder.remove(child)
    holder.text = None
    made: ElementTree.Element = write_form(holder, form)
    made.tail = None
