"""The massive bodies of a model, as the dynamics sees them."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics._lanes import cross, halves, lanes_last, multiply, rotate, select
from ..kinematics._links import LinkMotion
from ..model import Model


class LaneBodies(eqx.Module):
    """Inertial numbers of the massive bodies in their links' frames, lanes last."""

    mass: Float[Array, "nb #lanes"]
    com: Float[Array, "nb 3 #lanes"]
    inertia: Float[Array, "nb 3 3 #lanes"]
    """About the centre of mass, in link axes."""
    gravity: Float[Array, "1 3 #lanes"]

    @staticmethod
    def of(model: Model, batched: Model | None = None) -> "LaneBodies":
        massive = model.topology.massive
        if not massive:
            raise ValueError(
                "no moving body of the model has mass, so it has no dynamics; give one a mass"
            )

        def leaf(get) -> Array:
            array = lanes_last(get(model), False if batched is None else get(batched))
            return select(array, massive)

        turn = leaf(lambda m: m.body_rotation)
        com = leaf(lambda m: m.body_translation) + rotate(turn, leaf(lambda m: m.com))
        inertia = leaf(lambda m: m.inertia)
        # Both triangles count alike, also for derivatives, whatever the way of assembly.
        half = multiply(turn, 0.5 * (inertia + jnp.swapaxes(inertia, 1, 2)))
        gravity = lanes_last(model.gravity, batched is not None and bool(batched.gravity))
        return LaneBodies(
            mass=leaf(lambda m: m.mass),
            com=com,
            inertia=multiply(half, jnp.swapaxes(turn, 1, 2)),
            gravity=gravity[None],
        )


class WorldBodies(eqx.Module):
    """Massive bodies in the ground frame, about the motion's common origin."""

    mass: Float[Array, "nb #lanes"]
    com: Float[Array, "nb 3 #lanes"]
    """From the motion's origin to the centre of mass."""
    inertia: Float[Array, "nb 3 3 #lanes"]
    """About the centre of mass."""

    @staticmethod
    def of(bodies: LaneBodies, motion: LinkMotion) -> "WorldBodies":
        transform = select(motion.transform, motion.topology.massive_links)
        turn, place = halves(transform, 2)
        half = multiply(turn, bodies.inertia)
        return WorldBodies(
            mass=bodies.mass,
            com=rotate(turn, bodies.com) + (jnp.squeeze(place, axis=2) - motion.origin),
            inertia=multiply(half, jnp.swapaxes(turn, 1, 2)),
        )


def second_moments(world: WorldBodies) -> Float[Array, "nb 3 3 #lanes"]:
    """Inertias about the motion's common origin (Steiner)."""
    c, m = world.com, world.mass[:, None, None]
    square = jnp.sum(c * c, axis=1)[:, None, None]
    eye = jnp.eye(3, dtype=c.dtype)[None, :, :, None]
    return world.inertia + m * (square * eye - c[:, :, None] * c[:, None])


def inertial_wrenches(
    bodies: LaneBodies, world: WorldBodies, motion: LinkMotion
) -> tuple[Float[Array, "nb 3 #lanes"], Float[Array, "nb 3 lanes"]]:
    """Moment about the centre of mass and force that each body needs at q̈ = 0,
    gravity taken into account (Newton-Euler)."""
    links = motion.topology.massive_links
    velocity = select(motion.velocity, links)
    drift = select(motion.acceleration, links)
    (spin, speed), (turn, fall) = halves(velocity), halves(drift)
    speed = speed + cross(spin, world.com)
    fall = fall + cross(turn, world.com) + cross(spin, speed) - bodies.gravity
    moment = rotate(world.inertia, turn) + cross(spin, rotate(world.inertia, spin))
    return moment, world.mass[:, None] * fall
