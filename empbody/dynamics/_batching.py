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
            result = lanes(eqx.combine(arrays, rest), batched[0], axis_size)
            return jnp.moveaxis(result, -1, 0), True

        return batchable(arrays)

    @function.def_jvp
    def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
        return eqx.filter_jvp(one, primals, tangents)

    return function
