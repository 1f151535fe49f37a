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

from ..model import Model, PathLayout
from ..native import Program
from ._block import BLOCK
from ._block_pulls import block_rows
from ._geometry import Frames, LanePaths, placed_points, surface_frames
from ._numbers import PathNumbers, Structure, numbers_of
from ._string import Strings, pulls, strings_of, sums, unit_lengths

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
    if structure.plan.slots:
        return _over_surfaces(numbers, structure)
    return _by_lanes(structure, numbers)


@eqx.filter_custom_jvp
def _over_surfaces(numbers: PathNumbers, structure: Structure) -> Rows:
    return _program(structure)(numbers, numbers.frames.shape[-1])


@_over_surfaces.def_jvp
def _(primals: Any, tangents: Any) -> tuple[Rows, Rows]:
    numbers, structure = primals
    return eqx.filter_jvp(lambda numbers: _by_lanes(structure, numbers), (numbers,), tangents[:1])


@functools.lru_cache(maxsize=64)
def _program(structure: Structure) -> Program:
    def shape(given: PathNumbers) -> jax.ShapeDtypeStruct:
        arms = 0 if given.motion is None else given.motion.shape[2]
        rows = structure.lengths + arms, structure.layout.n_units
        return jax.ShapeDtypeStruct(rows, given.location.dtype)

    in_machine_code = functools.partial(block_rows, structure)
    return Program(in_machine_code, functools.partial(_by_lanes, structure), BLOCK, shape)


def _by_lanes(structure: Structure, numbers: PathNumbers) -> Rows:
    """All lanes at once."""
    plan, layout, bodies, lengths = structure
    lanes, dtype = numbers.frames.shape[-1], numbers.frames.dtype
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
