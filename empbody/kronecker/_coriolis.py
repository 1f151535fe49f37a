"""Coriolis and centrifugal matrix N(q, q̇) (Ehsani 2016, Eq. 147, 190, corrected)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..calculus import commutation_matrix
from ..model import Model
from ._first_derivatives import Form, transform_derivatives
from ._inertia import pseudo_inertias
from ._mass_matrix import trace_matrix
from ._second_derivatives import transform_second_derivatives


@eqx.filter_jit
def coriolis(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"], form: Form = "recursive"
) -> Float[Array, "nq nq"]:
    """N, the sum of all bodies' N_b (Ehsani 2016, Eq. 190, corrected).

    It is the matrix of Christoffel symbols, so that Ṁ - 2N is skew-symmetric.
    """
    D = transform_derivatives(model, q, form)
    DD = transform_second_derivatives(model, q, form)
    return total_coriolis(model, D, DD, qd)


@eqx.filter_jit
def bias(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"], form: Form = "recursive"
) -> Float[Array, " nq"]:
    """N q̇: Coriolis and centrifugal forces, on the left side of the equations of motion."""
    return coriolis(model, q, qd, form) @ qd


def total_coriolis(
    model: Model,
    D: Float[Array, "nb nq4 4"],
    DD: Float[Array, "nb nq4q 4"],
    qd: Float[Array, " nq"],
) -> Float[Array, "nq nq"]:
    massive = np.array(model.topology.massive, dtype=int)
    J = pseudo_inertias(model)[massive]
    one = jax.vmap(body_coriolis, in_axes=(0, 0, 0, None))
    return one(J, D[massive], DD[massive], qd).sum(axis=0)


def body_coriolis(
    J: Float[Array, "4 4"],
    D: Float[Array, "nq4 4"],
    DD: Float[Array, "nq4q 4"],
    qd: Float[Array, " nq"],
) -> Float[Array, "nq nq"]:
    """N_b = C₁ᵀ (J ⊗ U_{nq,4}ᵀ)(D D'ᵀ ⊗ I₄)(I₄ ⊗ U_{nq²,4}) C₂ (I_nq ⊗ q̇).

    (Ehsani 2016, Eq. 147, corrected: as printed it repeats Eq. 145.)
    """
    nq, eye4 = qd.shape[0], jnp.eye(4, dtype=D.dtype)
    U, U2 = commutation_matrix(nq, 4, D.dtype), commutation_matrix(nq**2, 4, D.dtype)
    C1, C2 = trace_matrix(nq, D.dtype), trace_matrix(nq**2, D.dtype)
    left = C1.T @ jnp.kron(J, U.T) @ jnp.kron(D @ DD.T, eye4)
    right = jnp.kron(eye4, U2) @ C2 @ jnp.kron(jnp.eye(nq, dtype=D.dtype), qd[:, None])
    return left @ right
