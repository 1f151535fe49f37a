"""Lengths and moment arms looked up in a table of B-splines."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dynamics._batching import lanes_under_vmap
from ..kinematics._lanes import lanes_last
from ..model import PathTable


def _lanes(arguments: tuple[PathTable, Array], batched: Any, size: int) -> Array:
    """(lengths, then slopes to the table's coordinates; units; lanes)."""
    table, x = arguments
    flags, x_batched = batched
    x = jnp.broadcast_to(lanes_last(x, x_batched), (len(table.coordinates), size))
    low, step = lanes_last(table.low, flags.low), lanes_last(table.step, flags.step)
    cell, value, slope = _basis(x, low, step, table.cells)
    # The sizes of a cell's corner in the flat list of coefficients, axis by axis.
    counts = [n + 3 for n in table.cells]
    strides = np.append(np.cumprod(counts[:0:-1])[::-1], 1).astype(np.int32)
    corners = np.array(
        [np.dot(c, strides) for c in itertools.product(range(4), repeat=len(counts))]
    )
    rows = jnp.sum(cell * strides[:, None], axis=0)[:, None] + corners.astype(np.int32)[None]
    flat = table.coefficients.reshape(
        *table.coefficients.shape[: flags.coefficients], -1, len(table.units)
    )
    if flags.coefficients:
        rows = rows + (jnp.arange(size, dtype=jnp.int32) * flat.shape[1])[:, None]
        flat = flat.reshape(-1, len(table.units))
    near = flat.at[rows].get(mode="promise_in_bounds")
    weights = [_product(value)]
    for axis in range(len(counts)):
        mixed = [slope[k] / step[k][None] if k == axis else value[k] for k in range(len(counts))]
        weights.append(_product(mixed))
    # A small matrix product per lane: for these XLA is quicker than for sums.
    return jnp.einsum("fkb,bkm->fmb", jnp.stack(weights), near)


def _basis(
    x: Float[Array, "nd lanes"], low: Array, step: Array, cells: tuple[int, ...]
) -> tuple[Array, list[Array], list[Array]]:
    """Cell of each coordinate; its four basis functions and their slopes per cell, by axis."""
    high = np.array(cells, dtype=float)[:, None]
    place = (x - low) / step
    inside = jnp.clip(place, 0.0, high)
    cell = jnp.clip(jnp.floor(inside), 0.0, high - 1.0)
    u, beyond = inside - cell, place - inside
    v = 1.0 - u
    value = [v**3, 3.0 * u**3 - 6.0 * u**2 + 4.0, 3.0 * v**3 - 6.0 * v**2 + 4.0, u**3]
    slope = [-(v**2), 3.0 * u**2 - 4.0 * u, 4.0 * v - 3.0 * v**2, u**2]
    value, slope = jnp.stack(value) / 6.0, jnp.stack(slope) / 2.0
    value = value + slope * beyond[None]
    axes = range(len(cells))
    return cell.astype(jnp.int32), [value[:, k] for k in axes], [slope[:, k] for k in axes]


def _product(factors: list[Array]) -> Array:
    """(4 to the number of axes, lanes): products of one number of each axis."""
    out = factors[0]
    for factor in factors[1:]:
        out = (out[:, None] * factor[None]).reshape(-1, factor.shape[-1])
    return out


_look_up = lanes_under_vmap(_lanes, True)


def table_rows(
    table: PathTable, q: Float[Array, " nq"]
) -> tuple[Float[Array, " nu"], Float[Array, "nq nu"]]:
    """Lengths (m) and moment arms of the table's units."""
    at = np.array(table.coordinates)
    found = _look_up((table, q[at]))
    arms = jnp.zeros((q.shape[0], len(table.units)), found.dtype).at[at].set(-found[1:])
    return found[0], arms
