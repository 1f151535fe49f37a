"""Symmetric block-tridiagonal systems: what a problem along time comes down to."""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float


def factor(
    diagonal: Float[Array, "nt n n"], upper: Float[Array, "_ n n"]
) -> tuple[Float[Array, "nt n n"], Float[Array, "_ n n"]]:
    """Cholesky factors of the pivots of a positive definite matrix.

    `upper[k]` is the block in row k and column k + 1.
    """

    def advance(pivot: Array, blocks: tuple[Array, Array]) -> tuple[Array, Array]:
        beside, below = blocks
        root = jnp.linalg.cholesky(pivot)
        return below - beside.T @ cho_solve((root, True), beside), root

    last, roots = jax.lax.scan(advance, diagonal[0], (upper, diagonal[1:]))
    return jnp.concatenate([roots, jnp.linalg.cholesky(last)[None]]), upper


def solve(
    factors: tuple[Float[Array, "nt n n"], Float[Array, "_ n n"]], right: Float[Array, "nt n"]
) -> Float[Array, "nt n"]:
    """x with A x = right."""
    roots, upper = factors

    def down(carried: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        root, beside, value = row
        here = cho_solve((root, True), value - carried)
        return beside.T @ here, here

    nothing = jnp.zeros_like(right[0])
    carried, first = jax.lax.scan(down, nothing, (roots[:-1], upper, right[:-1]))
    last = cho_solve((roots[-1], True), right[-1] - carried)

    def up(after: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        root, beside, here = row
        x = here - cho_solve((root, True), beside @ after)
        return x, x

    _, rows = jax.lax.scan(up, last, (roots[:-1], upper, first), reverse=True)
    return jnp.concatenate([rows, last[None]])


def times(
    diagonal: Float[Array, "nt n n"], upper: Float[Array, "_ n n"], x: Float[Array, "nt n"]
) -> Float[Array, "nt n"]:
    """A x."""
    y = jnp.einsum("kij,kj->ki", diagonal, x)
    y = y.at[:-1].add(jnp.einsum("kij,kj->ki", upper, x[1:]))
    return y.at[1:].add(jnp.einsum("kji,kj->ki", upper, x[:-1]))
