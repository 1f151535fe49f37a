"""Lengths, lengthening speeds and moment arms of musculotendon units: the fast path."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dynamics._batching import lanes_under_vmap
from ..kinematics._arguments import coordinates
from ..kinematics._lanes import lanes_last, mix
from ..kinematics._links import LaneTree, lane_jet, link_transforms, screws
from ..model import Model, PathSet
from ._effective import strings_from_frames
from ._contacts import NATIVE
from ._geometry import Frames, LanePaths, body_frames, conditions, moving_locations
from ._opensim import opensim_moment_arms
from ._plan import plan_of
from ._pose_pulls import PoseGiven, Structure, pose_rows
from ._report import require_ranges
from ._string import pulls, strings, sums, unit_lengths
from ._table import table_rows

Coordinates = Float[Array, " nq"]


def path_lengths(model: Model, q: Coordinates) -> Float[Array, " nm"]:
    """Length of every musculotendon unit (m), from origin to insertion.

    **Raises:** `ValueError` where q is outside a moving point's range, if its numbers can be
    looked at (not under jit, vmap or grad; see `check_paths`).
    """
    require_ranges(model, q)
    return _path_lengths(model, q)


@eqx.filter_jit
def _path_lengths(model: Model, q: Coordinates) -> Float[Array, " nm"]:
    (q,) = coordinates(model, q=q)
    if model.paths.tables:
        return _from_tables(model, q)[0]
    return _lengths((model, q))


def moment_arms(
    model: Model, q: Coordinates, convention: str = "derivative"
) -> Float[Array, "nq nm"]:
    """R = -∂L/∂q (m, or m per m): generalised forces of unit tension (Ehsani 2016, Eq. 193).

    Exact for coupled coordinates, moving points and wrapping. From the forces that each
    string exerts on the links, not by differentiating lengths; so it costs little more
    than the lengths and can be differentiated itself.

    `convention="opensim"` gives OpenSim's numbers instead, which differ where a coordinate is
    coupled to several others and where points move (see `opensim_moment_arms`): for
    comparison only.
    """
    require_ranges(model, q)
    if convention == "opensim":
        return opensim_moment_arms(model, q)
    if convention != "derivative":
        raise ValueError(f'there is no convention {convention!r}; use "derivative" or "opensim"')
    return _moment_arms(model, q)


@eqx.filter_jit
def _moment_arms(model: Model, q: Coordinates) -> Float[Array, "nq nm"]:
    (q,) = coordinates(model, q=q)
    return _moment_arms_of(model, q)


def _moment_arms_of(model: Model, q: Coordinates) -> Float[Array, "nq nm"]:
    return _from_tables(model, q)[1] if model.paths.tables else _arms((model, q))


def lengthening_speeds(model: Model, q: Coordinates, qd: Coordinates) -> Float[Array, " nm"]:
    """dL/dt = ∂L/∂q · q̇ (m/s); positive while the unit lengthens. Raises as `path_lengths`."""
    require_ranges(model, q)
    return _lengthening_speeds(model, q, qd)


@eqx.filter_jit
def _lengthening_speeds(model: Model, q: Coordinates, qd: Coordinates) -> Float[Array, " nm"]:
    q, qd = coordinates(model, q=q, qd=qd)
    return -(qd @ _moment_arms_of(model, q))


def lengths_and_arms(
    model: Model, q: Coordinates
) -> tuple[Float[Array, " nm"], Float[Array, "nq nm"]]:
    """Lengths and moment arms together, for the price of the moment arms. Raises as
    `path_lengths`."""
    require_ranges(model, q)
    return _lengths_and_arms(model, q)


@eqx.filter_jit
def _lengths_and_arms(
    model: Model, q: Coordinates
) -> tuple[Float[Array, " nm"], Float[Array, "nq nm"]]:
    (q,) = coordinates(model, q=q)
    if model.paths.tables:
        return _from_tables(model, q)
    both = _both((model, q))
    return both[0], both[1:]


def _from_tables(model: Model, q: Coordinates) -> tuple[Array, Array]:
    """Lengths and moment arms, looked up for the units that have tables."""
    units = [unit for table in model.paths.tables for unit in table.units]
    parts = [table_rows(table, q) for table in model.paths.tables]
    rest = [unit for unit in range(model.nm) if unit not in units]
    if rest:
        paths = model.paths.only(rest)
        others = eqx.tree_at(
            lambda m: m.paths, model, paths, is_leaf=lambda x: isinstance(x, PathSet)
        )
        both = _both((others, q))
        parts.append((both[0], both[1:]))
    order = np.argsort([*units, *rest])
    lengths = jnp.concatenate([length for length, _ in parts])
    return lengths[order], jnp.concatenate([arms for _, arms in parts], axis=1)[:, order]


def lengths_from_frames(
    model: Model, q: Coordinates, transforms: Float[Array, "nb 4 4"]
) -> Float[Array, " nm"]:
    """Lengths (m) for given ground-to-body transforms; q moves moving points and decides on
    conditional ones."""
    found, _ = strings_from_frames(model, q, transforms)
    return unit_lengths(model, found)[:, 0]


def _lanes(
    arguments: tuple[Model, Array],
    batched: Any,
    size: int,
    lengths: bool,
    arms: bool,
) -> Float[Array, "... lanes"]:
    """Rows: the lengths, then the moment arms by coordinate, as asked for."""
    model, q = arguments
    model_batched, q_batched = batched
    nothing = not any(jax.tree.leaves(model_batched))
    flags = None if nothing else model_batched
    q = jnp.broadcast_to(lanes_last(q, q_batched), (model.nq, size))
    jet = lane_jet(model.rhythm, q, jnp.zeros_like(q), None if flags is None else flags.rhythm)
    tree = LaneTree.of(model, flags)
    transform = link_transforms(tree, jet.value)
    frames = body_frames(model, transform, flags)
    paths = LanePaths.of(model.paths, None if flags is None else flags.paths)
    if model.nm == 0:
        return jnp.zeros((lengths + model.nq * arms, 0, size), dtype=q.dtype)
    motion = origin = None
    if arms:
        origin = jax.lax.stop_gradient(transform[model.topology.order[-1], :, 3])
        screw = screws(tree, transform, origin[None])
        motion = mix(model.topology.ancestors, screw[:, :, None] * jet.jacobian[:, None])
    given = _Given(paths, frames, q, motion, origin)
    return _rows(model, given, lengths, arms) if NATIVE else _rows_by_lanes(model, given, lengths, arms)


class _Given(NamedTuple):
    paths: LanePaths
    frames: Frames
    q: Float[Array, "nq lanes"]
    motion: Float[Array, "nj 6 nq lanes"] | None
    origin: Float[Array, "3 lanes"] | None


def _rows_by_lanes(model: Model, given: _Given, lengths: bool, arms: bool) -> Array:
    """Rows of `_lanes`."""
    all_strings = strings(model, given.paths, given.frames, given.q)
    rows = []
    if lengths:
        rows.append(unit_lengths(model, all_strings)[None])
    if arms:
        assert given.motion is not None
        assert given.origin is not None
        size = given.q.shape[-1]
        rows.append(_virtual_work(model, all_strings, given.motion, given.origin, size))
    return jnp.concatenate(rows)


@eqx.filter_custom_jvp
def _rows(model: Model, given: _Given, lengths: bool, arms: bool) -> Array:
    """The same in machine code, pose by pose."""
    from ..native._call import call
    layout = model.paths.layout
    plan = plan_of(layout, model.topology)
    bodies = sorted(given.frames)
    size = given.q.shape[-1]
    points = conditions(model, given.paths, given.q)
    moved = slope = None
    if layout.moving:
        moved, slope = moving_locations(model, given.paths, given.frames, given.q)
    still = jnp.eye(3, 4, dtype=given.q.dtype)[:, :, None]
    stacked = [*(given.frames[body] for body in bodies), still]
    stacked = jnp.stack([jnp.broadcast_to(frame, (3, 4, size)) for frame in stacked])
    paths = given.paths
    has = (*sorted(set(plan.kinds)), *(["side"] if plan.sided else []))
    structure = Structure(plan, layout, (*bodies, -1), has, lengths, arms)
    alive = jnp.stack([points[p] for p, _ in layout.conditional]) if layout.conditional else None
    return call(pose_rows(structure), PoseGiven(
        frames=stacked, location=paths.location, alive=alive, moved=moved, slope=slope,
        translation=paths.surface_translation, rotation=paths.surface_rotation,
        size=paths.surface_size, motion=given.motion, origin=given.origin), size)


@_rows.def_jvp
def _rows_jvp(primals: Any, tangents: Any) -> Any:
    def rows(model: Model, given: _Given) -> Array:
        return _rows_by_lanes(model, given, *primals[2:])
    return eqx.filter_jvp(rows, primals[:2], tangents[:2])


def _virtual_work(
    model: Model, all_strings: Any, motion: Float[Array, "nj 6 nq lanes"], origin: Array, size: int
) -> Float[Array, "nq nm lanes"]:
    """Virtual work of unit tension: each link's motion per coordinate times its wrench."""
    found = pulls(model, all_strings, origin)
    parts, owner = [], []
    if found.unit:
        moved = motion.at[np.asarray(found.link)].get(mode="promise_in_bounds")
        work = sum(moved[:, k] * found.wrench[k][:, None] for k in range(6))
        parts, owner = [jnp.moveaxis(work, 1, 0)], list(found.unit)  # pyright: ignore
    layout = model.paths.layout
    if layout.moving:
        slope = all_strings.points.slope
        work = sum(slope[:, k] * found.on_points[k][:, None] for k in range(3))
        parts.append(jnp.moveaxis(work, 1, 0))  # pyright: ignore
        owner += [layout.unit_of(point) for point, _ in layout.moving]
    if not parts:
        return jnp.zeros((model.nq, model.nm, size), dtype=origin.dtype)
    return sums(jnp.concatenate(parts, axis=1), owner, model.nm)


def _function(lengths: bool, arms: bool) -> Any:
    return lanes_under_vmap(functools.partial(_lanes, lengths=lengths, arms=arms), True)


_lengths_row, _arms, _both = _function(True, False), _function(False, True), _function(True, True)


def _lengths(arguments: tuple[Model, Array]) -> Float[Array, " nm"]:
    return _lengths_row(arguments)[0]
