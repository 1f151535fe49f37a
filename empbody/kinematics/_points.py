"""Poses of bodies, and position, velocity and acceleration of points on them.

All in the ground frame, SI units. A body is named, or counted as in `model.body_names`;
"ground" (or -1) is the fixed frame.
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ._arguments import coordinates
from ._links import LaneTree, link_transforms
from ._motion import Motion

Coordinates = Float[Array, " nq"]
PointLike = Float[Array, " 3"] | Float[np.ndarray, " 3"] | Sequence[float | int]
"""Three numbers in a body's frame, in metres."""


@eqx.filter_jit
def body_transforms(model: Model, q: Coordinates) -> Float[Array, "nb 4 4"]:
    """Homogeneous transforms from each body's frame to the ground frame (Eq. 40)."""
    (q,) = coordinates(model, q=q)
    links = link_transforms(LaneTree.of(model), model.rhythm(q)[:, None])[..., 0]
    ground = jnp.eye(3, 4, dtype=links.dtype)
    carrier = jnp.stack([ground if i < 0 else links[i] for i in model.topology.body_links])
    turn = carrier[:, :, :3] @ model.body_rotation
    shift = (carrier[:, :, :3] @ model.body_translation[..., None]) + carrier[:, :, 3:]
    bottom = jnp.array([0.0, 0.0, 0.0, 1.0], dtype=links.dtype)
    bottom = jnp.broadcast_to(bottom, (model.nb, 1, 4))
    return jnp.concatenate([jnp.concatenate([turn, shift], axis=2), bottom], axis=1)


def point_position(
    model: Model, q: Coordinates, body: str | int, point: PointLike
) -> Float[Array, " 3"]:
    """Where `point`, given in the body's frame, is (Eq. 41)."""
    (q,) = coordinates(model, q=q)
    link, local = on_link(model, body, point)
    return _position(model, q, link, local)


def point_velocity(
    model: Model, q: Coordinates, qd: Coordinates, body: str | int, point: PointLike
) -> Float[Array, " 3"]:
    """Velocity of a point fixed on a body (Eq. 44), in m/s."""
    q, qd = coordinates(model, q=q, qd=qd)
    link, local = on_link(model, body, point)
    return _velocity(model, q, qd, link, local)


def point_acceleration(
    model: Model,
    q: Coordinates,
    qd: Coordinates,
    qdd: Coordinates,
    body: str | int,
    point: PointLike,
) -> Float[Array, " 3"]:
    """Acceleration of a point fixed on a body (Eq. 57), in m/s²."""
    q, qd, qdd = coordinates(model, q=q, qd=qd, qdd=qdd)
    link, local = on_link(model, body, point)
    return _acceleration(model, q, qd, qdd, link, local)


def point_jacobian(
    model: Model, q: Coordinates, body: str | int, point: PointLike
) -> Float[Array, "3 nq"]:
    """∂(position)/∂q: velocity of a point fixed on a body per unit q̇."""
    (q,) = coordinates(model, q=q)
    link, local = on_link(model, body, point)
    return _jacobian(model, q, link, local)


@eqx.filter_jit
def body_velocities(model: Model, q: Coordinates, qd: Coordinates) -> Float[Array, "nb 6"]:
    """Angular velocity, then velocity of the body frame's origin, of each body."""
    q, qd = coordinates(model, q=q, qd=qd)
    motion = Motion.of(model, q, qd)
    rows = []
    for body, link in enumerate(model.topology.body_links):
        here = motion.position(link, model.body_translation[body])
        spin = motion.velocity[link, :3] if link >= 0 else jnp.zeros_like(here)
        rows.append(jnp.concatenate([spin, motion.velocity_at(link, here)]))
    return jnp.stack(rows)


def on_link(model: Model, body: str | int, point: PointLike) -> tuple[int, Float[Array, " 3"]]:
    """The link that carries a body, and the body's point in that link's frame."""
    index = model.body_index(body) if isinstance(body, str) else body
    if not -1 <= index < model.nb:
        raise ValueError(f"body {index} of a model with {model.nb} bodies")
    local = jnp.asarray(point, dtype=float)
    if local.shape != (3,):
        raise ValueError(f"a point needs 3 numbers, got shape {local.shape}")
    if index < 0:
        return -1, local
    local = model.body_translation[index] + model.body_rotation[index] @ local
    return model.topology.body_links[index], local


# Compiled apart from the functions above, so that a point given as plain numbers is not
# taken for a constant of the program.


@eqx.filter_jit
def _position(model: Model, q: Array, link: int, local: Array) -> Array:
    if link < 0:
        return local
    links = link_transforms(LaneTree.of(model), model.rhythm(q)[:, None])[..., 0]
    return links[link, :, :3] @ local + links[link, :, 3]


@eqx.filter_jit
def _velocity(model: Model, q: Array, qd: Array, link: int, local: Array) -> Array:
    motion = Motion.of(model, q, qd)
    return motion.velocity_at(link, motion.position(link, local))


@eqx.filter_jit
def _acceleration(model: Model, q: Array, qd: Array, qdd: Array, link: int, local: Array) -> Array:
    motion = Motion.of(model, q, qd)
    return motion.acceleration_at(link, motion.position(link, local), qdd)


@eqx.filter_jit
def _jacobian(model: Model, q: Array, link: int, local: Array) -> Array:
    motion = Motion.of(model, q)
    return motion.jacobian_at(link, motion.position(link, local))
