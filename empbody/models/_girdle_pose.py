"""Joint variables of clavicle and scapula from anatomical angles, in closed form.

Vectors stand in a bone's basis: the orthonormal axes (a, b, c) that its joint turns about,
one after another, as they are in the zero pose.
"""

from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics._lanes import materialise
from ._triples import Matrix, Vector, combine, triple


class ZeroPose(NamedTuple):
    """The bones' orientations in the model's zero pose, thorax axes."""

    clavicle: Float[Array, "3 3"]
    """Without its axial rotation."""
    axial: Float[Array, ""]
    """Axial rotation of the clavicle (rad)."""
    scapula: Float[Array, "3 3"]


Turn: TypeAlias = tuple[Array, Array]
"""Sine and cosine of an angle."""


class JointTurn(NamedTuple):
    """A turn R(a, α) R(b, β) R(c, γ), in the basis (a, b, c)."""

    angles: Vector
    first: Turn
    """Of α."""
    second: Turn
    """Of β, whose cosine is positive."""


class Rule(NamedTuple):
    """State of the rule for the clavicle's axial rotation, atan2(sine, cosine).

    m = R(b, β)ᵀ R(a, α)ᵀ T is the scapula's turn T seen in the clavicle's frame before its
    axial rotation.
    """

    sine: Array
    """m_21 - m_12"""
    cosine: Array
    """m_11 + m_22"""
    columns: tuple[Vector, Vector]
    """The first two of m."""


class GirdlePose(NamedTuple):
    """What values and derivatives share."""

    clavicle: JointTurn
    """γ is that of protraction and elevation alone, where the axial rotation is given."""
    scapula: JointTurn
    axial: Array
    """The clavicle's third joint variable."""
    clavicle_euler: tuple[Vector, Vector]
    """Axes of the clavicle's anatomical angles as they stand, in its basis."""
    scapula_euler: Matrix
    """The scapula's, in its basis."""
    scapula_euler_there: Matrix
    """The scapula's, in the clavicle's basis."""
    rule: Rule | None
    """None where the axial rotation is given."""

    @property
    def variables(self) -> tuple[Array, ...]:
        """r2, r3, r1 of the clavicle, r2, r3, r1 of the scapula."""
        r2, r3, _ = self.clavicle.angles
        return (r2, r3, self.axial, *self.scapula.angles)


def sincos(angle: Array) -> Turn:
    return jnp.sin(angle), jnp.cos(angle)


def euler_yxz(y: Turn, x: Turn, z: Turn | None = None) -> Matrix:
    """Ry Rx, or Ry Rx Rz, as columns."""
    (sy, cy), (sx, cx) = y, x
    first: Vector = (cy, jnp.zeros_like(cy), -sy)
    second: Vector = (sy * sx, cx, cy * sx)
    third: Vector = (sy * cx, -sx, cy * cx)
    if z is None:
        return first, second, third
    s, c = z
    return combine((c, s), (first, second)), combine((-s, c), (first, second)), third


def girdle_pose(
    angles: Float[Array, " n"], axes: Float[Array, "2 3 3"], zero: ZeroPose
) -> GirdlePose:
    """Joint variables and frames at five or six anatomical angles (rad)."""
    sines, cosines = materialise(jnp.sin(angles), jnp.cos(angles))
    y, x, *last = [(sines[i], cosines[i]) for i in (0, 1, -3, -2, -1)]
    there, own = axes
    # Products of matrices are stored, so nothing is computed twice.
    both = axes.reshape(6, 3)
    turned = both @ _matrix(euler_yxz(*last))
    turn = turned @ (both @ zero.scapula).T
    forward = both @ jnp.stack([last[0][1], jnp.zeros_like(sines[0]), -last[0][0]])
    tilted = there @ _matrix(euler_yxz(y, x))
    tilt = tilted @ (there @ zero.clavicle).T
    a, b, c = turn[3, 3], turn[3, 4], triple(turn[3:, 5])
    a_, b_, bone = tilt[0, 0], tilt[0, 1], triple(tilt[:, 2])
    t1, t2 = triple(turn[:3, 0]), triple(turn[:3, 1])
    forward_there, forward_own = triple(forward[:3]), triple(forward[3:])
    lateral_there, lateral_own = triple(turned[:3, 2]), triple(turned[3:, 2])
    tilt_forward = triple(tilted[:, 0])
    scapula, clavicle = joint_turn((a, b), c), joint_turn((a_, b_), bone)
    if angles.shape[0] == 6:
        axial, rule = clavicle.angles[2] + angles[2] - zero.axial, None
    else:
        m1, m2 = unturned(clavicle, t1), unturned(clavicle, t2)
        rule = Rule(m1[1] - m2[0], m1[0] + m2[1], (m1, m2))
        axial = jnp.arctan2(rule.sine, rule.cosine)
    up, up_there = triple(own[:, 1]), triple(there[:, 1])
    return GirdlePose(
        clavicle=clavicle,
        scapula=scapula,
        axial=axial,
        clavicle_euler=(up_there, tilt_forward),
        scapula_euler=(up, forward_own, lateral_own),
        scapula_euler_there=(up_there, forward_there, lateral_there),
        rule=rule,
    )


def _matrix(columns: Matrix) -> Float[Array, "3 3"]:
    return jnp.stack([jnp.stack(column) for column in columns], axis=1)


def joint_turn(first_row: tuple[Array, Array], third: Vector) -> JointTurn:
    """From the turn's third column and the start of its first row."""
    sine_b, minus, plus = third
    cosine_b = jnp.sqrt(minus * minus + plus * plus)
    alpha, beta = jnp.arctan2(-minus, plus), jnp.arctan2(sine_b, cosine_b)
    gamma = jnp.arctan2(-first_row[1], first_row[0])
    first = (-minus / cosine_b, plus / cosine_b)
    return JointTurn((alpha, beta, gamma), first, (sine_b, cosine_b))


def unturned(joint: JointTurn, v: Vector) -> Vector:
    """R(b, β)ᵀ R(a, α)ᵀ v."""
    (sa, ca), (sb, cb) = joint.first, joint.second
    u, w = ca * v[1] + sa * v[2], ca * v[2] - sa * v[1]
    return cb * v[0] - sb * w, u, sb * v[0] + cb * w
