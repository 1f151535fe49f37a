"""Joints of a file as steps of one axis each, between a parent and a child frame."""

from collections.abc import Callable, Sequence

import numpy as np

from ._ellipsoid_joints import ellipsoid, scapulothoracic
from ._frames import FrameTable, finite, placement, socket
from ._functions import IDENTITY, constant_function, read_function
from ._report import Notes
from ._spec import AxisSpec, CoordinateSpec, JointSpec
from ._xml import Node

_X, _Y, _Z = np.eye(3)
_CUSTOM = tuple(f"{kind}{i}" for kind in ("rotation", "translation") for i in (1, 2, 3))
# Joints whose coordinates are the steps themselves: (coordinate's position, turns?, axis).
_SIMPLE: dict[str, tuple[int, tuple[tuple[int, bool, np.ndarray], ...]]] = {
    "WeldJoint": (0, ()),
    "PinJoint": (1, ((0, True, _Z),)),
    "SliderJoint": (1, ((0, False, _X),)),
    "UniversalJoint": (2, ((0, True, _X), (1, True, _Y))),
    "BallJoint": (3, ((0, True, _X), (1, True, _Y), (2, True, _Z))),
    "GimbalJoint": (3, ((0, True, _X), (1, True, _Y), (2, True, _Z))),
    "PlanarJoint": (3, ((1, False, _X), (2, False, _Y), (0, True, _Z))),
    "FreeJoint": (
        6,
        (
            (3, False, _X),
            (4, False, _Y),
            (5, False, _Z),
            (0, True, _X),
            (1, True, _Y),
            (2, True, _Z),
        ),
    ),
}
IN_CHILD = 30500
"""From this version on a joint's place in its child is <location_in_child>, before <location>."""
_SIX_DIGITS = 1e-5
_SPIN_SPEEDS = ("BallJoint", "FreeJoint", "EllipsoidJoint", "ScapulothoracicJoint")


def read_joint(
    node: Node, child: str | None, frames: FrameTable, version: int, notes: Notes
) -> tuple[JointSpec, list[CoordinateSpec]]:
    """A joint and its coordinates; `child` is the body around it in files before 4.0."""
    parent_body, parent_frame, child_body, child_frame = _ends(node, child, frames, version, notes)
    given = _coordinate_nodes(node)
    if node.tag == "CustomJoint":
        names = [n.name for n in given]
        axes = _custom_axes(node, names, notes)
    elif node.tag in _READERS:
        count, make = _READERS[node.tag]
        names = _names(node, given, count)
        axes = make(node, names)
    else:
        known = ", ".join(["CustomJoint", *_READERS])
        node.unsupported(f"the joint {node.tag!r} is not known; known are {known}")
    if node.tag in _SPIN_SPEEDS:
        notes.add(
            "approximated",
            node,
            "speeds and generalised forces belong to the angles' rates; OpenSim's are those of "
            "the angular velocity",
        )
    if node.flag("reverse", False):
        notes.add("approximated", node, "the joint is given from child to parent: inverted")
        axes = _inverted(axes)
    joint = JointSpec(
        name=node.name or f"{parent_body}_{child_body}",
        kind=node.tag,
        parent=parent_body,
        parent_placement=parent_frame,
        child=child_body,
        child_placement=child_frame,
        axes=tuple(axes),
        coordinates=tuple(names),
        node=node,
    )
    return joint, [
        _coordinate(given[i] if i < len(given) else node, name, joint)
        for i, name in enumerate(names)
    ]


def _ends(
    node: Node, child: str | None, frames: FrameTable, version: int, notes: Notes
) -> tuple[str, np.ndarray, str, np.ndarray]:
    """Body and placement of the parent frame, then of the child frame."""
    if child is None:
        parent_name, child_name = socket(node, "parent_frame"), socket(node, "child_frame")
        if not parent_name or not child_name:
            parent_name = parent_name or socket(node, "parent_body") or node.word("parent_body")
            child_name = child_name or socket(node, "child_body") or node.word("child_body")
        if not parent_name or not child_name:
            node.fail(f"{node.label} does not name its parent and its child frame")
    else:
        parent_name, child_name = node.word("parent_body"), child
        if not parent_name:
            node.fail(f"{node.label} names no parent body")
    parent, parent_frame = frames.find(parent_name, node)
    child_body, child_frame = frames.find(child_name, node)
    # Placements as numbers stand in files before 4.0 only.
    parent_frame = parent_frame @ _own(node, "location_in_parent", "orientation_in_parent")
    suffix = "_in_child" if version >= IN_CHILD else ""
    child_frame = child_frame @ _own(node, f"location{suffix}", f"orientation{suffix}")
    for tag in ("location", "orientation") if suffix else ():
        unread = node.child(tag)
        if unread is not None and any(unread.numbers()):
            words = f"left out as by OpenSim, which reads <{tag}_in_child> in version {version}"
            notes.add("approximated", unread, f"{node.label}: {words}")
    if child is not None:
        parent_frame = _with_all_digits(node, parent_name, parent_frame, frames, notes)
        child_frame = _with_all_digits(node, child_name, child_frame, frames, notes)
    return parent, parent_frame, child_body, child_frame


def offset_name(body: str) -> str:
    """What OpenSim 4 calls the frame that it makes of a joint's numbers in an old file."""
    return f"{body}_offset"


def _with_all_digits(
    node: Node, body: str, given: np.ndarray, frames: FrameTable, notes: Notes
) -> np.ndarray:
    """A joint's placement in an old file: its frame of that name where it has one, as OpenSim 4
    takes it; `save` writes it, since OpenSim keeps six digits of the numbers."""
    name, held = offset_name(body), node.child("frames")
    if held is None or all(frame.name != name for frame in held.children):
        return given
    _, placed = frames.find(name, node)
    if np.max(np.abs(placed - given)) > _SIX_DIGITS:
        words = f"its frame {name!r} and its numbers differ; the frame is used, as by OpenSim 4"
        notes.add("approximated", node, words)
    return placed


def _own(node: Node, location: str, angles: str) -> np.ndarray:
    zero = (0.0,) * 3
    return placement(
        np.asarray(finite(node, location, 3, zero)), np.asarray(finite(node, angles, 3, zero))
    )


def _coordinate_nodes(node: Node) -> list[Node]:
    held = node.child("coordinates")
    nodes = node.objects("CoordinateSet") if held is None else held.children
    for child in nodes:
        if child.tag != "Coordinate":
            child.fail(f"{child.label} stands among the coordinates of {node.label}")
        if not child.name:
            child.fail(f"a coordinate of {node.label} has no name")
    return list(nodes)


def _names(node: Node, given: list[Node], count: int) -> list[str]:
    """Names of a joint's coordinates; OpenSim's own names for those the file leaves out."""
    if len(given) > count:
        node.fail(f"{node.label} has {len(given)} coordinates; a {node.tag} has {count}")
    names = [child.name for child in given]
    return names + [f"{node.name}_coord_{i}" for i in range(len(given), count)]


def _simple_axes(node: Node, names: Sequence[str]) -> list[AxisSpec]:
    counts = {True: 0, False: 0}
    axes = []
    for position, turns, direction in _SIMPLE[node.tag][1]:
        counts[turns] += 1
        label = f"{'rotation' if turns else 'translation'}{counts[turns]}"
        axes.append(AxisSpec(label, turns, direction, IDENTITY, (names[position],), node))
    return axes


def _custom_axes(node: Node, names: Sequence[str], notes: Notes) -> list[AxisSpec]:
    """Translations, which are along axes of the parent frame, then rotations in turn."""
    transform = node.child("SpatialTransform")
    found: dict[str, AxisSpec] = {}
    held = [] if transform is None else transform.all("TransformAxis")
    unnamed = iter(_CUSTOM)
    for axis in held:
        label = axis.name or next(unnamed, "")
        if label not in _CUSTOM or label in found:
            axis.fail(
                f"{axis.label} of {node.label}: each of {', '.join(_CUSTOM)} is expected once"
            )
        found[label] = _transform_axis(axis, label, node, names, notes)
    order = [*_CUSTOM[3:], *_CUSTOM[:3]]
    return [found[label] for label in order if label in found]


def _transform_axis(
    axis: Node, label: str, joint: Node, names: Sequence[str], notes: Notes
) -> AxisSpec:
    used = [
        word.rsplit("/", 1)[-1] for word in axis.words("coordinates") or axis.words("coordinate")
    ]
    for name in used:
        if name not in names:
            axis.fail(f"{axis.label} of {joint.label} names {name!r}, no coordinate of the joint")
    holders = [child for child in axis.children if child.tag not in ("axis", "coordinates")]
    functions = [read for holder in holders if (read := read_function(holder)) is not None]
    if functions:
        function = functions[0]
    elif not used:
        function = constant_function(0.0)
    else:
        function = IDENTITY
        notes.add(
            "approximated",
            axis,
            f"{joint.label}: names {used[0]!r} without a function: taken as the coordinate itself "
            "(OpenSim 4 freezes such an axis)",
        )
    if function.arity is not None and function.arity != len(used):
        axis.fail(
            f"{axis.label} of {joint.label} names {len(used)} coordinates for a "
            f"{function.kind} function of {function.arity}"
        )
    default = np.eye(3)[int(label[-1]) - 1]
    direction = np.asarray(finite(axis, "axis", 3, tuple(default)))
    length = float(np.linalg.norm(direction))
    if not 1e-12 < length < 1e12:
        axis.fail(f"the axis of {axis.label} of {joint.label} has length {length:g}")
    turns = label.startswith("rotation")
    return AxisSpec(label, turns, direction / length, function, tuple(used), axis)


def _inverted(axes: Sequence[AxisSpec]) -> list[AxisSpec]:
    """The opposite motion: steps undone in the opposite order."""
    return [
        AxisSpec(a.name, a.turns, -a.direction, a.function, a.coordinates, a.node)
        for a in reversed(axes)
    ]


def inverted(joint: JointSpec) -> JointSpec:
    """The same joint seen from its child, where a tree must enter it from there."""
    return JointSpec(
        joint.name,
        joint.kind,
        joint.child,
        joint.child_placement,
        joint.parent,
        joint.parent_placement,
        tuple(_inverted(joint.axes)),
        joint.coordinates,
        joint.node,
    )


def _coordinate(node: Node, name: str, joint: JointSpec) -> CoordinateSpec:
    own = node.tag == "Coordinate"
    if not own:  # left out of the file: OpenSim's defaults
        return CoordinateSpec(
            name, joint.name, _motion(joint, name), 0.0, 0.0, (-np.inf, np.inf), False, False,
            None, node,
        )  # fmt: skip
    default = node.number("default_value", node.number("initial_value", 0.0))
    speed = node.number("default_speed_value", 0.0)
    for value in (default, speed):
        if not np.isfinite(value):
            node.fail(f"the default of {node.label} is {value}")
    low, high = node.vector("range", 2, (-np.inf, np.inf))
    if low > high:
        node.fail(f"the range of {node.label} is {low:g} to {high:g}")
    held = node.child("prescribed_function")
    prescribed = read_function(held) if held is not None and node.flag("prescribed") else None
    return CoordinateSpec(
        name=name,
        joint=joint.name,
        motion=node.word("motion_type").lower() or _motion(joint, name),
        default=default,
        speed=speed,
        range=(low, high),
        clamped=node.flag("clamped", False),
        locked=node.flag("locked", False),
        prescribed=prescribed,
        node=node,
    )


def _motion(joint: JointSpec, name: str) -> str:
    """Whether a coordinate is an angle or a length: by the steps that are linear in it."""
    for axis in joint.axes:
        direct = axis.function.kind in ("identity", "LinearFunction")
        if direct and axis.coordinates == (name,):
            return "rotational" if axis.turns else "translational"
    return "coupled"


_READERS: dict[str, tuple[int, Callable[[Node, Sequence[str]], list[AxisSpec]]]] = {
    **{tag: (count, _simple_axes) for tag, (count, _) in _SIMPLE.items()},
    "EllipsoidJoint": (3, ellipsoid),
    "ScapulothoracicJoint": (4, scapulothoracic),
}
