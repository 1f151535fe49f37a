"""Work only on the members of a batch that need it.

Under vmap a branch costs every sample what it costs the dearest. Here the members that need
some work are gathered into blocks, and only as many blocks are worked through as there are
such members.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool


def where_needed(
    function: Callable[..., Any],
    needed: Bool[Array, " n"],
    block: int,
    default: Any,
    *columns: Any,
) -> Any:
    """`function(*columns)` for the members that need it, `default` for the others.

    Arrays in `columns`, in `default` and in the results have the members as their last axis.
    """
    size = needed.shape[0]
    block = min(block, size)
    count = jnp.sum(needed)
    # What fills up the last block repeats a member that is needed, and is written again.
    order = jnp.nonzero(needed, size=size + block, fill_value=0)[0]
    order = jnp.where(jnp.arange(size + block) < count, order, order[0])

    def step(loop: tuple[Array, Any]) -> tuple[Array, Any]:
        start, results = loop
        which = jax.lax.dynamic_slice(order, (start,), (block,))
        picked = jax.tree.map(lambda x: _take(x, which), columns)
        new = function(*picked)
        results = jax.tree.map(lambda old, x: _put(old, which, x), results, new)
        return start + block, results

    start = jnp.zeros((), dtype=count.dtype)
    return jax.lax.while_loop(lambda loop: loop[0] < count, step, (start, default))[1]


def _take(values: Array, which: Array) -> Array:
    return values.at[..., which].get(mode="promise_in_bounds")


def _put(values: Array, which: Array, new: Array) -> Array:
    return values.at[..., which].set(new, mode="promise_in_bounds")


def block_size(lanes: int) -> int:
    """Few at a time for one sample; enough to fill vector units for many."""
    return 8 if lanes == 1 else int(np.clip(lanes // 2, 16, 256))
