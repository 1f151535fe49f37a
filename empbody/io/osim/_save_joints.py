"""Placements of joints, written to the frames of a file."""

import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np

from ._build import joint_steps, tree
from ._document import angles, text
from ._frames import inverse
from ._functions import IDENTITY
from ._read_joints import IN_CHILD
from ._spec import GROUND, JointSpec

_SAME = 1e-15


def write_placements(saving: Any) -> None:
    """Where joints sit in their parents and children, where that was changed."""
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
        return
    spec, model = saving.source.spec, saving.model
    if spec.constraints:
        raise ValueError(
            "placements of joints were changed in a model with closed loops, which still close "
            "with the old ones: change the file's placements and load it again instead"
        )
    given = {id(joint) for joint in spec.joints}
    for name, joint in tree(spec).items():
        mine = [k for k, n in enumerate(model.joint_names) if n.rpartition(".")[0] == joint.name]
        new, old = (_ends(m, name, joint, mine, saving) for m in (model, saving.before))
        for end, after, before in zip(("parent", "child"), new, old, strict=True):
            if np.max(np.abs(after - before)) <= _SAME:
                continue
            if id(joint) not in given:
                raise ValueError(
                    f"the placement of joint {joint.name!r}, which stands backwards in the file, "
                    "was changed: that cannot be written"
                )
            _write(saving, joint, end, after)


def _ends(model: Any, name: str, joint: JointSpec, mine: list[int], saving: Any) -> list:
    """Placement of a joint in its parent body and in its child body."""
    steps, end = joint_steps(joint, saving.source.context.values)
    parent = np.eye(4) if joint.parent == GROUND else _body(model, joint.parent)
    body = _body(model, name)
    if not mine:
        between = inverse(joint.parent_placement) @ end @ joint.child_placement
        placed = inverse(parent) @ body @ joint.child_placement @ inverse(between)
        return [placed, joint.child_placement]
    before = inverse(joint.parent_placement) @ steps[0][0]
    behind = end @ joint.child_placement
    first = _matrix(model.translation[mine[0]], model.rotation[mine[0]])
    return [inverse(parent) @ first @ inverse(before), inverse(body) @ behind]


def _body(model: Any, name: str) -> np.ndarray:
    b = model.body_names.index(name)
    return _matrix(model.body_translation[b], model.body_rotation[b])


def _matrix(translation: Any, rotation: Any) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = np.asarray(rotation), np.asarray(translation)
    return out


def _write(saving: Any, joint: JointSpec, end: str, place: np.ndarray) -> None:
    node, document, version = joint.node, saving.document, saving.source.spec.version
    at, turn = place[:3, 3], angles(place[:3, :3])
    inside = node.parent is not None and node.parent.tag == "Joint"
    if inside:
        suffix = {"parent": "_in_parent", "child": "_in_child" if version >= IN_CHILD else ""}[end]
        document.set(node, f"location{suffix}", at)
        document.set(node, f"orientation{suffix}", turn)
        if any(float(f"{x:.6g}") != x for x in (*at, *turn)):
            saving.notes.append(
                f"the placement of joint {joint.name!r} has more than six digits, of which "
                f"OpenSim keeps six when it reads a file of version {version}"
            )
        return
    tags = (f"socket_{end}_frame", f"socket_{end}_frame_connectee_name")
    present = [tag for tag in tags if node.all(tag)]
    if not present:
        raise ValueError(f"{node.label} names its {end} in a way that cannot be written again")
    body = getattr(joint, end)
    # A frame of its own: others may stand on the one that the file uses.
    name = f"{joint.name}_{end}_moved"
    document.set(node, present[0], name)
    element = document.element(node)
    frames = element.find("frames")
    if frames is None:
        frames = ElementTree.SubElement(element, "frames")
    for old in frames.findall("PhysicalOffsetFrame"):
        if old.get("name") == name:
            frames.remove(old)
    frame = ElementTree.SubElement(frames, "PhysicalOffsetFrame", {"name": name})
    where = "/ground" if body == GROUND else f"/bodyset/{body}"
    parent = present[0].replace(f"{end}_frame", "parent")
    for tag, value in ((parent, where), ("translation", at), ("orientation", turn)):
        ElementTree.SubElement(frame, tag).text = text(value)


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
