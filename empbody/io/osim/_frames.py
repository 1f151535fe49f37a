"""Frames of a file: which body a name or a path means, and where on it."""

import difflib

import numpy as np

from ._spec import GROUND, BodySpec, FrameSpec
from ._xml import Node


def placement(translation: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """4×4 from a translation (m) and body-fixed X, Y, Z angles (rad)."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    x = np.asarray([[1.0, 0.0, 0.0], [0.0, cx, -sx], [0.0, sx, cx]])
    y = np.asarray([[cy, 0.0, sy], [0.0, 1.0, 0.0], [-sy, 0.0, cy]])
    z = np.asarray([[cz, -sz, 0.0], [sz, cz, 0.0], [0.0, 0.0, 1.0]])
    out = np.eye(4)
    out[:3, :3] = x @ y @ z
    out[:3, 3] = translation
    return out


def inverse(transform: np.ndarray) -> np.ndarray:
    """Inverse of a rigid 4×4."""
    out = np.eye(4)
    out[:3, :3] = transform[:3, :3].T
    out[:3, 3] = -transform[:3, :3].T @ transform[:3, 3]
    return out


def seen_from(frame: np.ndarray, transform: np.ndarray) -> np.ndarray:
    """inverse(frame) @ transform, with the origins subtracted first: what sits where the frame
    does is at zero exactly, whatever the order in which a processor adds."""
    out = np.eye(4)
    out[:3, :3] = frame[:3, :3].T @ transform[:3, :3]
    out[:3, 3] = frame[:3, :3].T @ (transform[:3, 3] - frame[:3, 3])
    return out


class FrameTable:
    """Bodies and the frames fixed to them, found by name, by path, or relative to an element."""

    def __init__(self, bodies: dict[str, BodySpec], offsets: dict[str, Node]):
        self._bodies = bodies
        self._offsets = offsets
        self._found: dict[str, FrameSpec] = {}
        self._by_name: dict[str, list[str]] = {}
        for path in offsets:
            self._by_name.setdefault(path.rsplit("/", 1)[-1], []).append(path)

    @property
    def frames(self) -> dict[str, FrameSpec]:
        return dict(self._found)

    def find(self, frame: str, node: Node) -> tuple[str, np.ndarray]:
        """Body name and 4×4 placement in it."""
        return self._find(frame.strip(), node, ())

    def resolve_all(self) -> None:
        """Place every offset frame, so that a dangling one is found at once."""
        for path, node in self._offsets.items():
            self._placed(path, node, ())

    def _find(self, frame: str, node: Node, trail: tuple[str, ...]) -> tuple[str, np.ndarray]:
        if not frame:
            node.fail(f"{node.label} names no frame")
        name = frame.rsplit("/", 1)[-1]
        if name in ("..", "."):
            owner = _owner(node)
            if owner is None or owner.rsplit("/", 1)[-1] in ("..", ".", ""):
                node.fail(f"{node.label}: the path {frame!r} leads nowhere")
            return self._find(owner, node, trail)
        paths = self._candidates(frame, name, node)
        if not paths and (name == GROUND or name in self._bodies):
            return name, np.eye(4)
        if not paths:
            known = [GROUND, *self._bodies, *self._by_name]
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"; did you mean one of {near}?" if near else ""
            node.fail(f"{node.label}: there is no body or frame {frame!r}{hint}")
        if len(paths) > 1:
            node.fail(f"{node.label}: {frame!r} may mean any of {sorted(paths)}")
        placed = self._placed(paths[0], self._offsets[paths[0]], trail)
        return placed.body, placed.placement

    def _candidates(self, frame: str, name: str, node: Node) -> list[str]:
        """Paths of offset frames that a name can mean, the nearest reading first."""
        if frame in self._offsets:
            return [frame]
        paths = self._by_name.get(name, [])
        if not paths:
            return []
        if "/" in frame:
            tail = "/" + "/".join(part for part in frame.split("/") if part not in ("..", ".", ""))
            return [path for path in paths if path.endswith(tail)]
        above: Node | None = node
        while above is not None:  # a frame of the element itself, or of one around it
            own = [path for path in paths if _local(self._offsets[path], above)]
            if len(own) == 1:
                return own
            above = above.parent
            if above is not None and above.tag in ("Model", "OpenSimDocument"):
                break
        if name == GROUND or name in self._bodies:
            return []
        return paths

    def _placed(self, path: str, node: Node, trail: tuple[str, ...]) -> FrameSpec:
        if path in self._found:
            return self._found[path]
        if path in trail or len(trail) > 100:
            node.fail(f"{node.label} is attached to itself: {' -> '.join([*trail, path])}")
        parent = socket(node, "parent")
        body, base = self._find(parent, node, (*trail, path))
        own = placement(
            np.asarray(finite(node, "translation", 3, (0.0,) * 3)),
            np.asarray(finite(node, "orientation", 3, (0.0,) * 3)),
        )
        self._found[path] = FrameSpec(path, body, base @ own, node)
        return self._found[path]


def finite(node: Node, tag: str, n: int, default: tuple[float, ...] | None) -> tuple[float, ...]:
    """`n` finite numbers of a property."""
    values = node.vector(tag, n, default)
    if not np.all(np.isfinite(values)):
        node.fail(f"<{tag}> of {node.label} holds an infinite number")
    return values


def socket(node: Node, name: str) -> str:
    """What a socket of this name is connected to, in the spelling of any version; or ""."""
    for tag in (
        f"socket_{name}",
        f"socket_{name}_connectee_name",
        f"connector_{name}_connectee_name",
    ):
        if text := node.word(tag):
            return text
    holder = node.child("connectors")
    for connector in [] if holder is None else holder.children:
        if connector.name == name:
            return connector.word("connectee_name")
    return ""


def _owner(node: Node) -> str | None:
    """Name of the body or ground that an element stands in."""
    above = node.parent
    while above is not None:
        if above.tag == "Body":
            return above.name
        if above.tag == "Ground":
            return GROUND
        if above.tag == "PhysicalOffsetFrame":
            return above.name
        above = above.parent
    return None


def _local(frame: Node, element: Node) -> bool:
    """Whether a frame is written directly within an element (in its <frames> or the like)."""
    above = frame.parent
    return above is element or (
        above is not None and above.tag in ("frames", "components") and above.parent is element
    )
