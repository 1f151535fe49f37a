"""Solving M x = b for many small symmetric positive definite matrices."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_UNROLLED = 8
"""Above this size a LAPACK call per lane is cheaper than unrolled elimination."""


def solve_positive(
    matrix: Float[Array, "n n lanes"], right: Float[Array, "n lanes"]
) -> Float[Array, "n lanes"]:
    n = matrix.shape[0]
    if n == 1:
        return right / matrix[0]
    if n <= _UNROLLED:
        return _eliminate(matrix, right)
    factor = jnp.linalg.cholesky(jnp.moveaxis(matrix, -1, 0), symmetrize_input=False)
    solution = jax.lax.linalg.triangular_solve(
        factor, jnp.moveaxis(right, -1, 0)[..., None], left_side=True, lower=True
    )
    solution = jax.lax.linalg.triangular_solve(
        factor, solution, left_side=True, lower=True, transpose_a=True
    )
    return jnp.moveaxis(solution[..., 0], 0, -1)


def _eliminate(
    matrix: Float[Array, "n n lanes"], right: Float[Array, "n lanes"]
) -> Float[Array, "n lanes"]:
    """Gauss elimination without pivoting, which positive definiteness allows."""
    n = matrix.shape[0]
    rows = jnp.concatenate([matrix, right[:, None]], axis=1)
    done = []
    for _ in range(n):
        pivot = rows[0] / rows[0, :1]
        done.append(pivot)
        rows = rows[1:, 1:] - rows[1:, :1] * pivot[None, 1:]
    solution: list[Array] = []
    for k in reversed(range(n)):
        row = done[k]  # columns k .. n-1, then the right side
        value = row[-1]
        for offset, known in enumerate(solution):
            value = value - row[n - k - 1 - offset] * known
        solution.append(value)
    return jnp.stack(solution[::-1])
