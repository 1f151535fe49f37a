"""Derivatives of the shoulder girdle's joint variables along a direction, in closed form.

Rates of the anatomical angles are an angular velocity, and that is rates of the joint
variables: of a turn R(a, α) R(b, β) R(c, γ) it is α̇ a + β̇ R(a, α) b + γ̇ R(a, α) R(b, β) c.
The same again with the angular acceleration gives second derivatives.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
from jaxtyping import Array, Float

from ._girdle_pose import GirdlePose, JointTurn, Rule, unturned
from ._triples import Vector, combine, cross, minus, plus, scaled


class Rates(NamedTuple):
    """First derivatives along one direction; all are linear in it."""

    clavicle: Vector
    """Of the three angles of protraction and elevation together."""
    scapula: Vector
    axial: Array
    seen: Vector
    """Angular velocity of the scapula in the clavicle's frame before its axial rotation."""

    @property
    def variables(self) -> tuple[Array, ...]:
        r2, r3, _ = self.clavicle
        return (r2, r3, self.axial, *self.scapula)


def first_derivative(pose: GirdlePose, rates: Float[Array, " n"]) -> Rates:
    """Rates of the joint variables from those of the anatomical angles."""
    three = (rates[-3], rates[-2], rates[-1])
    scapula = _angle_rates(pose.scapula, combine(three, pose.scapula_euler))
    tilt = combine((rates[0], rates[1]), pose.clavicle_euler)
    clavicle = _angle_rates(pose.clavicle, tilt)
    seen = unturned(pose.clavicle, combine(three, pose.scapula_euler_there))
    if pose.rule is None:
        axial = clavicle[2] + rates[2]
    else:
        x = minus(seen, _frame_velocity(pose.clavicle, clavicle))
        first, second = _slopes(pose.rule)
        axial = x[2] - first * x[0] - second * x[1]
    return Rates(clavicle, scapula, axial, seen)


def along(columns: Sequence[Rates], speeds: Sequence[Array]) -> Rates:
    """Rates along a combination of directions."""

    def mixed(*leaves: Array) -> Array:
        total = speeds[0] * leaves[0]
        for speed, leaf in zip(speeds[1:], leaves[1:], strict=True):
            total = total + speed * leaf
        return total

    return jax.tree.map(mixed, *columns)


def second_derivative(
    pose: GirdlePose, first: Rates, rates: Float[Array, " n"], bend: Float[Array, " n"]
) -> tuple[Array, ...]:
    """Second derivatives of the joint variables along the direction of `first`.

    `rates` and `bend` are the first and second derivatives of the anatomical angles.
    """
    three, bends = (rates[-3], rates[-2], rates[-1]), (bend[-3], bend[-2], bend[-1])
    own = _acceleration(pose.scapula_euler, three, bends)
    scapula = _angle_bends(pose.scapula, first.scapula, own)
    tilt = plus(
        combine((bend[0], bend[1]), pose.clavicle_euler),
        scaled(rates[0] * rates[1], cross(*pose.clavicle_euler)),
    )
    clavicle = _angle_bends(pose.clavicle, first.clavicle, tilt)
    if pose.rule is None:
        axial = clavicle[2] + bend[2]
    else:
        there = _acceleration(pose.scapula_euler_there, three, bends)
        frame = _frame_velocity(pose.clavicle, first.clavicle)
        x = minus(first.seen, frame)
        growing = minus(
            minus(unturned(pose.clavicle, there), cross(frame, first.seen)),
            _frame_acceleration(pose.clavicle, first.clavicle, clavicle),
        )
        axial = _rule_bend(pose.rule, x, growing)
    return clavicle[0], clavicle[1], axial, *scapula


def _angle_rates(joint: JointTurn, omega: Vector) -> Vector:
    (sa, ca), (sb, cb) = joint.first, joint.second
    beta, side = ca * omega[1] + sa * omega[2], ca * omega[2] - sa * omega[1]
    gamma = side / cb
    return omega[0] - sb * gamma, beta, gamma


def _angle_bends(joint: JointTurn, rates: Vector, acceleration: Vector) -> Vector:
    (sa, ca), (sb, cb) = joint.first, joint.second
    alpha, beta, gamma = rates
    x, y, z = acceleration
    gammas = (ca * z - sa * y - alpha * beta + beta * gamma * sb) / cb
    betas = ca * y + sa * z + alpha * gamma * cb
    return x - beta * gamma * cb - sb * gammas, betas, gammas


def _acceleration(axes: tuple[Vector, ...], rates: Vector, bends: Vector) -> Vector:
    """Angular acceleration of three turns; each axis is carried by those before it."""
    a, b, c = axes
    x, y, z = rates
    carried = plus(scaled(x * y, cross(a, b)), scaled(z, cross(combine((x, y), (a, b)), c)))
    return plus(combine(bends, axes), carried)


def _frame_velocity(joint: JointTurn, rates: Vector) -> Vector:
    """Angular velocity of R(a, α) R(b, β), in the turned frame."""
    sb, cb = joint.second
    return rates[0] * cb, rates[1], rates[0] * sb


def _frame_acceleration(joint: JointTurn, rates: Vector, bends: Vector) -> Vector:
    """Rate of change of those components."""
    sb, cb = joint.second
    twist = rates[0] * rates[1]
    return bends[0] * cb - twist * sb, bends[1], bends[0] * sb + twist * cb


def _slopes(rule: Rule) -> tuple[Array, Array]:
    """The axial rate is x_3 - first x_1 - second x_2 of the relative angular velocity x."""
    s, c, (m1, m2) = rule
    size = s * s + c * c
    return (c * m1[2] - s * m2[2]) / size, (c * m2[2] + s * m1[2]) / size


def _rule_bend(rule: Rule, x: Vector, growing: Vector) -> Array:
    """Second derivative of the axial angle; a column of m changes as x × column."""
    s, c, ((m11, m21, m31), (m12, m22, m32)) = rule
    first, second = _slopes(rule)
    ds = x[2] * c - x[0] * m31 - x[1] * m32
    dc = x[1] * m31 - x[0] * m32 - x[2] * s
    d31, d32 = x[0] * m21 - x[1] * m11, x[0] * m22 - x[1] * m12
    size, growth = s * s + c * c, 2.0 * (s * ds + c * dc)
    dfirst = (dc * m31 + c * d31 - ds * m32 - s * d32 - growth * first) / size
    dsecond = (dc * m32 + c * d32 + ds * m31 + s * d31 - growth * second) / size
    carried = growing[2] - first * growing[0] - second * growing[1]
    return carried - dfirst * x[0] - dsecond * x[1]
