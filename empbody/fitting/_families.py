"""Families of rhythms by name, sized to the data."""

import jax
import numpy as np
from jaxtyping import Float

from ..rhythms import (
    AbstractRhythm,
    Affine,
    Fourier,
    FourierTensor,
    Neural,
    Polynomial,
    Spline,
    TensorSpline,
)
from ..rhythms._polynomial import total_degree_exponents

FAMILIES = "linear, poly:DEGREE, spline:INTERVALS, fourier:ORDER or mlp:WIDTH"
_DEFAULTS = {"poly": 3, "polynomial": 3, "spline": 8, "fourier": 4, "mlp": 16, "neural": 16}
_DEGREE = 5


def make_family(
    name: str,
    inputs: Float[np.ndarray, "n nq"],
    targets: Float[np.ndarray, "n nj"],
    *,
    key: int = 0,
) -> AbstractRhythm:
    """A rhythm of the named family, to be fitted, that covers the data.

    - linear (or affine): an `Affine` rhythm.
    - poly:3: all monomials up to that total degree, centred and scaled to the data, but no
      power of an input that its distinct values cannot tell from lower ones (three planes:
      no cube of the plane).
    - spline:8: quintic B-splines (spline:8:3: cubic) over 8 equal intervals of each of one or
      two inputs; never more intervals than the distinct values of an input less one.
    - fourier:4: the harmonics up to that order of one or two inputs. The period is twice the
      range of the data, so that nothing is forced to repeat inside it; never more
      harmonics than half the distinct values less one.
    - mlp:16: a network with tanh, one hidden layer of that width (mlp:16,16: two).
    """
    kind, *words = name.strip().lower().split(":")
    kind = {"affine": "linear", "polynomial": "poly", "neural": "mlp"}.get(kind, kind)
    nq, nj = inputs.shape[1], targets.shape[1]
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    distinct = [len(np.unique(np.round(column, 9))) for column in inputs.T]
    span = np.where(high > low, high - low, 1.0)
    if kind == "linear" and not words:
        return Affine(np.zeros((nj, nq)))
    if kind not in _DEFAULTS:
        raise ValueError(f"there is no family {name!r}; there are {FAMILIES}")
    sizes = _sizes(name, words, _DEFAULTS[kind])
    if kind == "poly":
        terms = [e for e in total_degree_exponents(nq, sizes[0])
                 if all(k < d for k, d in zip(e, distinct, strict=True))]  # fmt: skip
        return Polynomial(terms, np.zeros((nj, len(terms))), (low + high) / 2, span / 2)
    if kind == "mlp":
        middle, spread = targets.mean(axis=0), targets.std(axis=0)
        return Neural(
            (nq, *sizes, nj),
            key=jax.random.key(key),
            centre=(low + high) / 2,
            scale=span / 2,
            offset=middle,
            gain=np.where(spread > 0, spread, 1.0),
        )
    if nq > 2:
        raise ValueError(f"{name} takes one or two inputs, not {nq}; use poly or mlp")
    if kind == "spline":
        degree = sizes[1] if len(sizes) > 1 else _DEGREE
        if degree not in (3, 5):
            raise ValueError(f"{name}: splines are cubic (3) or quintic (5), not {degree}")
        counts = [max(1, min(sizes[0], d - 1)) for d in distinct]
        breaks = [np.linspace(a, a + s, n + 1) for a, s, n in zip(low, span, counts, strict=True)]
        shape = [n + degree for n in counts]
        if nq == 1:
            return Spline(breaks[0], np.zeros((*shape, nj)), degree=degree)
        return TensorSpline((breaks[0], breaks[1]), np.zeros((*shape, nj)), degree=degree)
    orders = [max(0, min(sizes[0], (d - 1) // 2)) for d in distinct]
    if nq == 1:
        return Fourier(np.zeros((2 * orders[0] + 1, nj)), period=2 * span[0])
    shape = [2 * k + 1 for k in orders]
    return FourierTensor(np.zeros((*shape, nj)), period=2 * span)


def _sizes(name: str, words: list[str], default: int) -> list[int]:
    """The numbers after the colon."""
    if not words:
        return [default]
    try:
        sizes = [int(n) for word in words for n in word.split(",")]
    except ValueError:
        raise ValueError(f"{name!r} is no family; there are {FAMILIES}") from None
    if min(sizes) < 1:
        raise ValueError(f"{name!r}: a size must be at least 1")
    return sizes
