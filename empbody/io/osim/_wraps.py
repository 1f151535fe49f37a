"""Wrap objects of a file as surfaces."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...model import Surface, WrapCylinder, WrapEllipsoid, WrapSphere, WrapTorus
from ...model._surface import QUADRANTS
from ._context import Context
from ._frames import placement
from ._xml import Node

KINDS = ("WrapCylinder", "WrapSphere", "WrapEllipsoid", "WrapTorus")


@dataclass
class WrapTable:
    """Surfaces of a file by the name that paths call them.

    OpenSim looks a surface up by its bare name and takes the first; so do we, and a second
    one of the same name gets its body's name in front.
    """

    surfaces: dict[str, Surface]
    nodes: dict[str, Node]

    def used_by(self, names: set[str]) -> list[Surface]:
        return [surface for name, surface in self.surfaces.items() if name in names]


def read_wraps(context: Context) -> WrapTable:
    """All wrap objects of the file, on bodies, on the ground or on offset frames."""
    table = WrapTable({}, {})
    for holder in context.spec.model.walk():
        if holder.tag != "WrapObjectSet" or holder.parent is None:
            continue
        within = holder.child("objects")
        for node in [] if within is None else within.children:
            if node.tag not in KINDS:
                context.refuse(node, f"the wrap object {node.tag!r} is not known")
                continue
            _add(context, table, node, holder.parent)
    context.wrap_nodes = table.nodes
    return table


def _add(context: Context, table: WrapTable, node: Node, owner: Node) -> None:
    if not node.name:
        context.note("ignored", node, "no path can call it: it has no name")
        return
    frame = "ground" if owner.tag == "Ground" else owner.name
    body, base = context.body_of(frame, node)
    name = node.name
    if name in table.surfaces:
        name = f"{body}/{node.name}"
        words = f"there are several of this name; paths take the first, this one is {name!r}"
        context.note("approximated", node, words)
        if name in table.surfaces:
            node.fail(f"there are two wrap objects {node.name!r} on body {body!r}")
    sizes = _sizes(node)
    if isinstance(sizes, str):
        context.refuse(node, sizes)
        return
    own = placement(
        np.asarray(_finite(node, "translation")), np.asarray(_finite(node, "xyz_body_rotation"))
    )
    where = base @ own
    kind = {
        "WrapCylinder": WrapCylinder,
        "WrapSphere": WrapSphere,
        "WrapEllipsoid": WrapEllipsoid,
        "WrapTorus": WrapTorus,
    }[node.tag]
    table.surfaces[name] = kind(
        name=name,
        body=body,
        translation=where[:3, 3],
        rotation=where[:3, :3],
        quadrant=_quadrant(context, node),
        active=node.flag("active", node.flag("isActive", True)),
        **sizes,
    )
    table.nodes[name] = node
    context.note("read", node, "")


def _sizes(node: Node) -> dict[str, Any] | str:
    """Lengths of a surface (m), or what is wrong with them."""
    if node.tag == "WrapTorus":
        sizes = {tag: node.number(tag) for tag in ("inner_radius", "outer_radius")}
        if sizes["inner_radius"] >= sizes["outer_radius"] > 0.0:
            return "the tube of the torus leaves no hole: inner_radius is not below outer_radius"
    elif node.tag == "WrapEllipsoid":
        sizes = {"dimensions": node.vector("dimensions", 3)}
    elif node.tag == "WrapSphere":
        sizes = {"radius": node.number("radius")}
    else:
        sizes = {"radius": node.number("radius"), "length": node.number("length", np.inf)}
    for tag, value in sizes.items():
        open_ended = tag == "length"
        for number in np.atleast_1d(value):
            if not (number > 0.0 and (open_ended or np.isfinite(number))):
                node.fail(f"<{tag}> of {node.label} holds {number:g}; sizes must be positive")
    return sizes


def _quadrant(context: Context, node: Node) -> str:
    word = node.word("quadrant", "all").lower()
    if word in ("unassigned", ""):
        return "all"
    if word not in QUADRANTS:
        node.fail(f"<quadrant> of {node.label} is {word!r}; choose from {list(QUADRANTS)}")
    if node.tag == "WrapCylinder" and word.endswith("z"):
        words = f"quadrant {word!r} names no half of a cylinder along z: all of it counts"
        context.note("approximated", node, words)
        return "all"
    return word


def _finite(node: Node, tag: str) -> tuple[float, ...]:
    values = node.vector(tag, 3, (0.0, 0.0, 0.0))
    if not np.all(np.isfinite(values)):
        node.fail(f"<{tag}> of {node.label} holds an infinite number")
    return values
