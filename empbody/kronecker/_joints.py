"""Joints one by one: their variables, their transforms and their joint matrices.

Link i stands in its parent link by a constant placement P_i followed by the joint's own
motion. With the axis V_i given in the joint frame,

    A_i = P_i [[Rot(V_i, θ_i), d_i V_i], [0, 1]],

where θ_i = f_i, d_i = 0 for a revolute joint and θ_i = 0, d_i = f_i for a prismatic one.
The placement takes the part of the constant one of the paper's pair (d_i, θ_i).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model


def joint_variables(model: Model, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
    """f(q): radians for revolute joints, metres for prismatic ones."""
    return model.rhythm(q)


def joint_jacobian(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
    """Row i is ∇f_i."""
    return model.rhythm.jacobian(q)


def joint_hessians(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
    """H_i for every joint i."""
    return model.rhythm.hessian(q)


def skew(v: Float[Array, " 3"]) -> Float[Array, "3 3"]:
    """ṽ, with ṽ u = v × u."""
    x, y, z = v
    o = jnp.zeros_like(x)
    return jnp.array([[o, -z, y], [z, o, -x], [-y, x, o]])


def rotation_about(axis: Float[Array, " 3"], angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    """Rotation by `angle` (rad) about a unit axis (Ehsani 2016, Eq. 39)."""
    V = skew(axis)
    return jnp.eye(3, dtype=V.dtype) + V * jnp.sin(angle) + 2 * V @ V * jnp.sin(angle / 2) ** 2


def homogeneous(
    rotation: Float[Array, "3 3"], translation: Float[Array, " 3"]
) -> Float[Array, "4 4"]:
    """A₄ from its blocks (Ehsani 2016, Eq. 38)."""
    top = jnp.concatenate([rotation, translation[:, None]], axis=1)
    bottom = jnp.array([[0, 0, 0, 1]], dtype=top.dtype)
    return jnp.concatenate([top, bottom])


def joint_transforms(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nj 4 4"]:
    """pr(i)→i A₄: link i in its parent link (Ehsani 2016, Eq. 38-39, with placement)."""
    f = joint_variables(model, q)
    revolute = np.array(model.topology.revolute)
    angle, distance = jnp.where(revolute, f, 0), jnp.where(revolute, 0, f)
    rotations = jax.vmap(rotation_about)(model.axis, angle)
    motions = jax.vmap(homogeneous)(rotations, distance[:, None] * model.axis)
    placements = jax.vmap(homogeneous)(model.rotation, model.translation)
    return placements @ motions


def joint_matrices(model: Model) -> Float[Array, "nj 4 4"]:
    """Joint matrices Â_i, with ∂A_i/∂f_i = A_i Â_i (Ehsani 2016, Eq. 69; 70, corrected; 71).

    The placement stands left of the motion and does not touch Â_i: the upper left block
    is skew(V_i) for a revolute joint. For a prismatic joint the last column of Eq. 71 is
    the parent's V_d in the axes of link i. Here V_d = (placement's rotation) V_i, and link
    i has the placement's axes, so it is V_i itself.
    """
    revolute = np.array(model.topology.revolute)[:, None, None]
    zeros = jnp.zeros((model.nj, 4, 4), dtype=model.axis.dtype)
    turning = zeros.at[:, :3, :3].set(jax.vmap(skew)(model.axis))
    sliding = zeros.at[:, :3, 3].set(model.axis)
    return jnp.where(revolute, turning, sliding)
