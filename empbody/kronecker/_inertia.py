"""Pseudo inertia J of a body (Ehsani 2016, Eq. 130-131, corrected)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model


def pseudo_inertias(model: Model) -> Float[Array, "nb 4 4"]:
    """J_b = ∫ {r; 1}{r; 1}ᵀ dm over every body, r from its frame's origin in its axes."""
    return jax.vmap(pseudo_inertia)(model.mass, model.com, model.inertia)


def pseudo_inertia(
    mass: Float[Array, ""], com: Float[Array, " 3"], inertia: Float[Array, "3 3"]
) -> Float[Array, "4 4"]:
    """[[Σ, m c], [m cᵀ, m]], with `inertia` about the centre of mass c.

    Σ = ∫ r rᵀ dm = ½ tr(I_o) 1 - I_o, where I_o, about the frame's origin, follows from
    the parallel-axis theorem. kg m², kg m and kg.
    """
    eye = jnp.eye(3, dtype=inertia.dtype)
    about_origin = inertia + mass * (com @ com * eye - jnp.outer(com, com))
    sigma = jnp.trace(about_origin) / 2 * eye - about_origin
    first = (mass * com)[:, None]
    return jnp.block([[sigma, first], [first.T, mass[None, None]]])
