"""A rhythm as a linear function of its coefficients, and directions from smooth to rough."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int

from ..rhythms import AbstractRhythm
from ._coefficients import Coefficients
from ._problem import box_grid, box_span

_SLOPE = 0.1
"""Share of the slope in the roughness: it orders what has no curvature."""
_NEGLIGIBLE = 1e-10


def linearise(
    rhythm: AbstractRhythm, inputs: Float[np.ndarray, "n nq"]
) -> tuple[Float[np.ndarray, "n nj"], Float[np.ndarray, "n nj p"]]:
    """Values at the rhythm's own coefficients and derivatives to them (exact where the family
    is linear)."""
    value, slope = _linearise(Coefficients(rhythm), jnp.asarray(inputs, dtype=float))
    return np.asarray(value, dtype=np.float64), np.asarray(slope, dtype=np.float64)


@eqx.filter_jit
def _linearise(codec: Coefficients, inputs: Float[Array, "n nq"]) -> tuple[Array, Array]:
    def at(q: Array) -> tuple[Array, Array]:
        def value(c: Array) -> Array:
            return codec.rhythm(c)(q)

        c = codec.vector()
        return value(c), jax.jacrev(value)(c)

    return jax.lax.map(at, inputs, batch_size=4096)


class Directions(NamedTuple):
    """Directions in the space of coefficients, each a curve of unit mean square.

    For every target on its own where no coefficient serves two (`blocks`), from smooth to
    rough (Demmler and Reinsch 1975). Coefficients of any family, however they are scaled or
    correlated, become comparable in them.
    """

    matrix: Float[np.ndarray, "p d"]
    block: Int[np.ndarray, " d"]
    """Target that a direction belongs to; 0 where they are shared."""
    members: Int[np.ndarray, "k e"]
    """Directions that move each target."""
    roughness: Float[np.ndarray, " d"]
    """Mean square second derivative of each, with inputs scaled to half their range."""


def directions(rhythm: AbstractRhythm, inputs: Float[np.ndarray, "n nq"]) -> Directions:
    """Directions for a family over the box of the inputs."""
    grid, span = box_grid(inputs), box_span(inputs)
    _, features = linearise(rhythm, grid)
    rough = np.asarray(_roughness(Coefficients(rhythm), jnp.asarray(grid), jnp.asarray(span)))
    rows, columns, size = features.shape
    touched = np.abs(features).max(axis=0) > 1e-12 * np.abs(features).max()  # (k, p)
    if (touched.sum(axis=0) <= 1).all():
        groups = [np.flatnonzero(touched[k]) for k in range(columns)]
    else:
        groups = [np.arange(size)]
    matrix, block, levels = [], [], []
    for number, group in enumerate(groups):
        part = features[:, :, group].reshape(-1, len(group))
        found, level = _smooth_to_rough(part.T @ part / rows, rough[np.ix_(group, group)])
        whole = np.zeros((size, found.shape[1]))
        whole[group] = found
        matrix.append(whole)
        levels.append(level)
        block.append(np.full(found.shape[1], number))
    blocks = np.concatenate(block)
    if len(groups) == 1:
        members = np.tile(np.arange(len(blocks)), (columns, 1))
    else:
        members = np.stack([np.flatnonzero(blocks == k) for k in range(columns)])
    return Directions(np.concatenate(matrix, axis=1), blocks, members, np.concatenate(levels))


def _smooth_to_rough(size: np.ndarray, rough: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors v with vᵀ size v = 1 and vᵀ rough v rising; what moves nothing is left out."""
    unit = np.sqrt(np.maximum(np.diagonal(size), 1e-300))
    values, vectors = np.linalg.eigh(size / np.outer(unit, unit))
    kept = values > _NEGLIGIBLE * values.max()
    white = vectors[:, kept] / np.sqrt(values[kept])[None, :] / unit[:, None]
    order, turn = scipy.linalg.eigh(white.T @ rough @ white)
    turn = white @ turn
    # A direction and its opposite are the same: fix the sign.
    signs = np.sign(turn[np.argmax(np.abs(turn), axis=0), np.arange(turn.shape[1])])
    return turn * np.where(signs == 0, 1.0, signs)[None, :], np.maximum(order, 0.0)


@eqx.filter_jit
def _roughness(
    codec: Coefficients, grid: Float[Array, "g nq"], span: Float[Array, " nq"]
) -> Float[Array, "p p"]:
    def rows(c: Array) -> Array:
        rhythm = codec.rhythm(c)
        bend = jax.vmap(rhythm.hessian)(grid) * (span[:, None] * span[None, :])[None, None]
        slope = jax.vmap(rhythm.jacobian)(grid) * span[None, None, :]
        weight = jnp.sqrt(jnp.asarray(_SLOPE))
        return jnp.concatenate([bend.ravel(), weight * slope.ravel()])

    slope = jax.jacfwd(rows)(codec.vector())
    return slope.T @ slope / len(grid)
