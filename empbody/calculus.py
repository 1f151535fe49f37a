"""Derivatives of matrix-valued functions, arranged as matrices (Ehsani 2016, Section 2).

Written with the paper's Kronecker products, to be read beside it: a reference for small
sizes, not the fast path. `vec` stacks columns, ⊗ is `jnp.kron`, indices start at 0.

With A of shape (m, n) and q of shape (r,), ∂A/∂q has shape (m r, n): every entry of A
gives way to the column of its r partial derivatives. Arguments named dA, dB, dC are such
derivatives; their first axis is spelled mr.
"""

import operator
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

__all__ = [
    "arrange_derivative",
    "commutation_matrix",
    "derivative_of_kronecker",
    "derivative_of_product",
    "derivative_of_scaled",
    "differential",
    "differential_from_transpose",
    "elementary_matrix",
    "kronecker_square",
    "matrix_derivative",
    "transpose_derivative",
    "unarrange_derivative",
    "unvec",
    "vec",
]


def elementary_matrix(
    i: int, k: int, m: int, n: int, dtype: DTypeLike | None = None
) -> Float[Array, "{m} {n}"]:
    """Zero but for a one in row i, column k, both counted from 0 (Ehsani 2016, Eq. 1)."""
    if not (0 <= i < m and 0 <= k < n):
        raise ValueError(f"entry ({i}, {k}) is outside a {m} by {n} matrix; indices start at 0")
    return jnp.zeros((m, n), _float(dtype)).at[i, k].set(1)


def commutation_matrix(
    m: int, n: int, dtype: DTypeLike | None = None
) -> Float[Array, "{m}*{n} {m}*{n}"]:
    """U_{m,n}, the permutation of size m n of (Ehsani 2016, Eq. 2).

    It transposes under vec, U_{m,n} vec(A) = vec(Aᵀ) for A of shape (m, n), and swaps
    Kronecker factors: U_{m,n} (x ⊗ y) = y ⊗ x for x of n and y of m entries. Its
    transpose and inverse is U_{n,m}.
    """
    if m < 1 or n < 1:
        raise ValueError(f"sizes of a commutation matrix must be positive, got {m} and {n}")
    # Row (i, k), of m by n, has its one in column (k, i), of n by m.
    rows = jnp.eye(m * n, dtype=_float(dtype)).reshape(n, m, m * n)
    return rows.swapaxes(0, 1).reshape(m * n, m * n)


def vec(A: Float[Array, "m n"]) -> Float[Array, " mn"]:
    """The columns of A, one below the other."""
    return A.T.reshape(-1)


def unvec(v: Float[Array, " mn"], m: int, n: int) -> Float[Array, "{m} {n}"]:
    """The (m, n) matrix whose `vec` is v."""
    if v.shape[0] != m * n:
        raise ValueError(f"{v.shape[0]} entries do not fill a {m} by {n} matrix")
    return v.reshape(n, m).T


def kronecker_square(q: Float[Array, " r"]) -> Float[Array, " rr"]:
    """q^{[2]} = q ⊗ q, of r² entries (Ehsani 2016, below Eq. 55)."""
    return jnp.kron(q, q)


def arrange_derivative(jac: Float[Array, "m n r"]) -> Float[Array, "mr n"]:
    """Partial derivatives jac[i, k, j] = ∂A_ik/∂q_j, arranged as ∂A/∂q of Definition 1."""
    m, n, r = jac.shape
    return jac.swapaxes(1, 2).reshape(m * r, n)


def unarrange_derivative(dA: Float[Array, "mr n"], r: int) -> Float[Array, "m n r"]:
    """The inverse of `arrange_derivative`, for q of r entries."""
    m = _rows(dA, r)
    return dA.reshape(m, r, dA.shape[1]).swapaxes(1, 2)


def transpose_derivative(dA: Float[Array, "mr n"], r: int) -> Float[Array, "nr m"]:
    """∂(Aᵀ)/∂q from ∂A/∂q, for q of r entries."""
    return arrange_derivative(unarrange_derivative(dA, r).swapaxes(0, 1))


def matrix_derivative(
    fun: Callable[[Float[Array, " r"]], Float[Array, "m n"]],
    q: Float[Array, " r"],
    order: int = 1,
) -> Float[Array, "mr n"]:
    """∂A/∂q for A = fun(q), of shape (m, n), by autodiff (Ehsani 2016, Definition 1).

    The result has shape (m r, n). Order 2 is the derivative of that derivative, of shape
    (m r², n), and so on.
    """
    if operator.index(order) < 1:
        raise ValueError(f"the order of a derivative is a positive integer, got {order}")
    if order > 1:
        return matrix_derivative(lambda x: matrix_derivative(fun, x, order - 1), q)
    jac = jax.jacfwd(fun)(q)
    if jac.ndim != 3:
        raise ValueError(
            f"the function must return a matrix, got shape {jac.shape[:-1]}; "
            "give a vector as a matrix of one column"
        )
    return arrange_derivative(jac)


def derivative_of_product(
    A: Float[Array, "m n"],
    dA: Float[Array, "mr n"],
    B: Float[Array, "n t"],
    dB: Float[Array, "nr t"],
) -> Float[Array, "mr t"]:
    """∂(A B)/∂q from the factors and their derivatives (Ehsani 2016, Theorem 1, Eq. 4)."""
    r = _common_size(A=(A, dA), B=(B, dB))
    return dA @ B + jnp.kron(A, jnp.eye(r, dtype=A.dtype)) @ dB


def derivative_of_scaled(
    a: Float[Array, ""],
    da: Float[Array, " r"],
    A: Float[Array, "m n"],
    dA: Float[Array, "mr n"],
) -> Float[Array, "mr n"]:
    """∂(a A)/∂q for a scalar a with gradient da (Ehsani 2016, Theorem 2, Eq. 11)."""
    r = _common_size(a=(a[None, None], da[:, None]), A=(A, dA))
    return jnp.kron(A, da.reshape(r, 1)) + a * dA


def derivative_of_kronecker(
    A: Float[Array, "m n"],
    dA: Float[Array, "mr n"],
    C: Float[Array, "s p"],
    dC: Float[Array, "sr p"],
) -> Float[Array, "msr np"]:
    """∂(A ⊗ C)/∂q from the factors and their derivatives (Ehsani 2016, Theorem 3, Eq. 14)."""
    r = _common_size(A=(A, dA), C=(C, dC))
    m, s = A.shape[0], C.shape[0]
    swap = jnp.kron(jnp.eye(m, dtype=A.dtype), commutation_matrix(s, r, A.dtype))
    return swap @ jnp.kron(dA, C) + jnp.kron(A, dC)


def differential(dA: Float[Array, "mr n"], dq: Float[Array, " r"]) -> Float[Array, "m n"]:
    """dA along dq, from ∂A/∂q (Ehsani 2016, Theorem 4a, Eq. 27).

    With q̇ for dq it is the rate of A, with a virtual displacement its variation.
    """
    m = _rows(dA, dq.shape[0])
    return jnp.kron(jnp.eye(m, dtype=dA.dtype), dq[None, :]) @ dA


def differential_from_transpose(
    dAt: Float[Array, "nr m"], dq: Float[Array, " r"]
) -> Float[Array, "m n"]:
    """dA along dq, from dAt = ∂(Aᵀ)/∂q (Ehsani 2016, Theorem 4b, Eq. 28)."""
    n = _rows(dAt, dq.shape[0])
    return dAt.T @ jnp.kron(jnp.eye(n, dtype=dAt.dtype), dq[:, None])


def _float(dtype: DTypeLike | None) -> DTypeLike:
    return float if dtype is None else dtype


def _rows(dA: Array, r: int) -> int:
    """m of a derivative of m r rows."""
    if r < 1 or dA.shape[0] % r:
        raise ValueError(f"a derivative of {dA.shape[0]} rows is not a multiple of {r} coordinates")
    return dA.shape[0] // r


def _common_size(**pairs: tuple[Array, Array]) -> int:
    """The number r of coordinates behind all (value, derivative) pairs."""
    sizes: dict[str, int] = {}
    for name, (value, derivative) in pairs.items():
        rows, columns = value.shape
        sizes[name], rest = divmod(derivative.shape[0], rows)
        if rest or derivative.shape[1] != columns:
            raise ValueError(
                f"derivative of {name} has shape {derivative.shape}, which is not "
                f"({rows} r, {columns}) for any r"
            )
    if len(set(sizes.values())) > 1:
        raise ValueError(f"derivatives to vectors of different sizes: {sizes}")
    return next(iter(sizes.values()))
