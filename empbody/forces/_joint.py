"""Forces on joint variables and on coordinates."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics import Motion
from ..model import AbstractForce, Model
from ._values import Strength, as_strength, strength_at


def _scalar(value: Any) -> Float[Array, ""]:
    return jnp.asarray(value, dtype=float)


class JointSpring(AbstractForce):
    """-k (f - rest) - b ḟ on one joint variable: a torsion spring, or a linear one on a
    prismatic joint. SI units: N m/rad and N m s/rad, or N/m and N s/m."""

    joint: str = eqx.field(static=True)
    stiffness: Float[Array, ""] = eqx.field(converter=_scalar, default=0.0)
    rest: Float[Array, ""] = eqx.field(converter=_scalar, default=0.0)
    damping: Float[Array, ""] = eqx.field(converter=_scalar, default=0.0)
    index: int = eqx.field(static=True, default=-1)

    def bind(self, model: Model) -> "JointSpring":
        return dataclasses.replace(self, index=model.joint_index(self.joint))

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        stretch = motion.f[self.index] - self.rest
        force = -self.stiffness * stretch - self.damping * motion.fd[self.index]
        return motion.jacobian[self.index] * force

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        return 0.5 * self.stiffness * (motion.f[self.index] - self.rest) ** 2


class JointForce(AbstractForce):
    """A torque (revolute, N m) or force (prismatic, N) on one joint variable; `value` is a
    number or a function of time."""

    joint: str = eqx.field(static=True)
    value: Strength = eqx.field(converter=as_strength, default=0.0)
    index: int = eqx.field(static=True, default=-1)

    def bind(self, model: Model) -> "JointForce":
        return dataclasses.replace(self, index=model.joint_index(self.joint))

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        return motion.jacobian[self.index] * strength_at(self.value, t)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        return jnp.zeros_like(motion.q[0])


class CoordinateSpring(AbstractForce):
    """-k (q - rest) - b q̇ on one generalised coordinate."""

    coordinate: str = eqx.field(static=True)
    stiffness: Float[Array, ""] = eqx.field(converter=_scalar, default=0.0)
    rest: Float[Array, ""] = eqx.field(converter=_scalar, default=0.0)
    damping: Float[Array, ""] = eqx.field(converter=_scalar, default=0.0)
    index: int = eqx.field(static=True, default=-1)

    def bind(self, model: Model) -> "CoordinateSpring":
        return dataclasses.replace(self, index=model.coordinate_index(self.coordinate))

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        stretch = motion.q[self.index] - self.rest
        force = -self.stiffness * stretch - self.damping * motion.qd[self.index]
        return jnp.zeros_like(motion.q).at[self.index].set(force)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        return 0.5 * self.stiffness * (motion.q[self.index] - self.rest) ** 2


class CoordinateForce(AbstractForce):
    """A generalised force on one coordinate; `value` is a number or a function of time."""

    coordinate: str = eqx.field(static=True)
    value: Strength = eqx.field(converter=as_strength, default=0.0)
    index: int = eqx.field(static=True, default=-1)

    def bind(self, model: Model) -> "CoordinateForce":
        return dataclasses.replace(self, index=model.coordinate_index(self.coordinate))

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        return jnp.zeros_like(motion.q).at[self.index].set(strength_at(self.value, t))

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        return jnp.zeros_like(motion.q[0])
