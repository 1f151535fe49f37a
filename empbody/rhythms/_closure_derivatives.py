"""Derivatives of f defined by g(q, f) = 0, by the implicit function theorem.

With Z = [I; ∂f/∂q], the gradients obey g_f ∂f/∂q = -g_q (Ehsani 2016, Eq. 101) and the
Hessians g_f H = -g''[Z, Z] (Eq. 120, corrected). One LU of g_f serves both.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from empbody.rhythms._base import Jet
from empbody.rhythms._small_lu import differentiable_solver

Residual = Callable[[Float[Array, " nq"], Float[Array, " nf"]], Float[Array, " nf"]]
"""g(q, f): as many equations as unknowns f. A pytree whose array leaves are parameters."""


def value_and_slope(
    residual: Residual, q: Float[Array, " nq"], f: Float[Array, " nf"]
) -> tuple[Float[Array, " nf"], Float[Array, "nf nf"]]:
    """g and ∂g/∂f with one evaluation of g."""

    def along(direction: Float[Array, " nf"]):
        return jax.jvp(lambda x: residual(q, x), (f,), (direction,))

    return jax.vmap(along, out_axes=(None, 1))(jnp.eye(f.shape[0], dtype=f.dtype))


def linearise(
    residual: Residual, q: Float[Array, " nq"], f: Float[Array, " nf"]
) -> tuple[Float[Array, "nf nq"], Float[Array, "nf nf"]]:
    """∂g/∂q and ∂g/∂f."""
    nq, nf = q.shape[0], f.shape[0]
    basis = jnp.eye(nq + nf, dtype=f.dtype)

    def along(dq: Float[Array, " nq"], df: Float[Array, " nf"]):
        return jax.jvp(residual, (q, f), (dq, df))[1]

    slopes = jax.vmap(along, out_axes=1)(basis[:, :nq], basis[:, nq:])
    slopes = jax.lax.optimization_barrier(slopes)
    return slopes[:, :nq], slopes[:, nq:]


def second_along(
    residual: Residual,
    q: Float[Array, " nq"],
    f: Float[Array, " nf"],
    first: tuple[Float[Array, " nq"], Float[Array, " nf"]],
    second: tuple[Float[Array, " nq"], Float[Array, " nf"]],
) -> Float[Array, " nf"]:
    """g''[first, second], each a direction (dq, df) held constant."""

    def slope(x: Float[Array, " nq"], y: Float[Array, " nf"]):
        return jax.jvp(residual, (x, y), first)[1]

    return jax.jvp(slope, (q, f), second)[1]


def closure_jacobian(
    residual: Residual, q: Float[Array, " nq"], f: Float[Array, " nf"]
) -> Float[Array, "nf nq"]:
    """∂f/∂q at a solution (q, f)."""
    by_q, by_f = linearise(residual, q, f)
    return -differentiable_solver(by_f)(by_q)


def closure_curvature_sources(
    residual: Residual,
    q: Float[Array, " nq"],
    f: Float[Array, " nf"],
    jacobian: Float[Array, "nf nq"],
) -> Float[Array, "nf nq nq"]:
    """g''[Z_a, Z_b] for all pairs of coordinates: minus Γ of Eq. 120, corrected."""
    nq = q.shape[0]
    rows, columns = np.triu_indices(nq)
    unit = jnp.eye(nq, dtype=f.dtype)

    def pair(a: Array, b: Array):
        first, second = (unit[a], jacobian[:, a]), (unit[b], jacobian[:, b])
        return second_along(residual, q, f, first, second)

    upper = jax.vmap(pair, out_axes=1)(jnp.asarray(rows), jnp.asarray(columns))
    place = np.zeros((nq, nq), dtype=int)
    place[rows, columns] = place[columns, rows] = np.arange(rows.shape[0])
    return upper[:, place]


def closure_hessian(
    residual: Residual, q: Float[Array, " nq"], f: Float[Array, " nf"]
) -> tuple[Float[Array, "nf nq"], Float[Array, "nf nq nq"]]:
    """∂f/∂q and the Hessians, sharing one factorisation."""
    by_q, by_f = linearise(residual, q, f)
    solve = differentiable_solver(by_f)
    jacobian = -solve(by_q)
    sources = closure_curvature_sources(residual, q, f, jacobian)
    flat = sources.reshape(sources.shape[0], -1)
    return jacobian, -solve(flat).reshape(sources.shape)


def closure_jet(
    residual: Residual,
    q: Float[Array, " nq"],
    f: Float[Array, " nf"],
    qd: Float[Array, " nq"],
) -> Jet:
    """f, ∂f/∂q and f''[q̇, q̇], sharing one factorisation."""
    by_q, by_f = linearise(residual, q, f)
    solve = differentiable_solver(by_f)
    jacobian = -solve(by_q)
    along = (qd, jnp.sum(jacobian * qd[None, :], axis=1))
    return Jet(f, jacobian, -solve(second_along(residual, q, f, along, along)))
