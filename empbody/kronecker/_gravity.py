"""Generalised weight G(q) (Ehsani 2016, Eq. 187, 197)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ._first_derivatives import Form, transform_derivatives


@eqx.filter_jit
def gravity(model: Model, q: Float[Array, " nq"], form: Form = "recursive") -> Float[Array, " nq"]:
    """G = -∂V/∂q, on the right side of the equations of motion (Ehsani 2016, Eq. 197)."""
    return total_gravity(model, transform_derivatives(model, q, form))


def total_gravity(model: Model, D: Float[Array, "nb nq4 4"]) -> Float[Array, " nq"]:
    massive = np.array(model.topology.massive, dtype=int)
    one = jax.vmap(body_gravity, in_axes=(0, 0, 0, None))
    return one(model.mass[massive], model.com[massive], D[massive], model.gravity).sum(axis=0)


def body_gravity(
    mass: Float[Array, ""],
    com: Float[Array, " 3"],
    D: Float[Array, "nq4 4"],
    g: Float[Array, " 3"],
) -> Float[Array, " nq"]:
    """G_b = m ({cᵀ, 1} ⊗ I_nq) D {g; 0}, with g in ground axes (Ehsani 2016, Eq. 187)."""
    one, zero = jnp.ones(1, dtype=D.dtype), jnp.zeros(1, dtype=D.dtype)
    c = jnp.concatenate([com, one])[None, :]
    eye = jnp.eye(D.shape[0] // 4, dtype=D.dtype)
    return mass * jnp.kron(c, eye) @ D @ jnp.concatenate([g, zero])
