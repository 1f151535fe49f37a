"""Rates of tangent points that depend on each other's.

Where several surfaces share a stretch, the rates x of their tangent points obey x = b + A x: each
follows its neighbours. Iterating that diverges where the balance is a saddle, as on a one-sided
ball, so it is solved: by GMRES, stretch by stretch and lane by lane, which ends after as many
steps as few surfaces have directions to move in.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from ._geometry import sums

_STEPS, _RESTARTS = 9, 2
"""Two tangent points of two surfaces, or four of three, each in two directions, and one more;
the second time removes rounding."""

Rates = Float[Array, "6 ns lanes"]


def solve_rates(
    follow: Callable[[Rates], Rates], given: Rates, stretch: Int[np.ndarray, " ns"]
) -> Rates:
    """x = given + follow(x); `follow` is linear and leaves stretches to themselves."""

    def solve(apply: Callable[[Rates], Rates], right: Rates) -> Rates:
        def again(_: Array, x: Rates) -> Rates:
            return x + _shortest(apply, right - apply(x), stretch)

        return lax.fori_loop(0, _RESTARTS, again, jnp.zeros_like(right))

    return lax.custom_linear_solve(lambda x: x - follow(x), given, solve, solve)


def _shortest(
    apply: Callable[[Rates], Rates], right: Rates, stretch: Int[np.ndarray, " ns"]
) -> Rates:
    """GMRES from zero, without stopping early."""
    number = int(stretch.max()) + 1

    def inner(x: Array, y: Array) -> Array:
        """Products (..., stretches, lanes), stretch by stretch."""
        return sums(jnp.sum(x * y, axis=-3), stretch.tolist(), number)

    def unit(x: Rates, least: float) -> tuple[Rates, Array]:
        size = jnp.sqrt(inner(x, x))
        usable = size > least
        scale = jnp.where(usable, 1.0 / jnp.where(usable, size, 1.0), 0.0)
        return x * scale[stretch][None], jnp.where(usable, size, 0.0)

    first, size = unit(right, 0.0)
    basis = jnp.zeros((_STEPS + 1, *right.shape), right.dtype).at[0].set(first)
    spent = 1e3 * float(jnp.finfo(right.dtype).eps)

    def step(basis: Array, k: Array) -> tuple[Array, Array]:
        new, column = apply(basis[k]), jnp.zeros((_STEPS + 1, *size.shape), right.dtype)
        for _ in range(2):
            along = inner(basis, new[None])
            new = new - jnp.sum(along[:, stretch][:, None] * basis, axis=0)
            column = column + along
        # Nothing is left where all directions are known.
        new, rest = unit(new, spent)
        return basis.at[k + 1].set(new), column.at[k + 1].set(rest)

    basis, columns = lax.scan(step, basis, jnp.arange(_STEPS))
    # Least squares for the share of each direction.
    matrix = jnp.moveaxis(columns, (0, 1), (-1, -2))
    square = jnp.swapaxes(matrix, -1, -2) @ matrix
    most = lax.stop_gradient(jnp.max(jnp.diagonal(square, axis1=-2, axis2=-1), axis=-1))
    most = most[..., None, None]
    soft = float(jnp.finfo(right.dtype).eps) ** 2 * most + float(jnp.finfo(right.dtype).tiny)
    square = square + soft * jnp.broadcast_to(jnp.eye(_STEPS, dtype=right.dtype), square.shape)
    wanted = (matrix[..., 0, :] * size[..., None])[..., None]
    share = jnp.moveaxis(jnp.linalg.solve(square, wanted)[..., 0], -1, 0)
    return jnp.sum(share[:, stretch][:, None] * basis[:-1], axis=0)
