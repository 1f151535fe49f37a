"""Points fixed on a body: position, velocity, acceleration in the ground frame."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..calculus import kronecker_square
from ..model import Model
from ._first_derivatives import Form, transform_derivatives
from ._second_derivatives import transform_second_derivatives
from ._transforms import body_transforms


@eqx.filter_jit
def point_position(
    model: Model, q: Float[Array, " nq"], body: str | int, point: Float[Array, " 3"]
) -> Float[Array, " 3"]:
    """Ground-frame position (m) of a point given in body axes (Ehsani 2016, Eq. 41).

    `body` is a name, an index, or "ground" (index -1), whose points stand still.
    """
    b = _body(model, body)
    return point if b < 0 else (body_transforms(model, q)[b] @ _extended(point))[:3]


@eqx.filter_jit
def point_velocity(
    model: Model,
    q: Float[Array, " nq"],
    qd: Float[Array, " nq"],
    body: str | int,
    point: Float[Array, " 3"],
    form: Form = "recursive",
) -> Float[Array, " 3"]:
    """Velocity (m/s) of a point fixed on a body, in ground axes (Ehsani 2016, Eq. 44)."""
    b = _body(model, body)
    if b < 0:
        return jnp.zeros_like(point)
    D = transform_derivatives(model, q, form)[b]
    return (D.T @ jnp.kron(_extended(point), qd))[:3]


@eqx.filter_jit
def point_acceleration(
    model: Model,
    q: Float[Array, " nq"],
    qd: Float[Array, " nq"],
    qdd: Float[Array, " nq"],
    body: str | int,
    point: Float[Array, " 3"],
    form: Form = "recursive",
) -> Float[Array, " 3"]:
    """Acceleration (m/s²) of a point fixed on a body, in ground axes (Ehsani 2016, Eq. 57)."""
    b = _body(model, body)
    if b < 0:
        return jnp.zeros_like(point)
    D = transform_derivatives(model, q, form)[b]
    DD = transform_second_derivatives(model, q, form)[b]
    r = _extended(point)
    return (DD.T @ jnp.kron(r, kronecker_square(qd)) + D.T @ jnp.kron(r, qdd))[:3]


def _extended(point: Float[Array, " 3"]) -> Float[Array, " 4"]:
    """{r; 1}"""
    return jnp.concatenate([point, jnp.ones(1, dtype=point.dtype)])


def _body(model: Model, body: str | int) -> int:
    index = model.body_index(body) if isinstance(body, str) else body
    if not -1 <= index < model.nb:
        raise ValueError(f"body {index} of a model with {model.nb} bodies; -1 is the ground")
    return index
