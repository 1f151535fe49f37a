"""Placements of joints, written to the frames of a file."""

import xml.etree.ElementTree as ElementTree
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from ._build import joint_steps, tree
from ._document import Document, angles, six_digits_hold, text
from ._frames import inverse, seen_from
from ._functions import IDENTITY
from ._read_joints import IN_CHILD, offset_name
from ._spec import GROUND, JointSpec
from ._xml import Node

_SAME = 1e-15
_ZERO = (0.0, 0.0, 0.0)


def write_placements(saving: Any) -> None:
    """Where joints sit in their parents and children, where that was changed.

    In files before 4.0 a placement that six digits do not hold gets a frame too.
    """
    written = _write_changed(saving)
    for joint in saving.source.spec.joints:
        for end in ("parent", "child"):
            if _inside(joint) and (joint.name, end) not in written:
                tags = _number_tags(saving, end)
                _keep_digits(saving, joint, end, *(joint.node.vector(t, 3, _ZERO) for t in tags))


def _write_changed(saving: Any) -> set[tuple[str, str]]:
    """Joints and ends that were written."""
    written: set[tuple[str, str]] = set()
    changed = [
        saving.changed(get).any()
        for get in (
            lambda m: m.translation,
            lambda m: m.rotation,
            lambda m: m.body_translation,
            lambda m: m.body_rotation,
        )
    ]
    if not any(changed):
        return written
    spec, model = saving.source.spec, saving.model
    if spec.constraints:
        raise ValueError(
            "placements of joints were changed in a model with closed loops, which still close "
            "with the old ones: change the file's placements and load it again instead"
        )
    given = {joint.name: joint for joint in spec.joints}
    for name, joint in tree(spec).items():
        mine = [k for k, n in enumerate(model.joint_names) if n.rpartition(".")[0] == joint.name]
        new, old = (_ends(m, name, joint, mine, saving) for m in (model, saving.before))
        # The tree may enter a joint from the end that the file calls its child.
        forwards = joint is given[joint.name]
        names = ("parent", "child") if forwards else ("child", "parent")
        for end, after, before in zip(names, new, old, strict=True):
            if np.max(np.abs(after - before)) > _SAME:
                _write(saving, given[joint.name], end, after)
                written.add((joint.name, end))
    return written


def _ends(model: Any, name: str, joint: JointSpec, mine: list[int], saving: Any) -> list:
    """Placement of a joint in its parent body and in its child body."""
    steps, end = joint_steps(joint, saving.source.context.values)
    parent = np.eye(4) if joint.parent == GROUND else _body(model, joint.parent)
    body = _body(model, name)
    if not mine:
        between = seen_from(joint.parent_placement, end @ joint.child_placement)
        placed = seen_from(parent, body @ joint.child_placement) @ inverse(between)
        return [placed, joint.child_placement]
    before = seen_from(joint.parent_placement, steps[0][0])
    behind = end @ joint.child_placement
    first = _matrix(model.translation[mine[0]], model.rotation[mine[0]])
    return [seen_from(parent, first) @ inverse(before), seen_from(body, behind)]


def _body(model: Any, name: str) -> np.ndarray:
    b = model.body_names.index(name)
    return _matrix(model.body_translation[b], model.body_rotation[b])


def _matrix(translation: Any, rotation: Any) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = np.asarray(rotation), np.asarray(translation)
    return out


def _write(saving: Any, joint: JointSpec, end: str, place: np.ndarray) -> None:
    node, document = joint.node, saving.document
    at, turn = place[:3, 3], angles(place[:3, :3])
    if _inside(joint):
        for tag, value in zip(_number_tags(saving, end), (at, turn), strict=True):
            document.set(node, tag, value)
        _drop_frames(document, node, offset_name(getattr(joint, end)))
        _keep_digits(saving, joint, end, at, turn)
        return
    tags = (f"socket_{end}_frame", f"socket_{end}_frame_connectee_name")
    present = [tag for tag in tags if node.all(tag)]
    if not present:
        raise ValueError(f"{node.label} names its {end} in a way that cannot be written again")
    # A frame of its own: others may stand on the one that the file uses.
    name = f"{joint.name}_{end}_moved"
    document.set(node, present[0], name)
    _drop_frames(document, node, name)
    parent = present[0].replace(f"{end}_frame", "parent")
    _add_frame(document, node, name, (parent, getattr(joint, end)), at, turn)


def _inside(joint: JointSpec) -> bool:
    """Whether a joint stands in its child body, as in files before 4.0."""
    return joint.node.parent is not None and joint.node.parent.tag == "Joint"


def _number_tags(saving: Any, end: str) -> tuple[str, str]:
    """Elements of a joint's location and angles in its parent or child, before 4.0."""
    plain = end == "child" and saving.source.spec.version < IN_CHILD
    suffix = "" if plain else f"_in_{end}"
    return f"location{suffix}", f"orientation{suffix}"


def _keep_digits(saving: Any, joint: JointSpec, end: str, at: Any, turn: Any) -> None:
    """A frame with all digits beside the numbers of an old file.

    OpenSim 4 makes a frame of such numbers with six digits; where the joint already has one
    of that name, it is taken instead.
    """
    body, node = getattr(joint, end), joint.node
    if not six_digits_hold((*at, *turn)) and not _frames(saving.document, node, offset_name(body)):
        _add_frame(saving.document, node, offset_name(body), ("socket_parent", body), at, turn)


def _frames(document: Document, node: Node, name: str) -> list[tuple[Element, Element]]:
    """Frames of this name that a joint holds, each after the element around it."""
    held = document.element(node).findall("frames")
    return [(f, x) for f in held for x in f.findall("PhysicalOffsetFrame") if x.get("name") == name]


def _drop_frames(document: Document, node: Node, name: str) -> None:
    for holder, frame in _frames(document, node, name):
        holder.remove(frame)


def _add_frame(
    document: Document, node: Node, name: str, parent: tuple[str, str], at: Any, turn: Any
) -> None:
    """An offset frame of a joint; `parent` is the element that names the body, and the body."""
    element, (tag, body) = document.element(node), parent
    frames = element.find("frames")
    if frames is None:
        frames = ElementTree.SubElement(element, "frames")
    frame = ElementTree.SubElement(frames, "PhysicalOffsetFrame", {"name": name})
    where = "/ground" if body == GROUND else f"/bodyset/{body}"
    for what, value in ((tag, where), ("translation", at), ("orientation", turn)):
        ElementTree.SubElement(frame, what).text = text(value)


def write_axes(saving: Any) -> None:
    """Axes of custom joints; other joints have none to write to, which the comparison finds.

    An axis that names a coordinate without a function means the coordinate itself; this is
    written down, as OpenSim takes such an axis to rest.
    """
    moved = saving.changed(lambda m: m.axis)
    by_name = {f"{j.name}.{a.name}": a for j in saving.source.spec.joints for a in j.axes}
    for k in np.flatnonzero(moved):
        axis = by_name[saving.model.joint_names[k]]
        if axis.node.tag == "TransformAxis":
            saving.document.set(axis.node, "axis", np.asarray(saving.model.axis[k]))
    for axis in by_name.values():
        if axis.node.tag == "TransformAxis" and axis.function is IDENTITY:
            element = saving.document.element(axis.node)
            for empty in element.findall("function"):
                element.remove(empty)
            if saving.source.spec.version >= 40000:
                made = ElementTree.SubElement(element, "LinearFunction", {"name": "function"})
            else:
                made = ElementTree.SubElement(
                    ElementTree.SubElement(element, "function"), "LinearFunction"
                )
            ElementTree.SubElement(made, "coefficients").text = "1 0"
