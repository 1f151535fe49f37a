"""Forces and torques on bodies, and springs between points of bodies."""

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics import Motion
from ..model import AbstractForce, Model
from ._values import Strength, as_strength, strength_at

Frame = Literal["ground", "body"]


def _vector(value: Any) -> Float[Array, " 3"]:
    return jnp.asarray(value, dtype=float)


def _scalar(value: Any) -> Float[Array, ""]:
    return jnp.asarray(value, dtype=float)


def _check_frame(kind: str, body: str, frame: str) -> None:
    if frame not in ("ground", "body"):
        raise ValueError(f"{kind} on {body!r}: frame is {frame!r}, not 'ground' or 'body'")


def _check_point(kind: str, body: str, point: Any) -> None:
    if point.shape != (3,):
        raise ValueError(f"{kind} on {body!r}: a point needs 3 numbers, got shape {point.shape}")


class BodyForce(AbstractForce):
    """A force (N) on a point of a body. `force` is a vector or a function of time, in the
    ground's axes or, with `frame="body"`, in the body's."""

    body: str = eqx.field(static=True)
    force: Strength = eqx.field(converter=as_strength)
    point: Float[Array, " 3"] = eqx.field(converter=_vector, default=(0.0, 0.0, 0.0))
    frame: Frame = eqx.field(static=True, default="ground")
    index: int = eqx.field(static=True, default=-2)

    def bind(self, model: Model) -> "BodyForce":
        _check_frame("force", self.body, self.frame)
        _check_point("force", self.body, self.point)
        return dataclasses.replace(self, index=model.body_index(self.body))

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        force = strength_at(self.force, t)
        if self.frame == "body":
            force = motion.body_rotation(self.index) @ force
        at = motion.body_point(self.index, self.point)
        return motion.push(motion.link_of(self.index), at, force)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        return jnp.zeros_like(motion.q[0])


class BodyTorque(AbstractForce):
    """A torque (N m) on a body, in the ground's axes or the body's."""

    body: str = eqx.field(static=True)
    torque: Strength = eqx.field(converter=as_strength)
    frame: Frame = eqx.field(static=True, default="ground")
    index: int = eqx.field(static=True, default=-2)

    def bind(self, model: Model) -> "BodyTorque":
        _check_frame("torque", self.body, self.frame)
        return dataclasses.replace(self, index=model.body_index(self.body))

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        torque = strength_at(self.torque, t)
        if self.frame == "body":
            torque = motion.body_rotation(self.index) @ torque
        return motion.turn(motion.link_of(self.index), torque)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        return jnp.zeros_like(motion.q[0])


class PointSpring(AbstractForce):
    """A spring and damper between a point on each of two bodies ("ground" is one).

    Tension k (l - rest_length) + b l̇ along the line between the points; N/m, N s/m, m.
    """

    body_a: str = eqx.field(static=True)
    point_a: Float[Array, " 3"] = eqx.field(converter=_vector)
    body_b: str = eqx.field(static=True)
    point_b: Float[Array, " 3"] = eqx.field(converter=_vector)
    stiffness: Float[Array, ""] = eqx.field(converter=_scalar)
    rest_length: Float[Array, ""] = eqx.field(converter=_scalar, default=0.0)
    damping: Float[Array, ""] = eqx.field(converter=_scalar, default=0.0)
    index_a: int = eqx.field(static=True, default=-2)
    index_b: int = eqx.field(static=True, default=-2)

    def bind(self, model: Model) -> "PointSpring":
        _check_point("spring", self.body_a, self.point_a)
        _check_point("spring", self.body_b, self.point_b)
        indices = [model.body_index(body) for body in (self.body_a, self.body_b)]
        return dataclasses.replace(self, index_a=indices[0], index_b=indices[1])

    def _line(self, motion: Motion) -> tuple[Array, Array, Array, Array]:
        a = motion.body_point(self.index_a, self.point_a)
        b = motion.body_point(self.index_b, self.point_b)
        square = jnp.sum((b - a) ** 2)
        together = square == 0.0  # no direction: no force, and no NaN in the gradient
        length = jnp.where(together, 0.0, jnp.sqrt(jnp.where(together, 1.0, square)))
        return a, b, length, (b - a) / jnp.where(together, 1.0, length)

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        a, b, length, line = self._line(motion)
        link_a, link_b = motion.link_of(self.index_a), motion.link_of(self.index_b)
        speed = motion.velocity_at(link_b, b) - motion.velocity_at(link_a, a)
        tension = self.stiffness * (length - self.rest_length) + self.damping * (line @ speed)
        pull = tension * line
        return motion.push(link_a, a, pull) - motion.push(link_b, b, pull)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        length = self._line(motion)[2]
        return 0.5 * self.stiffness * (length - self.rest_length) ** 2
