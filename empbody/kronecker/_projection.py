"""Gradients and Hessians of loop-closing joint variables by successive projections.

The elimination of Ehsani 2016, Eqs. 102-120, written as printed, with Eq. 120 corrected.
It is exact on paper and loses digits with the square of the condition number, because
the projections γ are multiplied up without ever being orthogonalised again. It is kept
beside the paper; `empbody.rhythms.Implicit` solves the same systems by LU.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._closure_derivatives import Residual, closure_curvature_sources, linearise
from empbody.rhythms._implicit import Implicit


def projection_gradients(gbar: Float[Array, "m m"], dG: Float[Array, " mn"]) -> Float[Array, "m n"]:
    """∇f_i from Σ_j ḡ_j ⊗ ∇f_j = -∂G/∂q (Eq. 102); row i of the result is ∇f_i.

    `gbar` holds ḡ_j = ∂G/∂f_j in its columns (Eq. 104); `dG` stacks the gradients
    ∂g_i/∂q, equation by equation. A singular `gbar` divides by zero.
    """
    m = gbar.shape[0]
    if dG.shape[0] % m:
        raise ValueError(f"{dG.shape[0]} entries of ∂G/∂q are not a multiple of {m} equations")
    width = dG.shape[0] // m
    identity, unit = jnp.eye(m, dtype=gbar.dtype), jnp.eye(width, dtype=gbar.dtype)
    # Downwards: gamma[i] is γ_{i+1} of the paper's one-based index, gamma[m - 1] = I.
    gamma = [identity] * m
    for i in range(m - 1, 0, -1):
        g = gbar[:, i : i + 1]
        sigma = identity - g @ g.T @ gamma[i] / jnp.sum((gamma[i] @ g) ** 2)  # Eq. 116
        gamma[i - 1] = gamma[i] @ sigma  # Eq. 117
    eta = jnp.zeros_like(dG)
    gradients = []
    for i in range(m):
        g = gbar[:, i : i + 1]
        row = jnp.kron(g.T @ gamma[i], unit)
        gradient = -(row @ (eta + dG)) / jnp.sum((gamma[i] @ g) ** 2)  # Eq. 118
        eta = eta + jnp.kron(g[:, 0], gradient)  # Eq. 119
        gradients.append(gradient)
    return jnp.stack(gradients)


def projection_hessians(
    gbar: Float[Array, "m m"], gamma: Float[Array, " mnn"]
) -> Float[Array, "m n n"]:
    """H_i from Σ_j ḡ_j ⊗ vec(H_j) = Γ (Eq. 120), by the same elimination."""
    m = gbar.shape[0]
    nq = round((gamma.shape[0] / m) ** 0.5)
    if m * nq * nq != gamma.shape[0]:
        raise ValueError(f"{gamma.shape[0]} entries of Γ are not {m} squares")
    return projection_gradients(gbar, -gamma).reshape(m, nq, nq)


def closure_gamma(
    residual: Residual,
    q: Float[Array, " nq"],
    f: Float[Array, " nf"],
    jacobian: Float[Array, "nf nq"],
) -> Float[Array, " nf_nq_nq"]:
    """Γ of Eq. 120, corrected: block i is -vec(Zᵀ G_i'' Z) with Z = [I; ∂f/∂q]."""
    return -closure_curvature_sources(residual, q, f, jacobian).reshape(-1)


class Projected(AbstractRhythm):
    """An implicit rhythm whose derivatives come from the projection elimination."""

    rhythm: Implicit = eqx.field()

    @property
    def n_in(self) -> int:
        return self.rhythm.n_in

    @property
    def n_out(self) -> int:
        return self.rhythm.n_out

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        return self.rhythm(q)

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        by_q, by_f = linearise(self.rhythm.residual, q, self.rhythm(q))
        return projection_gradients(by_f, by_q.reshape(-1))

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        return self._all(q)[2]

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        f, jacobian, hessian = self._all(q)
        return Jet(f, jacobian, jnp.einsum("iab,a,b->i", hessian, qd, qd))

    def _all(self, q: Float[Array, " nq"]):
        residual, f = self.rhythm.residual, self.rhythm(q)
        by_q, by_f = linearise(residual, q, f)
        jacobian = projection_gradients(by_f, by_q.reshape(-1))
        gamma = closure_gamma(residual, q, f, jacobian)
        return f, jacobian, projection_hessians(by_f, gamma)
