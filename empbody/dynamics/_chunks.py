"""Batches in pieces that fit the cache."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array

CHUNK = 512
"""Lanes at a time on CPU: what one step leaves behind must still be in the cache for the
next. Other devices take the whole batch."""
SMALL_CHUNK = 128
"""The same where a lane has much to keep, as a large tree's links have."""


def in_chunks(
    run: Callable[[Sequence[Array], int], list[Array]],
    inputs: Sequence[Array],
    batched: Sequence[bool],
    kept: Sequence[bool],
    size: int,
    chunk: int = CHUNK,
) -> list[Array]:
    """`run(inputs, size)` in pieces along the leading batch axis of the `batched` inputs.

    `kept` tells which results have that axis too; the others are sums over the batch.
    """
    if not isinstance(size, int):  # a symbolic size, as of jax.export, cannot be cut
        return run(inputs, size)
    whole = size // chunk
    if whole < 2 or jax.default_backend() != "cpu":
        return run(inputs, size)
    cut = whole * chunk
    differing = [x for x, flag in zip(inputs, batched, strict=True) if flag]

    def piece(parts: Sequence[Array], size: int) -> list[Array]:
        left = iter(parts)
        joined = [next(left) if flag else x for x, flag in zip(inputs, batched, strict=True)]
        return run(joined, size)

    chunks = [x[:cut].reshape(whole, chunk, *x.shape[1:]) for x in differing]
    results = jax.lax.map(lambda part: piece(part, chunk), chunks)
    results = [
        r.reshape(cut, *r.shape[2:]) if keep else jnp.sum(r, axis=0)
        for r, keep in zip(results, kept, strict=True)
    ]
    if cut == size:
        return results
    last = piece([x[cut:] for x in differing], size - cut)
    pairs = zip(results, last, kept, strict=True)
    return [jnp.concatenate([a, b]) if keep else a + b for a, b, keep in pairs]
