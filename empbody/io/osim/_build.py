"""From a file's description to bodies, joints and rhythm.

A joint becomes a chain of one-axis joints named by joint and axis. Steps that do not move
(constants, locked coordinates) are folded into the placements between them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...model import Body, Chain, Marker, Prismatic, Revolute, Weld
from ...model._checks import inertia_matrix
from ...rhythms import AbstractRhythm
from ._expressions import Expression, rhythm_of
from ._frames import inverse
from ._read_joints import inverted
from ._report import Notes
from ._spec import GROUND, AxisSpec, BodySpec, JointSpec, ModelSpec

_MOST_IN_A_ROW = 300
_PHANTOM_RADIUS = 1.0


class Skeleton(NamedTuple):
    """What `Model.build` takes for the bones."""

    bodies: list[Body]
    rhythm: AbstractRhythm
    variables: dict[str, Expression]
    """Joint variables by name, as expressions of the free coordinates."""
    markers: list[Marker]


def build_skeleton(
    spec: ModelSpec, names: Sequence[str], values: Mapping[str, Expression], notes: Notes
) -> Skeleton:
    """Bodies in the file's order, the joint chains that carry them, and their rhythm."""
    carriers = tree(spec)
    bodies: list[Body] = []
    variables: dict[str, Expression] = {}
    for given in spec.bodies.values():
        joint = carriers[given.name]
        chain, moved = _chain(joint, values)
        for name, value in moved:
            if name in variables:
                joint.node.fail(f"two joint variables would be called {name!r}")
            variables[name] = value
        # OpenSim keeps inertia per mass, so that a body without mass has none.
        inertia = given.inertia if given.mass > 0.0 else np.zeros((3, 3))
        body = Body(given.name, joint.parent, chain, given.mass, given.com, inertia, True)
        try:
            inertia_matrix(body)
        except ValueError as error:
            given.node.fail(str(error))
        bodies.append(body)
        _look_at(given, notes)
    if not variables:
        spec.model.fail("nothing in this model can move: every joint is welded or locked")
    used = set().union(*(value.inputs() for value in variables.values()))
    for name in names:
        if name not in used:
            notes.warn(f"the coordinate {name!r} moves no body: its inertia is zero")
    rhythm = rhythm_of(list(variables.values()), names)
    markers = [Marker(m.name, m.body, m.location) for m in spec.markers]
    return Skeleton(bodies, rhythm, variables, markers)


def tree(spec: ModelSpec) -> dict[str, JointSpec]:
    """The joint that carries each body, seen from the ground outwards."""
    beside: dict[str, list[JointSpec]] = {}
    for joint in spec.joints:
        if joint.parent == joint.child:
            joint.node.fail(f"{joint.node.label} connects {joint.parent!r} with itself")
        beside.setdefault(joint.parent, []).append(joint)
        beside.setdefault(joint.child, []).append(joint)
    carriers: dict[str, JointSpec] = {}
    depth = {GROUND: 0}
    waiting = [GROUND]
    taken: set[int] = set()
    for here in waiting:  # grows while it is walked
        for joint in beside.get(here, []):
            if id(joint) in taken:
                continue
            taken.add(id(joint))
            outward = joint if joint.parent == here else inverted(joint)
            if outward.child in depth:
                joint.node.fail(
                    f"{joint.node.label} closes a loop of joints at {outward.child!r}, which is "
                    "not supported; replace it by a coupler or a constraint"
                )
            carriers[outward.child] = outward
            depth[outward.child] = depth[here] + 1
            if depth[outward.child] > _MOST_IN_A_ROW:
                joint.node.fail(f"more than {_MOST_IN_A_ROW} bodies hang in a row")
            waiting.append(outward.child)
    for name, body in spec.bodies.items():
        if name not in carriers:
            body.node.fail(
                f"no joint leads from the ground to {body.node.label}; connect it, with a "
                "FreeJoint if it is to move freely"
            )
    return carriers


def _chain(
    joint: JointSpec, values: Mapping[str, Expression]
) -> tuple[Chain | Weld, list[tuple[str, Expression]]]:
    """A body's joint, and the variables that move it with their values."""
    steps, place = joint_steps(joint, values)
    links: list[Revolute | Prismatic] = []
    moved: list[tuple[str, Expression]] = []
    for before, axis, value in steps:
        kind = Revolute if axis.turns else Prismatic
        name = f"{joint.name}.{axis.name}"
        links.append(kind(axis.direction, before[:3, 3], before[:3, :3], name))
        moved.append((name, value))
    if not links:
        return Weld(place[:3, 3], place[:3, :3]), moved
    if np.array_equal(place, np.eye(4)):
        return Chain(tuple(links)), moved
    return Chain(tuple(links), place[:3, 3], place[:3, :3]), moved


def joint_steps(
    joint: JointSpec, values: Mapping[str, Expression]
) -> tuple[list[tuple[np.ndarray, AxisSpec, Expression]], np.ndarray]:
    """Steps of a joint that move: placement before each, its axis, its value. And the
    placement of the child's body behind the last; steps that rest are folded in."""
    place = joint.parent_placement
    steps: list[tuple[np.ndarray, AxisSpec, Expression]] = []
    for axis in joint.axes:
        value = axis.function.of([values[name] for name in axis.coordinates])
        if value.is_constant:
            place = place @ _step(axis.turns, axis.direction, value.offset)
            continue
        steps.append((place, axis, value))
        place = np.eye(4)
    return steps, place @ inverse(joint.child_placement)


def _step(turns: bool, direction: np.ndarray, value: float) -> np.ndarray:
    """A constant step of a joint as a 4×4."""
    out = np.eye(4)
    if turns:
        x, y, z = direction
        skew = np.asarray([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        out[:3, :3] += np.sin(value) * skew + (1.0 - np.cos(value)) * (skew @ skew)
    else:
        out[:3, 3] = value * direction
    return out


def _look_at(body: BodySpec, notes: Notes) -> None:
    """Point out bodies whose mass and inertia cannot be those of a real segment."""
    a, b, c = np.linalg.eigvalsh(body.inertia)
    if c > (a + b) * (1.0 + 1e-9):
        notes.warn(
            f"body {body.name!r} has an inertia that no rigid body has: the principal moment "
            f"{c:.6g} kg m² is larger than {a:.6g} + {b:.6g}; it is used as it stands"
        )
    largest = float(np.abs(body.inertia).max())
    if body.mass == 0.0 and largest == 0.0:
        notes.warn(f"body {body.name!r} has no mass")
    elif body.mass == 0.0:
        notes.warn(
            f"body {body.name!r} has no mass but an inertia of {largest:g} kg m², which has no "
            "effect, as in OpenSim"
        )
    elif largest > body.mass * _PHANTOM_RADIUS**2:
        radius = float(np.sqrt(largest / body.mass))
        notes.warn(
            f"body {body.name!r} is a phantom: {body.mass:g} kg with an inertia of {largest:g} "
            f"kg m² (radius of gyration {radius:.3g} m), which adds to the mass matrix"
        )
