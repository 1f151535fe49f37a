"""LU factorisation of one tiny matrix, cheap in a compiled loop and in a batch.

A LAPACK call per element dominates the cost of tiny systems. Measured (float64, µs per
factor-and-solve, batch of 4096 / single in a compiled loop):

    size   LAPACK solve    unrolled      getrf + unrolled substitution
    2      0.21 / 0.85     0.01 / 0.04   0.09 / 0.37
    4      0.37 / 1.00     0.06 / 0.35   0.22 / 0.55
    6      0.61 / 1.22     0.23 / 1.36   0.44 / 0.74
    8      0.78 / 1.37     0.50 / 4.59   0.77 / 1.02

Compile time of the unrolled elimination grows with the cube of the size (2 s at 6), so
it is used up to 5; above that LAPACK factors and only the substitution is unrolled.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

UNROLLED_FACTOR = 5
UNROLLED_SUBSTITUTION = 8


class SmallLU:
    """Factors of one square matrix with partial pivoting; lives inside one trace."""

    def __init__(self, a: Float[Array, "n n"]):
        self.size = a.shape[0]
        self._swaps: list[tuple[int, int, Bool[Array, ""]]] = []
        self._permutation = None
        if self.size <= UNROLLED_FACTOR:
            self._factor_unrolled(a)
        else:
            packed, pivots, self._permutation = lax.linalg.lu(a)
            self._packed = packed
            swapped = pivots != jnp.arange(self.size, dtype=pivots.dtype)
            self._odd = jnp.sum(swapped) % 2 == 1

    def _factor_unrolled(self, a: Float[Array, "n n"]) -> None:
        n = self.size
        # Without the barrier the compiler computes the entries again for every element.
        a = lax.optimization_barrier(a)
        rows = [[a[i, j] for j in range(n)] for i in range(n)]
        odd = jnp.asarray(False)
        for k in range(n):
            for i in range(k + 1, n):
                # Pairwise exchanges leave the largest entry of the column in row k.
                swap = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
                self._swaps.append((k, i, swap))
                odd = odd ^ swap
                upper = [jnp.where(swap, y, x) for x, y in zip(rows[k], rows[i], strict=True)]
                lower = [jnp.where(swap, x, y) for x, y in zip(rows[k], rows[i], strict=True)]
                rows[k], rows[i] = upper, lower
            for i in range(k + 1, n):
                factor = rows[i][k] / rows[k][k]
                tail = [rows[i][j] - factor * rows[k][j] for j in range(k + 1, n)]
                rows[i] = [*rows[i][:k], factor, *tail]
        self._packed = rows
        self._odd = odd

    def _entry(self, i: int, j: int) -> Float[Array, ""]:
        return self._packed[i][j] if isinstance(self._packed, list) else self._packed[i, j]

    @property
    def pivots(self) -> Float[Array, " n"]:
        """Diagonal of U."""
        return jnp.stack([self._entry(i, i) for i in range(self.size)])

    @property
    def determinant(self) -> Float[Array, ""]:
        """Determinant of the matrix; its sign is constant along an assembly mode."""
        product = jnp.prod(self.pivots)
        return jnp.where(self._odd, -product, product)

    @property
    def pivot_ratio(self) -> Float[Array, ""]:
        """Smallest over largest pivot in magnitude: a cheap estimate of 1/condition."""
        size = jnp.abs(self.pivots)
        largest = jnp.max(size)
        return jnp.where(largest > 0, jnp.min(size) / jnp.where(largest > 0, largest, 1), 0.0)

    def solve(self, b: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """x with A x = b; `b` is one column (n,) or several (n, k)."""
        b = self._permute(b)
        if self.size > UNROLLED_SUBSTITUTION:
            return self._lapack_substitute(b, transpose=False)
        x = [b[i] for i in range(self.size)]
        for k in range(self.size):
            for i in range(k + 1, self.size):
                x[i] = x[i] - self._entry(i, k) * x[k]
        for k in reversed(range(self.size)):
            x[k] = x[k] / self._entry(k, k)
            for i in range(k):
                x[i] = x[i] - self._entry(i, k) * x[k]
        return jnp.stack(x)

    def solve_transposed(self, b: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """x with Aᵀ x = b."""
        if self.size > UNROLLED_SUBSTITUTION:
            return self._unpermute(self._lapack_substitute(b, transpose=True))
        x = [b[i] for i in range(self.size)]
        for k in range(self.size):
            x[k] = x[k] / self._entry(k, k)
            for i in range(k + 1, self.size):
                x[i] = x[i] - self._entry(k, i) * x[k]
        for k in reversed(range(self.size)):
            for i in range(k):
                x[i] = x[i] - self._entry(k, i) * x[k]
        return self._unpermute(jnp.stack(x))

    def _lapack_substitute(self, b: Float[Array, "n *k"], transpose: bool):
        assert not isinstance(self._packed, list)  # rows are kept only when unrolled
        columns = b[:, None] if b.ndim == 1 else b
        lower = {"lower": True, "unit_diagonal": True}
        for form in ({"lower": False}, lower) if transpose else (lower, {"lower": False}):
            columns = lax.linalg.triangular_solve(
                self._packed, columns, left_side=True, transpose_a=transpose, **form
            )
        return columns[:, 0] if b.ndim == 1 else columns

    def _permute(self, b: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        if self._permutation is not None:
            return b[self._permutation]
        return self._exchange(b, self._swaps)

    def _unpermute(self, b: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        if self._permutation is not None:
            return jnp.zeros_like(b).at[self._permutation].set(b)
        return self._exchange(b, self._swaps[::-1])

    @staticmethod
    def _exchange(b, swaps):
        x = [b[i] for i in range(b.shape[0])]
        for k, i, swap in swaps:
            x[k], x[i] = jnp.where(swap, x[i], x[k]), jnp.where(swap, x[k], x[i])
        return jnp.stack(x)


def differentiable_solver(
    a: Float[Array, "n n"],
) -> Callable[[Float[Array, "n *k"]], Float[Array, "n *k"]]:
    """b ↦ A⁻¹ b with one factorisation for all calls, differentiable in A and b.

    The derivative is that of the linear system (another substitution with the same
    factors), never that of the elimination.
    """
    factors = SmallLU(lax.stop_gradient(a))

    def multiply(x: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        # Elementwise instead of a matrix product: tiny batched products are slow.
        wide = a if x.ndim == 1 else a[:, :, None]
        return jnp.sum(wide * x[None], axis=1)

    def solve(b: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        return jax.lax.custom_linear_solve(
            multiply,
            b,
            solve=lambda _, x: factors.solve(x),
            transpose_solve=lambda _, x: factors.solve_transposed(x),
        )

    return solve
