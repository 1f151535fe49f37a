"""M, N, G and what follows from them, for one sample.

M(q) q̈ + N(q, q̇) q̇ = G(q) + R(q) F + τ (Ehsani 2016, Eq. 198), in SI units.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics import Motion
from ..kinematics._arguments import coordinates
from ..kinematics._lanes import cross, lanes_last, mix, multiply
from ..kinematics._links import (
    LaneTree,
    LinkMotion,
    cross_motion,
    lane_jet,
    link_motion,
    motion_of,
)
from ..model import AbstractForce, Model
from ..rhythms import Identity
from ._articulated import articulated_accelerations, articulated_is_cheaper
from ._assemble import body_jacobians, composite_is_cheaper, mass_and_bias
from ._batching import Implicit, lanes_under_vmap
from ._bodies import LaneBodies, WorldBodies
from ._chunks import CHUNK, SMALL_CHUNK
from ._inverse import lane_inverse
from ._solve import solve_positive

Coordinates = Float[Array, " nq"]


@eqx.filter_jit
def mass_matrix(model: Model, q: Coordinates) -> Float[Array, "nq nq"]:
    """M(q): symmetric, positive definite where every coordinate moves some mass (Eq. 189)."""
    (q,) = coordinates(model, q=q)
    motion = motion_of(model, q, jnp.zeros_like(q))
    return mass_and_bias(LaneBodies.of(model), motion)[0][..., 0]


@eqx.filter_jit
def bias(model: Model, q: Coordinates, qd: Coordinates) -> Coordinates:
    """N(q, q̇) q̇: Coriolis and centrifugal generalised forces."""
    q, qd = coordinates(model, q=q, qd=qd)
    motion = motion_of(model, q, qd)
    bodies = LaneBodies.of(model)
    weightless = eqx.tree_at(lambda b: b.gravity, bodies, jnp.zeros_like(bodies.gravity))
    return mass_and_bias(weightless, motion)[1][:, 0]


@eqx.filter_jit
def gravity(model: Model, q: Coordinates) -> Coordinates:
    """G(q): generalised force of gravity (Eq. 197)."""
    (q,) = coordinates(model, q=q)
    motion = motion_of(model, q, jnp.zeros_like(q))
    world = WorldBodies.of(LaneBodies.of(model), motion)
    _, linear = body_jacobians(world, motion)
    weight = model.gravity[None, :, None, None] * world.mass[:, None, None]
    return jnp.sum(linear * weight, axis=(0, 1))[..., 0]


@eqx.filter_jit
def coriolis(model: Model, q: Coordinates, qd: Coordinates) -> Float[Array, "nq nq"]:
    """N(q, q̇) in Christoffel form, so that Ṁ - 2N is skew (Eq. 147 corrected, 190)."""
    q, qd = coordinates(model, q=q, qd=qd)
    motion = motion_of(model, q, qd)
    bodies = LaneBodies.of(model)
    world = WorldBodies.of(bodies, motion)
    links = list(motion.topology.massive_links)
    carried = motion.topology.ancestors[links]
    _, bent = jax.jvp(model.rhythm.jacobian, (q,), (qd,))  # d(∂f/∂q)/dt
    swept = cross_motion(motion.velocity, motion.screw)
    rate = mix(
        carried,
        motion.screw[:, :, None] * bent[:, None, :, None]
        + swept[:, :, None] * motion.jacobian[:, None],
    )
    angular, linear = body_jacobians(world, motion)
    com = world.com[:, :, None]
    spin = motion.velocity[links, :3][:, :, None]
    # Each column is an acceleration field: rate of the Jacobian's column plus the column
    # turned by the body's own motion. Its force and moment about the centre of mass:
    turn = rate[:, :3]
    speed = motion.velocity[links, 3:][:, :, None] + cross(spin, com)
    fall = rate[:, 3:] + cross(turn, com) + cross(angular, speed)
    trace = jnp.trace(world.inertia, axis1=1, axis2=2)[:, None, None]
    eye = jnp.eye(3, dtype=q.dtype)[None, :, :, None]
    second = 0.5 * trace * eye - world.inertia  # ∫ r rᵀ dm
    turned = multiply(second, angular)
    moment = multiply(world.inertia, turn) + cross(turned, jnp.broadcast_to(spin, turned.shape))
    force = world.mass[:, None, None] * fall
    pairs = angular[:, :, :, None] * moment[:, :, None] + linear[:, :, :, None] * force[:, :, None]
    return jnp.sum(pairs, axis=(0, 1))[..., 0]


@eqx.filter_jit
def forward_dynamics(
    model: Model,
    q: Coordinates,
    qd: Coordinates,
    tau: Coordinates | None = None,
    *,
    t: Float[Array, ""] | float = 0.0,
    elements: bool = True,
) -> Coordinates:
    """q̈ under gravity, generalised forces `tau` and the model's own force elements.

    **Arguments:**

    - `tau`: generalised forces on the coordinates (N m or N); none if absent.
    - `t`: time (s), for force elements that depend on it.
    - `elements`: whether the model's springs, dampers, torques and external forces act.
    """
    q, qd = coordinates(model, q=q, qd=qd)
    (push,) = [jnp.zeros_like(q)] if tau is None else coordinates(model, tau=tau)
    time = jnp.asarray(t, dtype=q.dtype)
    acting = elements and bool(model.forces)
    identity = _is_identity(model)
    by_bodies = not composite_is_cheaper(model.topology, model.nq, identity)
    walked = identity and articulated_is_cheaper(model.topology, batched=True)
    forward = lanes_under_vmap(
        functools.partial(_forward, elements=acting),
        batches_well=by_bodies or walked,
        implicit=Implicit(
            functools.partial(_defect, elements=acting), solve_positive, batches_well=by_bodies
        ),
        chunk=SMALL_CHUNK if walked else CHUNK,
        alone=functools.partial(_forward, elements=acting, stored=False),
    )
    return forward((model, q, qd, push, time))


def _lane_state(arguments: Any, batched: Any, size: int) -> list[Array]:
    """q, q̇, τ and t, lanes last; `batched` tells which arguments have a batch axis."""
    state = [lanes_last(x, flag) for x, flag in zip(arguments[1:], batched[1:], strict=True)]
    return [jnp.broadcast_to(x, (*x.shape[:-1], size)) for x in state]


def _forward(
    arguments: Any, batched: Any, size: int, *, elements: bool, stored: bool = True
) -> Float[Array, "nq lanes"]:
    """Accelerations, lanes last; `stored` is that of `LaneTree`."""
    model, of_model = arguments[0], batched[0]
    q, qd, push, t = _lane_state(arguments, batched, size)
    jet = lane_jet(model.rhythm, q, qd, of_model.rhythm)
    identity = _is_identity(model)
    walked = identity and articulated_is_cheaper(model.topology, batched=size != 1)
    along = walked and (size != 1 or model.topology.is_deep)
    tree = LaneTree.of(model, of_model, stored)
    motion = link_motion(tree, q, qd, jet, identity, walked=along)
    bodies = LaneBodies.of(model, of_model)
    if elements:
        push = push + _lane_forces(model, of_model, motion, t)
    if walked:
        return articulated_accelerations(bodies, motion, push)
    mass, need = mass_and_bias(bodies, motion)
    return solve_positive(mass, push - need)


def _defect(
    arguments: Any, batched: Any, size: int, qdd: Float[Array, "nq lanes"], *, elements: bool
) -> tuple[Float[Array, "nq lanes"], Float[Array, "nq nq lanes"]]:
    """M q̈ + N q̇ - G - τ, zero at the right q̈, and M."""
    model, of_model = arguments[0], batched[0]
    q, qd, push, t = _lane_state(arguments, batched, size)
    jet = lane_jet(model.rhythm, q, qd, of_model.rhythm)
    tree, bodies = LaneTree.of(model, of_model), LaneBodies.of(model, of_model)
    motion = link_motion(tree, q, qd, jet, _is_identity(model), qdd)
    if elements:
        push = push + _lane_forces(model, of_model, motion, t)
    return lane_inverse(bodies, motion) - push, mass_and_bias(bodies, motion)[0]


def _is_identity(model: Model) -> bool:
    return isinstance(model.rhythm, Identity)


def _lane_forces(
    model: Model, batched: Model, motion: LinkMotion, t: Float[Array, " lanes"]
) -> Float[Array, "nq lanes"]:
    arrays, rest = eqx.partition(model.forces, eqx.is_array)
    axes = jax.tree.map(lambda b: 0 if b else None, batched.forces)

    def total(arrays: Any, motion: LinkMotion, t: Float[Array, ""]) -> Coordinates:
        return sum_of_forces(eqx.combine(arrays, rest), Motion.of_sample(motion), t)

    lanes = t.shape[-1]
    jacobian = jnp.broadcast_to(motion.jacobian, (*motion.jacobian.shape[:2], lanes))
    motion = eqx.tree_at(lambda m: m.jacobian, motion, jacobian)
    return jax.vmap(total, in_axes=(axes, -1, -1), out_axes=-1)(arrays, motion, t)


@eqx.filter_jit
def inverse_dynamics(
    model: Model,
    q: Coordinates,
    qd: Coordinates,
    qdd: Coordinates,
    *,
    t: Float[Array, ""] | float = 0.0,
    elements: bool = False,
) -> Coordinates:
    """M q̈ + N q̇ - G: the generalised forces that this motion of the skeleton needs.

    With `elements=True`, what the model's own force elements already give is taken off.
    """
    q, qd, qdd = coordinates(model, q=q, qd=qd, qdd=qdd)
    motion = motion_of(model, q, qd)
    mass, need = mass_and_bias(LaneBodies.of(model), motion)
    total = mass[..., 0] @ qdd + need[:, 0]
    if not elements:
        return total
    return total - sum_of_forces(model.forces, Motion.of_lane(motion), t)


@eqx.filter_jit
def applied_forces(
    model: Model, q: Coordinates, qd: Coordinates, t: Float[Array, ""] | float = 0.0
) -> Coordinates:
    """Generalised force of the model's springs, dampers, torques and external forces."""
    q, qd = coordinates(model, q=q, qd=qd)
    return sum_of_forces(model.forces, Motion.of(model, q, qd), t)


def sum_of_forces(
    forces: tuple[AbstractForce, ...], motion: Motion, t: Float[Array, ""] | float
) -> Coordinates:
    time = jnp.asarray(t, dtype=motion.q.dtype)
    total = jnp.zeros_like(motion.q)
    for force in forces:
        total = total + force.generalised_force(motion, time)
    return total


@eqx.filter_jit
def kinetic_energy(model: Model, q: Coordinates, qd: Coordinates) -> Float[Array, ""]:
    """½ q̇ᵀ M q̇, in joules."""
    q, qd = coordinates(model, q=q, qd=qd)
    return 0.5 * qd @ (mass_matrix(model, q) @ qd)


@eqx.filter_jit
def potential_energy(model: Model, q: Coordinates) -> Float[Array, ""]:
    """Of gravity (zero at the ground's origin) and of the model's springs, in joules."""
    (q,) = coordinates(model, q=q)
    motion = motion_of(model, q, jnp.zeros_like(q))
    world = WorldBodies.of(LaneBodies.of(model), motion)
    com = (world.com + motion.origin)[..., 0]
    energy = -jnp.sum(world.mass[:, 0] * (com @ model.gravity))
    sample = Motion.of_lane(motion)
    for force in model.forces:
        energy = energy + force.potential_energy(sample)
    return energy


@eqx.filter_jit
def mechanical_energy(model: Model, q: Coordinates, qd: Coordinates) -> Float[Array, ""]:
    """Kinetic plus potential energy, in joules."""
    return kinetic_energy(model, q, qd) + potential_energy(model, q)
