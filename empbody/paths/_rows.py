"""Lengths and moment arms of all units, as rows.

Over surfaces they are worked out in machine code on CPUs (`_block_pulls`);
otherwise, and for derivatives, for all lanes at once (`_string`).
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics._links import LaneTree
from ..model import Model, PathLayout
from ..native import Program
from ..rhythms import Jet
from ._block import BLOCK
from ._block_pulls import block_rows
from ._geometry import Frames, LanePaths, placed_points, sums, surface_frames
from ._numbers import (
    JointNumbers,
    PathNumbers,
    Structure,
    joint_numbers_of,
    numbers_of,
    with_frames,
)
from ._string import Strings, pulls, strings_of, unit_lengths

Rows = Float[Array, "rows nm lanes"]


def path_rows(
    model: Model,
    paths: LanePaths,
    frames: Frames,
    q: Float[Array, "nq lanes"],
    lengths: bool,
    motion: Float[Array, "nj 6 nq lanes"] | None = None,
    origin: Float[Array, "3 lanes"] | None = None,
) -> Rows:
    """Lengths (m) if asked for; then moment arms by coordinate, if each link's motion per
    coordinate about an origin is given."""
    structure, numbers = numbers_of(model, paths, frames, q, lengths, motion, origin)
    return _rows(numbers, structure, q.shape[-1])


def joint_rows(
    model: Model,
    paths: LanePaths,
    tree: LaneTree,
    jet: Jet,
    q: Float[Array, "nq lanes"],
    lengths: bool,
    arms: bool,
) -> Rows:
    """The same, and where the links are as well, from joint variables."""
    structure, numbers = joint_numbers_of(model, paths, tree, jet, q, lengths, arms)
    return _rows(numbers, structure, q.shape[-1])


Given = PathNumbers | JointNumbers


def _rows(numbers: Given, structure: Structure, lanes: int) -> Rows:
    if structure.plan.slots:
        return _over_surfaces(numbers, structure, lanes)
    return _by_lanes(structure, lanes, numbers)


@eqx.filter_custom_jvp
def _over_surfaces(numbers: Given, structure: Structure, lanes: int) -> Rows:
    return _program(structure)(numbers, lanes)


@_over_surfaces.def_jvp
def _(primals: Any, tangents: Any) -> tuple[Rows, Rows]:
    numbers, structure, lanes = primals
    return eqx.filter_jvp(
        lambda numbers: _by_lanes(structure, lanes, numbers), (numbers,), tangents[:1]
    )


@functools.lru_cache(maxsize=64)
def _program(structure: Structure) -> Program:
    def shape(given: Given) -> jax.ShapeDtypeStruct:
        moved = given.jacobian if isinstance(given, JointNumbers) else given.motion
        arms = 0 if moved is None else moved.shape[-1]
        rows = structure.lengths + arms, structure.layout.n_units
        return jax.ShapeDtypeStruct(rows, given.location.dtype)

    def by_lanes(given: Given) -> Rows:
        lanes = max(x.shape[-1] for x in jax.tree.leaves(given))
        return _by_lanes(structure, lanes, given)

    return Program(functools.partial(block_rows, structure), by_lanes, BLOCK, shape)


def _by_lanes(structure: Structure, lanes: int, numbers: Given) -> Rows:
    """All lanes at once."""
    plan, layout, bodies, lengths, _ = structure
    if isinstance(numbers, JointNumbers):
        numbers = with_frames(structure, numbers, lanes)
    dtype = numbers.frames.dtype
    frames = {body: numbers.frames[k] for k, body in enumerate(bodies) if body >= 0}
    nq = 0 if numbers.motion is None else numbers.motion.shape[2]
    moved, slope = numbers.moved, numbers.slope
    if moved is None or slope is None:
        moved, slope = jnp.zeros((3, 0, lanes), dtype), jnp.zeros((0, 3, nq, lanes), dtype)
    alive = {}
    if numbers.alive is not None:
        alive = {point: numbers.alive[k] for k, (point, _) in enumerate(layout.conditional)}
    points = placed_points(layout, frames, numbers.location, moved, slope, alive)
    surfaces = None
    if plan.slots:
        surfaces = surface_frames(
            layout, frames, numbers.translation, numbers.rotation, numbers.size
        )
    found = strings_of(plan, points, surfaces)
    rows = [unit_lengths(layout, found)[None]] if lengths else []
    if numbers.motion is not None:
        assert numbers.origin is not None
        rows.append(_virtual_work(layout, found, numbers.motion, numbers.origin))
    return jnp.concatenate(rows)


def _virtual_work(
    layout: PathLayout,
    strings: Strings,
    motion: Float[Array, "nj 6 nq lanes"],
    origin: Float[Array, "3 lanes"],
) -> Float[Array, "nq nm lanes"]:
    """Virtual work of unit tension: each link's motion per coordinate times its wrench."""
    found = pulls(layout, strings, origin)
    parts, owner = [], []
    if found.unit:
        moved = motion.at[np.asarray(found.link)].get(mode="promise_in_bounds")
        work = sum(moved[:, k] * found.wrench[k][:, None] for k in range(6))
        parts, owner = [jnp.moveaxis(work, 1, 0)], list(found.unit)  # pyright: ignore
    if layout.moving:
        slope = strings.points.slope
        work = sum(slope[:, k] * found.on_points[k][:, None] for k in range(3))
        parts.append(jnp.moveaxis(work, 1, 0))  # pyright: ignore
        owner += [layout.unit_of(point) for point, _ in layout.moving]
    if not parts:
        shape = (motion.shape[2], layout.n_units, motion.shape[-1])
        return jnp.zeros(shape, dtype=origin.dtype)
    return sums(jnp.concatenate(parts, axis=1), owner, layout.n_units)
