"""Joint variables as functions of the coordinates: the rhythm, seen through the model."""

import equinox as eqx
from jaxtyping import Array, Float

from ..model import Model
from ._arguments import coordinates


@eqx.filter_jit
def joint_variables(model: Model, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
    """f(q): radians for revolute joints, metres for prismatic ones."""
    (q,) = coordinates(model, q=q)
    return model.rhythm(q)


@eqx.filter_jit
def joint_jacobian(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
    """∂f/∂q; row i is ∇f_i."""
    (q,) = coordinates(model, q=q)
    return model.rhythm.jacobian(q)


@eqx.filter_jit
def joint_hessians(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
    """H_i for every joint."""
    (q,) = coordinates(model, q=q)
    return model.rhythm.hessian(q)
