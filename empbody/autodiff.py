"""Kinematics and dynamics with every derivative by automatic differentiation.

Forward kinematics is written once, as a plain product of 4×4 matrices along the tree; all
the rest is differentiated from it. Slow to run and short to read: a reference that shares
no derivative with `empbody.kronecker` or the fast path. SI units, radians, ground frame.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .calculus import arrange_derivative
from .model import Model
from .paths import lengths_from_frames

__all__ = [
    "bias",
    "body_transforms",
    "coriolis",
    "forward_dynamics",
    "gravity",
    "inverse_dynamics",
    "joint_hessians",
    "joint_jacobian",
    "joint_variables",
    "kinetic_energy",
    "mass_matrix",
    "moment_arms",
    "path_lengths",
    "point_acceleration",
    "point_position",
    "point_velocity",
    "potential_energy",
    "transform_derivatives",
    "transform_second_derivatives",
]


def joint_variables(model: Model, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
    """f(q): radians for revolute joints, metres for prismatic ones."""
    return model.rhythm(q)


def joint_jacobian(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
    """∂f/∂q, from the values of the rhythm alone."""
    return jax.jacfwd(model.rhythm)(q)


def joint_hessians(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
    """H_i for every joint i, from the values of the rhythm alone."""
    return jax.jacfwd(jax.jacfwd(model.rhythm))(q)


@eqx.filter_jit
def body_transforms(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nb 4 4"]:
    """Ground to body, for every body; the one place where the tree is walked."""
    f = joint_variables(model, q)
    revolute = np.array(model.topology.revolute)
    angle, distance = jnp.where(revolute, f, 0), jnp.where(revolute, 0, f)
    turn = jax.vmap(_rotation)(model.axis, angle)
    motions = _transforms(turn, distance[:, None] * model.axis)
    joints = _transforms(model.rotation, model.translation) @ motions
    links = {-1: jnp.eye(4, dtype=f.dtype)}
    for i in model.topology.order:
        links[i] = links[model.topology.parents[i]] @ joints[i]
    carriers = jnp.stack([links[link] for link in model.topology.body_links])
    return carriers @ _transforms(model.body_rotation, model.body_translation)


@eqx.filter_jit
def transform_derivatives(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nb 4*nq 4"]:
    """D = ∂(transposed transform)/∂q of every body (Ehsani 2016, Eq. 45, Definition 1)."""
    return jax.vmap(arrange_derivative)(jax.jacfwd(lambda x: _transposed(model, x))(q))


@eqx.filter_jit
def transform_second_derivatives(
    model: Model, q: Float[Array, " nq"]
) -> Float[Array, "nb 4*nq**2 4"]:
    """D' = ∂D/∂q of every body (Ehsani 2016, Eq. 58, Definition 1 twice)."""
    second = jax.jacfwd(lambda x: transform_derivatives(model, x))(q)
    return jax.vmap(arrange_derivative)(second)


@eqx.filter_jit
def point_position(
    model: Model, q: Float[Array, " nq"], body: str | int, point: Float[Array, " 3"]
) -> Float[Array, " 3"]:
    """Ground-frame position (m) of a point given in body axes; "ground" or -1 is fixed."""
    index = model.body_index(body) if isinstance(body, str) else body
    if not -1 <= index < model.nb:
        raise ValueError(f"body {index} of a model with {model.nb} bodies; -1 is the ground")
    if index < 0:
        return point
    A = body_transforms(model, q)[index]
    return A[:3, :3] @ point + A[:3, 3]


@eqx.filter_jit
def point_velocity(
    model: Model,
    q: Float[Array, " nq"],
    qd: Float[Array, " nq"],
    body: str | int,
    point: Float[Array, " 3"],
) -> Float[Array, " 3"]:
    """Velocity (m/s) of a point fixed on a body, in ground axes."""
    return jax.jvp(lambda x: point_position(model, x, body, point), (q,), (qd,))[1]


@eqx.filter_jit
def point_acceleration(
    model: Model,
    q: Float[Array, " nq"],
    qd: Float[Array, " nq"],
    qdd: Float[Array, " nq"],
    body: str | int,
    point: Float[Array, " 3"],
) -> Float[Array, " 3"]:
    """Acceleration (m/s²) of a point fixed on a body, in ground axes."""

    def velocity(x: Array, v: Array) -> Array:
        return point_velocity(model, x, v, body, point)

    return jax.jvp(velocity, (q, qd), (qd, qdd))[1]


@eqx.filter_jit
def kinetic_energy(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"]
) -> Float[Array, ""]:
    """Σ ½ m |v_com|² + ½ ωᵀ I ω over all bodies, in joules."""
    A, rate = jax.jvp(lambda x: body_transforms(model, x), (q,), (qd,))
    R, dR = A[:, :3, :3], rate[:, :3, :3]
    v = jnp.einsum("bik,bk->bi", dR, model.com) + rate[:, :3, 3]
    spin = jnp.einsum("bki,bkj->bij", R, dR)  # skew(ω), in body axes
    w = jnp.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], axis=1)
    rotational = jnp.einsum("bi,bij,bj->", w, model.inertia, w)
    return 0.5 * (jnp.einsum("b,bi,bi->", model.mass, v, v) + rotational)


@eqx.filter_jit
def potential_energy(model: Model, q: Float[Array, " nq"]) -> Float[Array, ""]:
    """-Σ m g · r_com over all bodies, in joules; zero at the ground's origin."""
    A = body_transforms(model, q)
    r = jnp.einsum("bik,bk->bi", A[:, :3, :3], model.com) + A[:, :3, 3]
    return -jnp.einsum("b,bi,i->", model.mass, r, model.gravity)


@eqx.filter_jit
def mass_matrix(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nq nq"]:
    """M, the Hessian of the kinetic energy in q̇."""
    hessian = jax.jacfwd(jax.jacfwd(lambda v: kinetic_energy(model, q, v)))
    return hessian(jnp.zeros_like(q))


@eqx.filter_jit
def coriolis(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"]
) -> Float[Array, "nq nq"]:
    """N_kj = Σ_i ½ (∂M_kj/∂q_i + ∂M_ki/∂q_j - ∂M_ij/∂q_k) q̇_i: Christoffel symbols."""
    slope = jax.jacfwd(lambda x: mass_matrix(model, x))(q)
    along = jnp.einsum("kji,i->kj", slope, qd)
    across = jnp.einsum("kij,i->kj", slope, qd)
    return 0.5 * (along + across - across.T)


@eqx.filter_jit
def bias(model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Float[Array, " nq"]:
    """N q̇: Coriolis and centrifugal forces, on the left side of the equations of motion."""
    return coriolis(model, q, qd) @ qd


@eqx.filter_jit
def gravity(model: Model, q: Float[Array, " nq"]) -> Float[Array, " nq"]:
    """G = -∂V/∂q, on the right side of the equations of motion."""
    return -jax.grad(potential_energy, argnums=1)(model, q)


@eqx.filter_jit
def inverse_dynamics(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"], qdd: Float[Array, " nq"]
) -> Float[Array, " nq"]:
    """τ = M q̈ + N q̇ - G of the skeleton alone; the model's force elements take no part."""
    return mass_matrix(model, q) @ qdd + bias(model, q, qd) - gravity(model, q)


@eqx.filter_jit
def forward_dynamics(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"], tau: Float[Array, " nq"]
) -> Float[Array, " nq"]:
    """q̈ = M⁻¹ (G - N q̇ + τ) of the skeleton alone."""
    force = gravity(model, q) - bias(model, q, qd) + tau
    return jnp.linalg.solve(mass_matrix(model, q), force)


@eqx.filter_jit
def path_lengths(model: Model, q: Float[Array, " nq"]) -> Float[Array, " nm"]:
    """Lengths (m) of all musculotendon paths, from the body transforms of this module."""
    if any(model.paths.layout.surfaces[wrap.surface].active for wrap in model.paths.layout.wraps):
        return lengths_from_frames(model, q, body_transforms(model, q))
    x, alive = _path_points(model, q), _living_points(model, q)
    lengths = []
    for unit in range(model.nm):
        points = model.paths.layout.points_of(unit)
        total, before = jnp.zeros((), dtype=x.dtype), x[points[0]]
        for p in points[1:]:
            here = alive.get(p, True)
            total = total + jnp.where(here, _distance(before, x[p]), 0)
            before = jnp.where(here, x[p], before)
        lengths.append(total)
    return jnp.stack(lengths) if lengths else jnp.zeros(0, dtype=x.dtype)


@eqx.filter_jit
def moment_arms(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nq nm"]:
    """R = -∂L/∂q: generalised force per unit tension (m, or 1 for a translation)."""
    return -jax.jacfwd(lambda x: path_lengths(model, x))(q).T


def _path_points(model: Model, q: Float[Array, " nq"]) -> Float[Array, "np 3"]:
    """Points of all paths in the ground frame."""
    layout, r = model.paths.layout, model.paths.location
    for (p, inputs), location in zip(layout.moving, model.paths.moving, strict=True):
        r = r.at[p].set(location(q[np.array(inputs, dtype=int)]))
    ground = jnp.eye(4, dtype=model.axis.dtype)[None]
    A = jnp.concatenate([ground, body_transforms(model, q)])[np.array(layout.bodies, int) + 1]
    return jnp.einsum("pij,pj->pi", A[:, :3, :3], r) + A[:, :3, 3]


def _living_points(model: Model, q: Float[Array, " nq"]) -> dict[int, Bool[Array, ""]]:
    """Whether the path goes through them, for points of which this is not sure."""
    slots = zip(model.paths.layout.conditional, model.paths.condition, strict=True)
    return {p: (low <= q[i]) & (q[i] <= high) for (p, i), (low, high) in slots}


def _distance(a: Float[Array, " 3"], b: Float[Array, " 3"]) -> Float[Array, ""]:
    """|b - a|, with gradient zero where the points coincide."""
    square = (b - a) @ (b - a)
    nothing = square == 0
    return jnp.where(nothing, 0, jnp.sqrt(jnp.where(nothing, 1, square)))


def _transposed(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nb 4 4"]:
    return body_transforms(model, q).swapaxes(1, 2)


def _transforms(R: Float[Array, "n 3 3"], r: Float[Array, "n 3"]) -> Float[Array, "n 4 4"]:
    last = jnp.broadcast_to(jnp.array([0, 0, 0, 1], dtype=R.dtype), (len(R), 1, 4))
    return jnp.concatenate([jnp.concatenate([R, r[:, :, None]], axis=2), last], axis=1)


def _rotation(axis: Float[Array, " 3"], angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    """Rotation about a unit axis: cos 1 + sin skew(axis) + (1 - cos) axis axisᵀ."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    cross = jnp.cross(jnp.eye(3, dtype=axis.dtype), axis[None, :])
    return c * jnp.eye(3, dtype=axis.dtype) + s * cross + (1 - c) * jnp.outer(axis, axis)
