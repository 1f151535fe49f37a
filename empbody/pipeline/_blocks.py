"""Long tables through compiled functions, in blocks of one size.

A function compiled for one block serves trials of every length, also from the cache of
compiled functions in a later process.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

BLOCK = 256


def in_blocks(
    function: Callable[..., Any],
    *rows: np.ndarray,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """`function(*rows)` along the first axis; the last block is filled up with its last row.

    `function` takes arrays of `BLOCK` rows and gives a pytree of arrays with as many.
    """
    count = len(rows[0])
    parts = []
    for first in range(0, count, BLOCK):
        index = np.minimum(np.arange(first, first + BLOCK), count - 1)
        out = function(*(jnp.asarray(each[index]) for each in rows))
        stop = min(first + BLOCK, count)
        parts.append(jax.tree.map(lambda x, n=stop - first: np.asarray(x)[:n], out))
        if progress is not None:
            progress(stop, count)
    return jax.tree.map(lambda *x: np.concatenate(x), *parts)
