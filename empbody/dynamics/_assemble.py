"""Mass matrix and bias, in two ways with the same result.

Few coordinates, many links (a rhythm): every massive body's Jacobian with respect to q,
then M = Σ Jᵀ I J. Many coordinates: composite inertias of subtrees give the matrix of
the joint variables, which ∂f/∂q then projects. The cheaper one is chosen from the sizes.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics._lanes import cross, dot, mix, multiply
from ..kinematics._links import LinkMotion
from ..model import Topology
from ._bodies import LaneBodies, WorldBodies, inertial_wrenches, second_moments


def mass_and_bias(
    bodies: LaneBodies, motion: LinkMotion
) -> tuple[Float[Array, "nq nq lanes"], Float[Array, "nq lanes"]]:
    """M and N q̇ - G."""
    nq = motion.q.shape[0]
    if composite_is_cheaper(motion.topology, nq, motion.identity):
        return by_composites(bodies, motion)
    return by_body_jacobians(bodies, motion)


def composite_is_cheaper(topology: Topology, nq: int, identity: bool) -> bool:
    """From rough counts of multiplications."""
    nj, nb = topology.n_links, len(topology.massive)
    projected = 6 * nb * nq * (nj + nq)
    composite = nj * nj * (6 + nq) + nj * nq * nq
    return identity or composite < projected


def body_jacobians(
    world: WorldBodies, motion: LinkMotion
) -> tuple[Float[Array, "nb 3 nq lanes"], Float[Array, "nb 3 nq lanes"]]:
    """Angular velocity and velocity of the centre of mass of each massive body, per q̇."""
    carried = motion.topology.ancestors[list(motion.topology.massive_links)]
    jacobian = mix(carried, motion.screw[:, :, None] * motion.jacobian[:, None])
    angular, linear = jacobian[:, :3], jacobian[:, 3:]
    return angular, linear + cross(angular, world.com[:, :, None])


def by_body_jacobians(bodies: LaneBodies, motion: LinkMotion) -> tuple[Array, Array]:
    world = WorldBodies.of(bodies, motion)
    angular, linear = body_jacobians(world, motion)
    moment, force = inertial_wrenches(bodies, world, motion)
    spun = multiply(world.inertia, angular)
    pushed = world.mass[:, None, None] * linear
    pairs = angular[:, :, :, None] * spun[:, :, None] + linear[:, :, :, None] * pushed[:, :, None]
    bias = angular * moment[:, :, None] + linear * force[:, :, None]
    return jnp.sum(pairs, axis=(0, 1)), jnp.sum(bias, axis=(0, 1))


def by_composites(bodies: LaneBodies, motion: LinkMotion) -> tuple[Array, Array]:
    joint_mass, joint_bias = joint_mass_and_bias(bodies, motion)
    if motion.identity:
        return joint_mass, joint_bias
    jacobian = motion.jacobian
    half = jnp.sum(joint_mass[:, :, None] * jacobian[None], axis=1)
    mass = jnp.sum(jacobian[:, :, None] * half[:, None], axis=0)
    return mass, jnp.sum(jacobian * joint_bias[:, None], axis=0)


def joint_mass_and_bias(
    bodies: LaneBodies, motion: LinkMotion
) -> tuple[Float[Array, "nj nj lanes"], Float[Array, "nj lanes"]]:
    """The same pair for the joint variables f as if they were free."""
    world = WorldBodies.of(bodies, motion)
    moment, force = inertial_wrenches(bodies, world, motion)
    moment = moment + cross(world.com, force)
    first = world.mass[:, None] * world.com
    second = second_moments(world)
    lanes = second.shape[-1]
    parts = [
        second[:, *_TRIANGLE],
        first,
        jnp.broadcast_to(world.mass[:, None], (second.shape[0], 1, lanes)),
        moment,
        force,
    ]
    carried = motion.topology.ancestors[list(motion.topology.massive_links)]
    composite = mix(carried.T, jnp.concatenate(parts, axis=1))
    first, mass = composite[:, 6:9], composite[:, 9:10]
    turn, slide = motion.screw[:, :3], motion.screw[:, 3:]
    bias = dot(turn, composite[:, 10:13]) + dot(slide, composite[:, 13:16])
    spin = _rotate_symmetric(composite[:, :6], turn) + cross(first, slide)
    push = mass * slide + cross(turn, first)
    momentum = jnp.concatenate([spin, push], axis=1)
    # Row i: momentum of link i's subtree per unit ḟ_i; column j: an ancestor's screw.
    pairs = _outer(momentum, motion.screw)
    ancestors = motion.topology.ancestors
    above = np.asarray(ancestors - 0.5 * np.eye(len(ancestors)))[:, :, None]
    half = pairs * jnp.asarray(above, dtype=pairs.dtype)
    return half + jnp.swapaxes(half, 0, 1), bias


def _outer(a: Float[Array, "n 6 lanes"], b: Float[Array, "n 6 lanes"]) -> Array:
    """a_i · b_j for all pairs; a plain matrix product where there is one lane."""
    if a.shape[-1] == 1:
        return (a[..., 0] @ b[..., 0].T)[..., None]
    return sum(a[:, None, k] * b[None, :, k] for k in range(6))  # pyright: ignore


_TRIANGLE = np.triu_indices(3)
"""xx, xy, xz, yy, yz, zz"""


def _rotate_symmetric(upper: Float[Array, "n 6 lanes"], v: Float[Array, "n 3 lanes"]) -> Array:
    xx, xy, xz, yy, yz, zz = (upper[:, k] for k in range(6))
    x, y, z = v[:, 0], v[:, 1], v[:, 2]
    rows = [xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z]
    return jnp.stack(rows, axis=1)
