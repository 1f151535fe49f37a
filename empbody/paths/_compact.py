"""Work only on the members of a batch that need it.

Under vmap a branch costs every sample what it costs the dearest. Here the members that need
some work are gathered into blocks, and only as many blocks are worked through as there are
such members.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool


def on_those(
    function: Callable[[Any], Any],
    needed: Bool[Array, " n"],
    default: Any,
    columns: Any,
) -> Any:
    """`function(columns)` for the members that need it, `default` for the others.

    Arrays in `columns`, in `default` and in the results have the members as their last axis.
    """
    size = needed.shape[0]
    block = _block_size(size)
    count = jnp.sum(needed)
    place = jnp.cumsum(needed) - 1
    order = jnp.zeros(size + block, place.dtype)
    order = order.at[jnp.where(needed, place, size + block)].set(jnp.arange(size), mode="drop")
    # What fills up the last block repeats its first member.
    head = order[jnp.maximum(count - 1, 0) // block * block]
    order = jnp.where(jnp.arange(size + block) < count, order, head)

    def step(loop: tuple[Array, Any]) -> tuple[Array, Any]:
        start, results = loop
        which = jax.lax.dynamic_slice(order, (start,), (block,))
        new = function(jax.tree.map(lambda x: _take(x, which), columns))
        put = jax.lax.dynamic_update_slice_in_dim
        return start + block, jax.tree.map(lambda x, y: put(x, y, start, -1), results, new)

    # Results lie side by side in the order of the work; scattering them would cost more.
    room = jax.tree.map(lambda x: jnp.zeros((*x.shape[:-1], size + block), x.dtype), default)
    start = jnp.zeros((), count.dtype)
    found = jax.lax.while_loop(lambda loop: loop[0] < count, step, (start, room))[1]
    back = jnp.maximum(place, 0)
    return jax.tree.map(
        lambda x, y: jnp.where(jnp.broadcast_to(needed, y.shape), _take(x, back), y), found, default
    )


def _take(values: Array, which: Array) -> Array:
    return values.at[..., which].get(mode="promise_in_bounds")


def _block_size(size: int) -> int:
    """Few at a time for one sample; enough to fill vector units for many."""
    return min(max(8, size // 16), 256, size)
