"""Inverse dynamics without a mass matrix: Newton and Euler over all links at once."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics._lanes import cross, mix
from ..kinematics._links import LinkMotion
from ._bodies import LaneBodies, WorldBodies, inertial_wrenches


def lane_inverse(bodies: LaneBodies, motion: LinkMotion) -> Float[Array, "nq lanes"]:
    """M q̈ + N q̇ - G, lanes last; `motion` is that with q̈."""
    forces = joint_forces(bodies, motion)
    if motion.identity:
        return forces
    return jnp.sum(motion.jacobian * forces[:, None], axis=0)


def joint_forces(bodies: LaneBodies, motion: LinkMotion) -> Float[Array, "nj lanes"]:
    """What the motion needs along every joint's own axis."""
    world = WorldBodies.of(bodies, motion)
    moment, force = inertial_wrenches(bodies, world, motion)
    wrench = jnp.concatenate([moment + cross(world.com, force), force], axis=1)
    carried = motion.topology.ancestors[list(motion.topology.massive_links)]
    return jnp.sum(mix(carried.T, wrench) * motion.screw, axis=1)
