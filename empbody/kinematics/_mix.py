"""Sums over links with constant weights.

A primitive of its own, because the transpose of a plain matrix product comes with its axes in
another order, and putting them back costs as much as the product.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array


class _Weights:
    """A constant matrix that compares by its numbers."""

    def __init__(self, matrix: np.ndarray):
        self.matrix = np.ascontiguousarray(matrix)
        self._key = (self.matrix.shape, self.matrix.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Weights) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def mix(weights: np.ndarray, values: Any) -> Array:
    """(m, n) times (n, ..., lanes), summed over n."""
    return _mix_p.bind(values, weights=_Weights(weights))


def _product(values: Any, *, weights: _Weights) -> Array:
    matrix = jnp.asarray(weights.matrix, dtype=values.dtype)
    return jax.lax.dot_general(matrix, values, (((1,), (0,)), ((), ())))


def _transpose(cotangent: Any, _: Any, *, weights: _Weights) -> list[Any]:
    if type(cotangent) is ad.Zero:
        return [None]
    return [mix(weights.matrix.T, cotangent)]


def _batch(inputs: Any, dims: Any, *, weights: _Weights) -> tuple[Array, int]:
    """A batch is more lanes."""
    ((values,), (dim,)) = inputs, dims
    out = mix(weights.matrix, jnp.moveaxis(values, dim, -1))
    return out, out.ndim - 1


_mix_p = Primitive("mix_links")
_mix_p.def_impl(jax.jit(_product, static_argnames="weights"))
_mix_p.def_abstract_eval(
    lambda values, *, weights: values.update(
        shape=(weights.matrix.shape[0], *values.shape[1:]), weak_type=False
    )
)
mlir.register_lowering(_mix_p, mlir.lower_fun(_product, multiple_results=False))
ad.deflinear2(_mix_p, _transpose)
batching.primitive_batchers[_mix_p] = _batch
