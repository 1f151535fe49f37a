"""One sharing problem in the scaled form that the dual solver works on.

Minimise Σ φᵢ(aᵢ) + Σ rₖ²/(2 εₖ) subject to B a + r = b and lower ≤ a ≤ upper. For multipliers λ
of the balance, z = Bᵀλ is what one more unit of activation is worth, and each muscle answers
by itself: a(z) = clip(k z + o) for squares, clip(√(k z)) for cubes; r = ε λ.

Arrays have muscles or coordinates first and may carry samples on a last axis.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_LEAST_ROOT = 1e-6
"""Below this activation the slope of the square root is that of its secant."""


class Problem(NamedTuple):
    """Numbers of one problem, rows scaled to the size of the muscles' torques."""

    effect: Float[Array, "nq nm *lanes"]
    """B: scaled torque of each muscle at activation 1, beyond its passive one."""
    demand: Float[Array, " nq *lanes"]
    """b: scaled torque asked of activations and reserves."""
    gain: Float[Array, " nm *lanes"]
    """k"""
    offset: Float[Array, " nm *lanes"]
    """o"""
    lower: Float[Array, " nm *lanes"]
    upper: Float[Array, " nm *lanes"]
    compliance: Float[Array, " nq *lanes"]
    """ε of the reserves; 0 where there are none."""
    last_resort: Float[Array, " nq *lanes"]
    """ε where the demand cannot be met: so small that what is left is the least possible."""


def times(matrix: Array, vector: Array) -> Array:
    """Matrix times vector, elementwise: tiny batched products are slow."""
    return jnp.sum(matrix * vector[None], axis=1)


def transposed_times(matrix: Array, vector: Array) -> Array:
    return jnp.sum(matrix * vector[:, None], axis=0)


def answer(problem: Problem, z: Array, cubed: bool) -> Array:
    """Activations that are best for themselves at a worth z."""
    if not cubed:
        return jnp.clip(problem.gain * z + problem.offset, problem.lower, problem.upper)
    worth = problem.gain * z
    least = _LEAST_ROOT**2
    root = jnp.sqrt(jnp.maximum(worth, least))
    # Straight through zero below the least root, where the slope would be infinite.
    root = jnp.where(worth > least, root, jnp.maximum(worth, 0.0) / _LEAST_ROOT)
    return jnp.clip(root, problem.lower, problem.upper)


def answer_and_slope(problem: Problem, z: Array, cubed: bool) -> tuple[Array, Array]:
    """Activations and da/dz: 0 for a muscle at a bound."""
    a = answer(problem, z, cubed)
    if cubed:
        worth = problem.gain * z
        root = jnp.sqrt(jnp.maximum(worth, _LEAST_ROOT**2))
        slope = jnp.where(worth > _LEAST_ROOT**2, 0.5 / root, 1.0 / _LEAST_ROOT) * problem.gain
        free = (root >= problem.lower) & (root <= problem.upper) & (worth > 0.0)
    else:
        raw = problem.gain * z + problem.offset
        slope = problem.gain
        free = (raw >= problem.lower) & (raw <= problem.upper)
    return a, jnp.where(free, slope, 0.0)


def imbalance(problem: Problem, multipliers: Array, cubed: bool) -> Array:
    """b - B a(Bᵀλ) - ελ: the gradient of the dual, zero at the solution."""
    a = answer(problem, transposed_times(problem.effect, multipliers), cubed)
    return problem.demand - times(problem.effect, a) - problem.compliance * multipliers


def curvature(problem: Problem, slope: Array) -> Array:
    """B D Bᵀ + ε: minus the Hessian of the dual."""
    effect = problem.effect
    matrix = jnp.sum((effect * slope[None])[:, None] * effect[None], axis=2)
    n = effect.shape[0]
    eye = jnp.eye(n, dtype=effect.dtype).reshape(n, n, *(1,) * (effect.ndim - 2))
    return matrix + eye * problem.compliance[:, None]


def beyond_reach(problem: Problem, z: Array, multipliers: Array) -> Array:
    """Whether the multipliers prove that no activations within bounds meet the demand.

    λ · B a is at most Σ max(z lower, z upper) for any of them (Farkas), so a larger λ · b
    cannot be met.
    """
    most = jnp.sum(jnp.maximum(z * problem.lower, z * problem.upper), axis=0)
    asked = jnp.sum(multipliers * problem.demand, axis=0)
    size = jnp.sum(jnp.abs(multipliers * problem.demand), axis=0)
    noise = 200 * jnp.finfo(z.dtype).eps * (size + jnp.abs(most))
    return asked - most > jnp.maximum(noise, 1e-9 * jnp.sum(jnp.abs(multipliers), axis=0))


def pseudo_inverse(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Of a symmetric positive semidefinite matrix, differentiable at constant rank."""
    fixed = jax.lax.stop_gradient(matrix)
    values, vectors = jnp.linalg.eigh(fixed)
    keep = values > 1e3 * jnp.finfo(matrix.dtype).eps * jnp.max(jnp.abs(values))
    inverse = (vectors * jnp.where(keep, 1.0 / jnp.where(keep, values, 1.0), 0.0)[None]) @ vectors.T
    # The same value, with the derivative -X dH X.
    return 2.0 * inverse - inverse @ matrix @ inverse
