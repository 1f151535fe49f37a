"""Lets `jax.vmap` reach the batch-last form of a function.

The hot path wants its batch on the last axis; vmap puts it first. A function wrapped here
is an ordinary function of one sample, but when it is batched it is called once with the
whole batch. Where derivatives are asked for, the one-sample form is differentiated (and
batched by vmap as usual), so every transformation works.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array


def lanes_under_vmap(
    lanes: Callable[[Any, Any, int], Array], batches_well: bool
) -> Callable[[Any], Array]:
    """A function of one sample's arguments from `lanes(arguments, batched, size)`.

    `lanes` takes a pytree of arguments, a matching one that says which of its arrays
    have a leading batch axis, and the batch size; it returns an array whose last axis is
    the batch. With `batches_well` false the one-sample form is left to vmap.
    """

    def one(arguments: Any) -> Array:
        nothing_batched = jax.tree.map(lambda _: False, eqx.filter(arguments, eqx.is_array))
        return lanes(arguments, nothing_batched, 1)[..., 0]

    if not batches_well:
        return one

    @eqx.filter_custom_jvp
    def function(arguments: Any) -> Array:
        arrays, rest = eqx.partition(arguments, eqx.is_array)
        batchable = jax.custom_batching.custom_vmap(lambda x: one(eqx.combine(x, rest)))

        @batchable.def_vmap
        def _(axis_size: int, batched: Any, arrays: Any) -> tuple[Array, bool]:

            def run(arrays: Any, size: int) -> Array:
                result = lanes(eqx.combine(arrays, rest), batched[0], size)
                return jnp.moveaxis(result, -1, 0)

            return _in_chunks(run, arrays, batched[0], axis_size), True

        return batchable(arrays)

    @function.def_jvp
    def _(primals: Any, tangents: Any) -> tuple[Array, Array | None]:
        return eqx.filter_jvp(one, primals, tangents)

    return function


_CHUNK = 512
"""Lanes at a time on CPU: what one step leaves behind must still be in the cache for the
next. Other devices take the whole batch."""


def _in_chunks(run: Callable[[Any, int], Array], arrays: Any, batched: Any, size: int) -> Array:
    """`run(arrays, size)` in pieces along the batch."""
    if not isinstance(size, int):  # a symbolic size, as of jax.export, cannot be cut
        return run(arrays, size)
    whole = size // _CHUNK
    if whole < 2 or jax.default_backend() != "cpu":
        return run(arrays, size)
    differing, shared = eqx.partition(arrays, batched)
    cut = whole * _CHUNK
    chunks = jax.tree.map(lambda x: x[:cut].reshape(whole, _CHUNK, *x.shape[1:]), differing)
    results = jax.lax.map(lambda chunk: run(eqx.combine(chunk, shared), _CHUNK), chunks)
    results = results.reshape(cut, *results.shape[2:])
    if cut == size:
        return results
    last = jax.tree.map(lambda x: x[cut:], differing)
    return jnp.concatenate([results, run(eqx.combine(last, shared), size - cut)])
