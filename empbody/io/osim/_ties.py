"""Constraints of a file that tie two frames together."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ._build import joint_steps
from ._expressions import Expression
from ._frames import FrameTable, finite, placement, socket
from ._loops import Arm, Kind
from ._spec import GROUND, JointSpec
from ._xml import Node

KINDS: dict[str, Kind] = {
    "WeldConstraint": "weld",
    "PointConstraint": "point",
    "ConstantDistanceConstraint": "distance",
}


@dataclass(frozen=True, eq=False)
class Tie:
    """Two frames that a constraint ties together, each at the end of an arm."""

    kind: Kind
    node: Node
    arms: tuple[Arm, Arm]
    distance: float
    steps: list[Expression]
    """What the steps of both arms are, in turn."""

    @property
    def inputs(self) -> set[str]:
        return set().union(*(step.inputs() for step in self.steps)) if self.steps else set()


def read_tie(
    node: Node,
    frames: FrameTable,
    carriers: Mapping[str, JointSpec],
    values: Mapping[str, Expression],
) -> Tie:
    """A constraint as two arms that start at the body which both ends hang from."""
    ends = [_end(node, frames, k) for k in (1, 2)]
    ways = [_way(body, carriers) for body, _ in ends]
    shared = 0
    while shared < min(map(len, ways)) and ways[0][shared] is ways[1][shared]:
        shared += 1
    arms, steps = [], []
    for (_, place), way in zip(ends, ways, strict=True):
        arm, moved = _arm(way[shared:], place, values)
        arms.append(arm)
        steps += moved
    distance = 1.0
    if node.tag == "ConstantDistanceConstraint":
        distance = node.number("constant_distance", 0.0)
        if not 0.0 < distance < np.inf:
            node.fail(f"the distance of {node.label} is {distance:g} m; it must be above 0")
    return Tie(KINDS[node.tag], node, (arms[0], arms[1]), distance, steps)


def _end(node: Node, frames: FrameTable, k: int) -> tuple[str, np.ndarray]:
    """Body and placement of one end, in the spelling of any version."""
    name = (
        socket(node, f"body_{k}")
        or socket(node, f"frame{k}")
        or node.word(f"body_{k}")
        or node.word(f"frame{k}")
    )
    body, base = frames.find(name, node)
    zero = (0.0,) * 3
    return body, base @ placement(
        np.asarray(finite(node, f"location_body_{k}", 3, zero)),
        np.asarray(finite(node, f"orientation_body_{k}", 3, zero)),
    )


def _way(body: str, carriers: Mapping[str, JointSpec]) -> list[JointSpec]:
    """Joints from the ground to a body."""
    way: list[JointSpec] = []
    while body != GROUND:
        way.append(carriers[body])
        body = carriers[body].parent
    return way[::-1]


def _arm(
    way: list[JointSpec], place: np.ndarray, values: Mapping[str, Expression]
) -> tuple[Arm, list[Expression]]:
    places, axes, turns, moved = [], [], [], []
    behind = np.eye(4)
    for joint in way:
        steps, end = joint_steps(joint, values)
        for before, axis, value in steps:
            places.append(behind @ before)
            axes.append(axis.direction)
            turns.append(axis.turns)
            moved.append(value)
            behind = np.eye(4)
        behind = behind @ end
    return Arm(places, axes, behind @ place, turns), moved
