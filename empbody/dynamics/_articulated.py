"""Accelerations of free joints without a mass matrix: articulated bodies.

Joint after joint is eliminated from the leaves to the roots. What a link hands to its parent is
the inertia of its subtree as seen through joints that give way, and the force that the subtree
needs; on the way back each joint's acceleration follows from its parent's. The work is in
proportion to the number of joints (Featherstone, Rigid Body Dynamics Algorithms, 2008, chapter
7), where M costs its square and the solve its cube. All six-vectors refer to the motion's
common point and the ground's axes, so nothing is transformed between links.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics._lanes import cross, mix, skew
from ..kinematics._links import LinkMotion
from ..kinematics._walk import inwards, outwards
from ..model import Topology
from ._bodies import LaneBodies, WorldBodies, inertial_wrenches, second_moments

_LEAST_LINKS, _LEAST_LINKS_BATCHED = 9, 3
"""From which on it is cheaper than a mass matrix and a dense solve: measured on chains."""
_SEVENTH = ((0, 0), (6, 0), (0, 0))


def articulated_is_cheaper(topology: Topology, batched: bool) -> bool:
    """For an identity rhythm. Other devices than CPUs are slow at long loops."""
    least = _LEAST_LINKS_BATCHED if batched else _LEAST_LINKS
    return topology.n_links >= least and jax.default_backend() == "cpu"


def articulated_accelerations(
    bodies: LaneBodies, motion: LinkMotion, push: Float[Array, "nj lanes"]
) -> Float[Array, "nj lanes"]:
    """q̈ with M q̈ + N q̇ - G = push, where joint variables are the coordinates."""
    topology, screw = motion.topology, motion.screw
    own = _loads(bodies, motion)
    nothing = jnp.zeros_like(own[0])
    # A joint's row of the equations: its inertia towards the base, and the force that is missing
    # along it. What the link itself brings is summed for all at once.
    first = _along(screw, own) - jnp.pad(push[:, None], _SEVENTH)

    def eliminate(below: Array, given: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        own, screw, row = given
        row = row + jnp.sum(below * screw[:, None], axis=0)
        pivot = jnp.sum(row[:6] * screw, axis=0)
        return own + below - row[:6, None] * (row / pivot[None])[None], row

    rows = inwards(topology, eliminate, nothing, (own, screw, first))
    rows = rows / _along(screw, rows[:, :6, None])

    def accelerate(above: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
        row, screw = given
        own = -row[6] - jnp.sum(row[:6] * above, axis=0)
        return above + screw * own[None], own

    return outwards(topology, accelerate, nothing[:, 0], (rows, screw))


def _along(screw: Float[Array, "nj 6 lanes"], values: Float[Array, "nj _ k lanes"]) -> Array:
    """Σ over the six components. Term by term: XLA hands large sums to a library, which takes
    longer to start than these take."""
    terms = [screw[:, k, None] * values[:, k] for k in range(6)]
    return functools.reduce(jnp.add, terms)


def _loads(bodies: LaneBodies, motion: LinkMotion) -> Float[Array, "nj 6 7 lanes"]:
    """Of every link: its 6×6 inertia, and as a last column the force that it needs at q̈ = 0."""
    world = WorldBodies.of(bodies, motion)
    moment, force = inertial_wrenches(bodies, world, motion)
    second, first = second_moments(world), world.mass[:, None] * world.com
    count, lanes = first.shape[0], first.shape[-1]
    mass = jnp.broadcast_to(world.mass[:, None, None], (count, 1, 1, lanes))
    moment = moment + cross(world.com, force)
    parts = [second.reshape(count, 9, lanes), first, mass[:, 0], moment, force]
    links = np.asarray(motion.topology.massive_links)
    if not np.array_equal(links, np.arange(motion.topology.n_links)):
        carried = np.equal.outer(np.arange(motion.topology.n_links), links).astype(float)
        parts = jnp.split(mix(carried, jnp.concatenate(parts, axis=1)), (9, 12, 13, 16), axis=1)
    second, first, mass, moment, force = parts
    turned = skew(first)
    heavy = mass[:, :, None] * jnp.eye(3, dtype=mass.dtype)[None, :, :, None]
    upper = [second.reshape(-1, 3, 3, lanes), turned, moment[:, :, None]]
    lower = [-turned, heavy, force[:, :, None]]
    return jnp.concatenate([jnp.concatenate(x, axis=2) for x in (upper, lower)], axis=1)
