"""Lets `jax.vmap` reach the batch-last form of a function.

The hot path wants its batch on the last axis; vmap puts it first. A function wrapped here
is an ordinary function of one sample, but when it is batched it is called once with the
whole batch. Its derivatives either have such a form themselves (`Implicit`), or are those of
the one-sample form, batched by vmap as usual; every transformation works.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._chunks import CHUNK, in_chunks
from ._implicit_rule import ImplicitRule, Laned, pushforward


class Implicit(NamedTuple):
    """Derivatives of a function from an equation F(arguments, result) = 0 that defines it."""

    defect: Callable[[Any, Any, int, Array], tuple[Array, Array]]
    """F of (arguments, batched, size, result), and K = ∂F/∂result, symmetric; lanes last."""
    solve: Callable[[Array, Array], Array]
    """x with K x = b, from K and b."""
    batches_well: bool
    """Whether a batch of derivatives goes through as lanes, or is left to vmap."""


def lanes_under_vmap(
    lanes: Callable[[Any, Any, int], Array],
    batches_well: bool,
    implicit: Implicit | None = None,
    chunk: int = CHUNK,
    alone: Callable[[Any, Any, int], Array] | None = None,
) -> Callable[[Any], Array]:
    """A function of one sample's arguments from `lanes(arguments, batched, size)`.

    `lanes` takes a pytree of arguments, a matching one that says which of its arrays
    have a leading batch axis, and the batch size; it returns an array whose last axis is
    the batch. With `batches_well` false the one-sample form is left to vmap. Large batches are
    cut into chunks. `alone` is `lanes` for the value of one sample by itself, if that is
    better written in another way; vmap never meets it.
    """

    def one(arguments: Any, lanes: Callable[[Any, Any, int], Array] = lanes) -> Array:
        nothing_batched = jax.tree.map(lambda _: False, eqx.filter(arguments, eqx.is_array))
        return lanes(arguments, nothing_batched, 1)[..., 0]

    def value(arguments: Any) -> Array:
        arrays, rest = eqx.partition(arguments, eqx.is_array)
        batchable = jax.custom_batching.custom_vmap(
            lambda x: one(eqx.combine(x, rest), alone or lanes)
        )

        @batchable.def_vmap
        def _(axis_size: int, batched: Any, arrays: Any) -> tuple[Array, bool]:
            leaves, structure = jax.tree.flatten(arrays)

            def run(leaves: Any, size: int) -> list[Array]:
                arrays = jax.tree.unflatten(structure, leaves)
                result = lanes(eqx.combine(arrays, rest), batched[0], size)
                return [jnp.moveaxis(result, -1, 0)]

            flags = jax.tree.leaves(batched[0])
            return in_chunks(run, leaves, flags, (True,), axis_size, chunk)[0], True

        return batchable(arrays)

    if not batches_well and implicit is None:
        return one
    function = eqx.filter_custom_jvp(value if batches_well else one)

    @function.def_jvp
    def _(primals: Any, tangents: Any) -> tuple[Array, Array | None]:
        if implicit is None:
            return eqx.filter_jvp(one, primals, tangents)
        defect = implicit.defect
        (arguments,), (moves,) = primals, tangents
        result = function(arguments)
        arrays, rest = eqx.partition(arguments, eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)
        along = structure.flatten_up_to(moves)
        varied = tuple(i for i, move in enumerate(along) if move is not None)

        def unpacked(laned: Laned) -> tuple[Any, Any, int]:
            arguments = eqx.combine(jax.tree.unflatten(structure, laned.leaves), rest)
            return arguments, jax.tree.unflatten(structure, laned.flags), laned.size

        rule = ImplicitRule(
            defect=lambda laned, result: defect(*unpacked(laned), result),
            solve=implicit.solve,
            varied=varied,
            batches_well=implicit.batches_well,
        )
        return result, pushforward(rule, leaves, result, [along[i] for i in varied])

    return function
