"""Lengths, lengthening speeds and moment arms of musculotendon units: the fast path."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dynamics._batching import lanes_under_vmap
from ..kinematics._arguments import coordinates
from ..kinematics._lanes import lanes_last
from ..kinematics._links import LaneTree, lane_jet
from ..model import Model, PathSet
from ._effective import strings_from_frames
from ._geometry import LanePaths
from ._opensim import opensim_moment_arms
from ._report import require_ranges, require_speeds
from ._rows import joint_rows
from ._string import unit_lengths
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
    """dL/dt = ∂L/∂q · q̇ (m/s); positive while the unit lengthens. Raises as `path_lengths`, and
    where a speed is NaN or infinite."""
    require_ranges(model, q)
    require_speeds(model, qd)
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
    return unit_lengths(model.paths.layout, found)[:, 0]


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
    paths = LanePaths.of(model.paths, None if flags is None else flags.paths)
    if model.nm == 0:
        return jnp.zeros((lengths + model.nq * arms, 0, size), dtype=q.dtype)
    return joint_rows(model, paths, tree, jet, q, lengths, arms)


def _function(lengths: bool, arms: bool) -> Any:
    return lanes_under_vmap(functools.partial(_lanes, lengths=lengths, arms=arms), True)


_lengths_row, _arms, _both = _function(True, False), _function(False, True), _function(True, True)


def _lengths(arguments: tuple[Model, Array]) -> Float[Array, " nm"]:
    return _lengths_row(arguments)[0]
