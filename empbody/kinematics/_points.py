"""Poses of bodies, and position, velocity and acceleration of points on them.

All in the ground frame, SI units. A body is named, or counted as in `model.body_names`;
"ground" (or -1) is the fixed frame.
"""

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ..model import Model
from ._links import LaneTree, link_transforms
from ._motion import Motion

Coordinates = Float[Array, " nq"]


def body_transforms(model: Model, q: Coordinates) -> Float[Array, "nb 4 4"]:
    """Homogeneous transforms from each body's frame to the ground frame (Eq. 40)."""
    links = link_transforms(LaneTree.of(model), model.rhythm(q)[:, None])[..., 0]
    ground = jnp.eye(3, 4, dtype=links.dtype)
    carrier = jnp.stack([ground if i < 0 else links[i] for i in model.topology.body_links])
    turn = carrier[:, :, :3] @ model.body_rotation
    shift = (carrier[:, :, :3] @ model.body_translation[..., None]) + carrier[:, :, 3:]
    bottom = jnp.array([0.0, 0.0, 0.0, 1.0], dtype=links.dtype)
    bottom = jnp.broadcast_to(bottom, (model.nb, 1, 4))
    return jnp.concatenate([jnp.concatenate([turn, shift], axis=2), bottom], axis=1)


def point_position(
    model: Model, q: Coordinates, body: str | int, point: ArrayLike
) -> Float[Array, " 3"]:
    """Where `point`, given in the body's frame, is (Eq. 41)."""
    link, local = on_link(model, body, point)
    if link < 0:
        return local
    links = link_transforms(LaneTree.of(model), model.rhythm(q)[:, None])[..., 0]
    return links[link, :, :3] @ local + links[link, :, 3]


def point_velocity(
    model: Model, q: Coordinates, qd: Coordinates, body: str | int, point: ArrayLike
) -> Float[Array, " 3"]:
    """Velocity of a point fixed on a body (Eq. 44), in m/s."""
    link, local = on_link(model, body, point)
    motion = Motion.of(model, q, qd)
    return motion.velocity_at(link, motion.position(link, local))


def point_acceleration(
    model: Model,
    q: Coordinates,
    qd: Coordinates,
    qdd: Coordinates,
    body: str | int,
    point: ArrayLike,
) -> Float[Array, " 3"]:
    """Acceleration of a point fixed on a body (Eq. 57), in m/s²."""
    link, local = on_link(model, body, point)
    motion = Motion.of(model, q, qd)
    return motion.acceleration_at(link, motion.position(link, local), qdd)


def point_jacobian(
    model: Model, q: Coordinates, body: str | int, point: ArrayLike
) -> Float[Array, "3 nq"]:
    """∂(position)/∂q: velocity of a point fixed on a body per unit q̇."""
    link, local = on_link(model, body, point)
    motion = Motion.of(model, q)
    return motion.jacobian_at(link, motion.position(link, local))


def body_velocities(model: Model, q: Coordinates, qd: Coordinates) -> Float[Array, "nb 6"]:
    """Angular velocity, then velocity of the body frame's origin, of each body."""
    motion = Motion.of(model, q, qd)
    rows = []
    for body, link in enumerate(model.topology.body_links):
        here = motion.position(link, model.body_translation[body])
        spin = motion.velocity[link, :3] if link >= 0 else jnp.zeros_like(here)
        rows.append(jnp.concatenate([spin, motion.velocity_at(link, here)]))
    return jnp.stack(rows)


def on_link(model: Model, body: str | int, point: ArrayLike) -> tuple[int, Float[Array, " 3"]]:
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
