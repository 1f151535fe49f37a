"""Mass matrix M(q) (Ehsani 2016, Eq. 145, 189)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..calculus import commutation_matrix, vec
from ..model import Model
from ._first_derivatives import Form, transform_derivatives
from ._inertia import pseudo_inertias


@eqx.filter_jit
def mass_matrix(
    model: Model, q: Float[Array, " nq"], form: Form = "recursive"
) -> Float[Array, "nq nq"]:
    """M, symmetric: the sum of all bodies' M_b (Ehsani 2016, Eq. 189)."""
    return total_mass_matrix(model, transform_derivatives(model, q, form))


def total_mass_matrix(model: Model, D: Float[Array, "nb nq4 4"]) -> Float[Array, "nq nq"]:
    massive = np.array(model.topology.massive, dtype=int)
    return jax.vmap(body_mass_matrix)(pseudo_inertias(model)[massive], D[massive]).sum(axis=0)


def body_mass_matrix(J: Float[Array, "4 4"], D: Float[Array, "nq4 4"]) -> Float[Array, "nq nq"]:
    """M_b = C₁ᵀ (J ⊗ U_{nq,4}ᵀ)(D Dᵀ ⊗ I₄)(I₄ ⊗ U_{nq,4}) C₁ (Ehsani 2016, Eq. 145)."""
    nq, eye4 = D.shape[0] // 4, jnp.eye(4, dtype=D.dtype)
    U = commutation_matrix(nq, 4, D.dtype)
    C1 = trace_matrix(nq, D.dtype)
    return C1.T @ jnp.kron(J, U.T) @ jnp.kron(D @ D.T, eye4) @ jnp.kron(eye4, U) @ C1


def trace_matrix(n: int, dtype: np.dtype) -> Float[Array, "16*{n} {n}"]:
    """C₁ = vec(I₄) ⊗ I_n, with n = nq (Ehsani 2016, Eq. 142); C₂ of Eq. 147 with n = nq²."""
    return jnp.kron(vec(jnp.eye(4, dtype=dtype))[:, None], jnp.eye(n, dtype=dtype))
