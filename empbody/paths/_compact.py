"""Work only on the members of a batch that need it.

Under vmap a branch costs every sample what it costs the dearest. Here the members that need
some work are put into a list, which is worked through in blocks: as many blocks as there are
such members, whatever the size of the batch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class WorkList(NamedTuple):
    order: Int[Array, " room"]
    """Members that need work, one after the other; what fills up the last block repeats its
    first member."""
    place: Int[Array, " n"]
    """Where each member stands in the list, if it does."""
    total: Int[Array, ""]


def work_list(needed: Bool[Array, " n"], block: int) -> WorkList:
    size = needed.shape[0]
    room = size + block
    if size > _MOST:
        total = jnp.cumsum(needed.astype(jnp.int32))
    else:
        total = _counts(needed.astype(jnp.float32)).astype(jnp.int32)
    place, count = jnp.maximum(total - 1, 0), total[-1]
    order = jnp.zeros(room, jnp.int32)
    order = order.at[jnp.where(needed, place, room)].set(
        jnp.arange(size, dtype=jnp.int32), mode="drop", unique_indices=True
    )
    head = order[jnp.maximum(count - 1, 0) // block * block]
    return WorkList(jnp.where(jnp.arange(room) < count, order, head), place, count)


_ROW = 64
_MOST = 2**24
"""Whole numbers up to this one are exact in single precision."""


def _counts(values: Float[Array, " n"]) -> Float[Array, " n"]:
    """Cumulative sums of small whole numbers, by products with triangles of ones: XLA's own are
    slow on CPUs, and scans are long in compiling."""
    size = values.shape[0]
    rows = -(-size // _ROW)
    values = jnp.concatenate([values, jnp.zeros(rows * _ROW - size, values.dtype)])
    triangle = jnp.triu(jnp.ones((_ROW, _ROW), values.dtype))
    within = jnp.matmul(values.reshape(rows, _ROW), triangle, precision="highest")
    if rows > 1:
        total = within[:, -1]
        within = within + (_counts(total) - total)[:, None]
    return within.reshape(-1)[:size]


def by_blocks(
    step: Callable[[Int[Array, "... block"], Int[Array, ""], Any], Any],
    members: Int[Array, "... room"],
    total: Int[Array, ""],
    block: int,
    start: Any,
) -> Any:
    """`state = step(members, their position, state)` for block after block of the last axis."""

    def one(loop: tuple[Array, Any]) -> tuple[Array, Any]:
        at, state = loop
        which = jax.lax.dynamic_slice_in_dim(members, at, block, -1)
        return at + block, step(which, at, state)

    zero = jnp.zeros((), total.dtype)
    return jax.lax.while_loop(lambda loop: loop[0] < total, one, (zero, start))[1]


def on_list(
    function: Callable[[Int[Array, " block"]], Any], work: WorkList, block: int, like: Any
) -> Any:
    """`function(members)` for all in the list, in its order: arrays with the members last,
    as in `like`."""
    room = work.order.shape[0]
    empty = jax.tree.map(lambda x: jnp.zeros((*x.shape[:-1], room), x.dtype), like)

    def step(which: Array, at: Array, results: Any) -> Any:
        put = jax.lax.dynamic_update_slice_in_dim
        return jax.tree.map(lambda x, y: put(x, y, at, -1), results, function(which))

    return by_blocks(step, work.order, work.total, block, empty)


def on_those(
    function: Callable[[Any], Any],
    needed: Bool[Array, " n"],
    default: Any,
    columns: Any,
) -> Any:
    """`function(columns)` for the members that need it, `default` for the others.

    Arrays in `columns`, in `default` and in the results have the members as their last axis.
    """
    block = block_size(needed.shape[0])
    work = work_list(needed, block)

    def on(which: Array) -> Any:
        return function(jax.tree.map(lambda x: take(x, which), columns))

    found = on_list(on, work, block, default)
    return jax.tree.map(
        lambda x, y: jnp.where(jnp.broadcast_to(needed, y.shape), take(x, work.place), y),
        found,
        default,
    )


def take(values: Array, which: Array) -> Array:
    """Members of the last axis."""
    return values.at[..., which].get(mode="promise_in_bounds")


def block_size(size: int) -> int:
    """Few at a time for one sample; enough to fill vector units for many."""
    return min(max(8, size // 16), 256, size)
