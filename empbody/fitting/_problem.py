"""A fit as a least-squares problem in one vector of unknowns."""

import dataclasses
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm
from ._coefficients import Coefficients
from ._targets import AbstractTargets

Loss = Literal["square", "huber", "soft_l1"]


class Problem(eqx.Module):
    """Σ w ρ(r) + |z|² (with a prior) + smoothness Σ |f''|², over z with c = start + map z.

    With a prior, `map` is a factor of its covariance and residuals are in units of the
    noise: the sum is then minus twice the logarithm of the posterior. Without, `map` is
    diagonal and only scales.
    """

    coefficients: Coefficients
    targets: AbstractTargets
    inputs: Float[Array, "n nq"]
    weights: Float[Array, "n k"]
    start: Float[Array, " p"]
    map: Float[Array, "p r"]
    scale: Float[Array, ""]
    """Where robust losses turn from square to linear, in units of the residuals."""
    smoothness: Float[Array, ""]
    grid: Float[Array, "g nq"]
    span: Float[Array, " nq"]
    loss: Loss = eqx.field(static=True)
    has_prior: bool = eqx.field(static=True)
    smooth: bool = eqx.field(static=True)

    def rhythm(self, z: Float[Array, " r"]) -> AbstractRhythm:
        return self.coefficients.rhythm(self.start + self.map @ z)

    def plain(self, z: Float[Array, " r"]) -> Float[Array, "n k"]:
        """Residuals in their units, without weights."""
        return self.targets.residuals(self.rhythm(z), self.inputs)

    def vector(self, z: Float[Array, " r"]) -> Float[Array, " m"]:
        """All residuals, whose sum of squares is least at the fit."""
        rhythm = self.rhythm(z)
        rows = self.targets.residuals(rhythm, self.inputs)
        parts = [(jnp.sqrt(self.weights) * robust(rows, self.scale, self.loss)).ravel()]
        if self.has_prior:
            parts.append(z)
        if self.smooth:
            parts.append(jnp.sqrt(self.smoothness) * bending(rhythm, self.grid, self.span))
        return jnp.concatenate(parts)

    def value(self, z: Float[Array, " r"]) -> Float[Array, ""]:
        return jnp.sum(self.vector(z) ** 2)


def robust(
    residuals: Float[Array, "n k"], scale: Float[Array, ""], loss: Loss
) -> Float[Array, "n k"]:
    """Residuals whose squares are 2ρ: quadratic inside `scale`, linear far outside."""
    if loss == "square":
        return residuals
    x = residuals / scale
    square = x * x
    if loss == "soft_l1":
        # 2(√(1 + x²) - 1) = 2x² / (√(1 + x²) + 1): no cancellation near zero
        return residuals * jnp.sqrt(2.0 / (jnp.sqrt(1.0 + square) + 1.0))
    large = square > 1.0
    size = jnp.abs(jnp.where(large, x, 1.0))
    return jnp.where(large, jnp.sign(x) * scale * jnp.sqrt(2.0 * size - 1.0), residuals)


def bending(
    rhythm: AbstractRhythm, grid: Float[Array, "g nq"], span: Float[Array, " nq"]
) -> Float[Array, " m"]:
    """Second derivatives over a grid, inputs scaled by `span`; the mean square over the
    grid is the sum of squares."""
    first, second = np.triu_indices(len(span))
    # Mixed derivatives stand twice in the Hessian.
    weight = jnp.where(first == second, 1.0, np.sqrt(2.0)) * span[first] * span[second]
    bends = jax.vmap(rhythm.hessian)(grid)[:, :, first, second] * weight[None, None, :]
    return bends.ravel() / np.sqrt(len(grid))


def box_grid(inputs: np.ndarray, most: int = 500) -> np.ndarray:
    """Points spread evenly over the box that holds the inputs."""
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    nq = inputs.shape[1]
    side = {1: 61, 2: 17, 3: 7}.get(nq)
    if side is None:
        rng = np.random.default_rng(0)
        return low + (high - low) * rng.random((most, nq))
    axes = [np.linspace(a, b, side) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, nq)


def box_span(inputs: np.ndarray) -> np.ndarray:
    """Half the range of each input, 1 where there is none."""
    span = np.ptp(inputs, axis=0) / 2
    return np.where(span > 0, span, 1.0)


def jacobian(problem: Problem, z: Float[Array, " r"]) -> tuple[np.ndarray, np.ndarray]:
    """All residuals at z and their derivative to z."""
    rough = unbent(problem)
    value, slope = (np.asarray(x, dtype=np.float64) for x in _rough_jacobian(rough, z))
    if not problem.smooth:
        return value, slope
    root = float(np.sqrt(problem.smoothness))
    bends, bend_slope = bending_jacobian(rough, z)
    return np.concatenate([value, root * bends]), np.concatenate([slope, root * bend_slope])


def unbent(problem: Problem) -> Problem:
    """The same without its penalty on curvature: what was compiled for it serves all."""
    return dataclasses.replace(problem, smooth=False, smoothness=jnp.zeros_like(problem.smoothness))


@eqx.filter_jit
def _rough_jacobian(problem: Problem, z: Float[Array, " r"]) -> tuple[Array, Array]:
    """All residuals but the penalty on curvature, and their derivative to z."""
    return problem.vector(z), jax.jacfwd(problem.vector)(z)


def bending_jacobian(problem: Problem, z: Float[Array, " r"]) -> tuple[np.ndarray, np.ndarray]:
    """Second derivatives over the grid at z, and their derivative to z."""
    value, slope = _bends(problem, z)
    return np.asarray(value, dtype=np.float64), np.asarray(slope, dtype=np.float64)


@eqx.filter_jit
def _bends(problem: Problem, z: Float[Array, " r"]) -> tuple[Array, Array]:
    def rows(z: Array) -> Array:
        return bending(problem.rhythm(z), problem.grid, problem.span)

    return rows(z), jax.jacfwd(rows)(z)


@eqx.filter_jit
def plain_jacobian(problem: Problem, z: Float[Array, " r"]) -> tuple[Array, Array]:
    """Residuals in their units and their derivative to the coefficients, (n, k, p)."""

    def rows(c: Float[Array, " p"]) -> Float[Array, "n k"]:
        return problem.targets.residuals(problem.coefficients.rhythm(c), problem.inputs)

    c = problem.start + problem.map @ z
    return rows(c), jax.jacfwd(rows)(c)
