"""M q̈ + N q̇ = G + τ, solved for either side (Ehsani 2016, Eq. 198, without muscles).

The skeleton alone: force elements that the model holds take no part.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ._coriolis import total_coriolis
from ._first_derivatives import Form, transform_derivatives
from ._gravity import total_gravity
from ._mass_matrix import total_mass_matrix
from ._second_derivatives import transform_second_derivatives


@eqx.filter_jit
def inverse_dynamics(
    model: Model,
    q: Float[Array, " nq"],
    qd: Float[Array, " nq"],
    qdd: Float[Array, " nq"],
    form: Form = "recursive",
) -> Float[Array, " nq"]:
    """τ = M q̈ + N q̇ - G: the generalised forces that a motion needs."""
    M, N, G = _terms(model, q, qd, form)
    return M @ qdd + N @ qd - G


@eqx.filter_jit
def forward_dynamics(
    model: Model,
    q: Float[Array, " nq"],
    qd: Float[Array, " nq"],
    tau: Float[Array, " nq"],
    form: Form = "recursive",
) -> Float[Array, " nq"]:
    """q̈ = M⁻¹ (G - N q̇ + τ) under generalised forces τ (Ehsani 2016, Eq. 200, corrected)."""
    M, N, G = _terms(model, q, qd, form)
    return jnp.linalg.solve(M, G - N @ qd + tau)


def _terms(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"], form: Form
) -> tuple[Array, Array, Array]:
    """M, N and G from one set of derivatives."""
    D = transform_derivatives(model, q, form)
    DD = transform_second_derivatives(model, q, form)
    M = total_mass_matrix(model, D)
    return M, total_coriolis(model, D, DD, qd), total_gravity(model, D)
