"""A small neural network as a rhythm."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._samples import Numbers


class Neural(AbstractRhythm):
    """f(q) = offset + gain · net((q - centre) / scale), a multilayer perceptron with tanh.

    `sizes` = (nq, hidden …, nj). Centre and scale have the units of q, offset and gain those
    of f; set them from the data so that the network works on numbers of order one. Weights
    start normal with variance 1 / fan-in, biases at zero. The map is C^∞; far outside its
    data the hidden units saturate and f tends to constants.
    """

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]
    centre: Float[Array, " nq"]
    scale: Float[Array, " nq"]
    offset: Float[Array, " nj"]
    gain: Float[Array, " nj"]

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        key: PRNGKeyArray,
        centre: Numbers | None = None,
        scale: Numbers | None = None,
        offset: Numbers | None = None,
        gain: Numbers | None = None,
    ):
        if len(sizes) < 3 or min(sizes) < 1:
            raise ValueError(f"sizes = {tuple(sizes)}; (nq, hidden …, nj), all ≥ 1, is expected")
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = list(itertools.pairwise(sizes))
        self.weights = tuple(
            jax.random.normal(k, (n, m), dtype=float) / jnp.sqrt(1.0 * m)
            for k, (m, n) in zip(keys, pairs, strict=True)
        )
        self.biases = tuple(jnp.zeros(n) for _, n in pairs)
        self.centre = _vector("centre", centre, 0.0, sizes[0])
        self.scale = _vector("scale", scale, 1.0, sizes[0])
        self.offset = _vector("offset", offset, 0.0, sizes[-1])
        self.gain = _vector("gain", gain, 1.0, sizes[-1])

    @property
    def n_in(self) -> int:
        return self.centre.shape[-1]

    @property
    def n_out(self) -> int:
        return self.offset.shape[-1]

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        a = (q - self.centre) / self.scale
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            a = jnp.tanh(w @ a + b)
        return self.offset + self.gain * (self.weights[-1] @ a + self.biases[-1])

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        """Value, Jacobian and curvature carried together through the layers."""
        self.check_coordinates(q)
        value = (q - self.centre) / self.scale
        slope = jnp.diag(1 / self.scale)
        speed = qd / self.scale
        bend = jnp.zeros_like(value + speed)
        for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            # One product for all four; its columns are value, Jacobian, rate, curvature.
            out = w @ jnp.column_stack([value, slope, speed, bend])
            value, slope, speed, bend = out[:, 0] + b, out[:, 1:-2], out[:, -2], out[:, -1]
            if i < len(self.weights) - 1:
                value = jnp.tanh(value)
                steep = 1 - value * value
                bend = steep * (bend - 2 * value * speed * speed)
                slope, speed = steep[:, None] * slope, steep * speed
        return Jet(self.offset + self.gain * value, self.gain[:, None] * slope, self.gain * bend)


def _vector(name: str, given: Numbers | None, default: float, size: int) -> Float[Array, " n"]:
    array = jnp.full(size, default) if given is None else jnp.asarray(given, dtype=float)
    if array.shape != (size,):
        raise ValueError(f"{name} of shape {array.shape} for a size of {size}")
    return array
