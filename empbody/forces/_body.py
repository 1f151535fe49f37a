"""Forces and torques on bodies, and springs between points of bodies."""

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics import Motion, on_link
from ..model import AbstractForce, Model
from ._values import Strength, as_strength, strength_at

Frame = Literal["ground", "body"]


def _vector(value: Any) -> Float[Array, " 3"]:
    return jnp.asarray(value, dtype=float)


def _matrix(value: Any) -> Float[Array, "3 3"]:
    return jnp.asarray(value, dtype=float)


def _scalar(value: Any) -> Float[Array, ""]:
    return jnp.asarray(value, dtype=float)


def _check_frame(kind: str, body: str, frame: str) -> None:
    if frame not in ("ground", "body"):
        raise ValueError(f"{kind} on {body!r}: frame is {frame!r}, not 'ground' or 'body'")


class BodyForce(AbstractForce):
    """A force (N) on a point of a body. `force` is a vector or a function of time, in the
    ground's axes or, with `frame="body"`, in the body's."""

    body: str = eqx.field(static=True)
    force: Strength = eqx.field(converter=as_strength)
    point: Float[Array, " 3"] = eqx.field(converter=_vector, default=(0.0, 0.0, 0.0))
    frame: Frame = eqx.field(static=True, default="ground")
    turn: Float[Array, "3 3"] = eqx.field(converter=_matrix, default_factory=lambda: np.eye(3))
    link: int = eqx.field(static=True, default=-2)

    def bind(self, model: Model) -> "BodyForce":
        _check_frame("force", self.body, self.frame)
        index = model.body_index(self.body)
        link, point = on_link(model, self.body, self.point)
        turn = jnp.eye(3, dtype=float) if index < 0 else model.body_rotation[index]
        return dataclasses.replace(self, point=point, turn=turn, link=link)

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        force = strength_at(self.force, t)
        if self.frame == "body":
            force = motion.rotation(self.link) @ (self.turn @ force)
        return motion.push(self.link, motion.position(self.link, self.point), force)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        return jnp.zeros_like(motion.q[0])


class BodyTorque(AbstractForce):
    """A torque (N m) on a body, in the ground's axes or the body's."""

    body: str = eqx.field(static=True)
    torque: Strength = eqx.field(converter=as_strength)
    frame: Frame = eqx.field(static=True, default="ground")
    turn: Float[Array, "3 3"] = eqx.field(converter=_matrix, default_factory=lambda: np.eye(3))
    link: int = eqx.field(static=True, default=-2)

    def bind(self, model: Model) -> "BodyTorque":
        _check_frame("torque", self.body, self.frame)
        index = model.body_index(self.body)
        if index < 0:
            return dataclasses.replace(self, turn=jnp.eye(3, dtype=float), link=-1)
        link = model.topology.body_links[index]
        return dataclasses.replace(self, turn=model.body_rotation[index], link=link)

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        torque = strength_at(self.torque, t)
        if self.frame == "body":
            torque = motion.rotation(self.link) @ (self.turn @ torque)
        return motion.turn(self.link, torque)

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
    link_a: int = eqx.field(static=True, default=-2)
    link_b: int = eqx.field(static=True, default=-2)

    def bind(self, model: Model) -> "PointSpring":
        link_a, point_a = on_link(model, self.body_a, self.point_a)
        link_b, point_b = on_link(model, self.body_b, self.point_b)
        return dataclasses.replace(
            self, point_a=point_a, point_b=point_b, link_a=link_a, link_b=link_b
        )

    def _line(self, motion: Motion) -> tuple[Array, Array, Array, Array]:
        a = motion.position(self.link_a, self.point_a)
        b = motion.position(self.link_b, self.point_b)
        square = jnp.sum((b - a) ** 2)
        together = square == 0.0  # no direction: no force, and no NaN in the gradient
        length = jnp.where(together, 0.0, jnp.sqrt(jnp.where(together, 1.0, square)))
        return a, b, length, (b - a) / jnp.where(together, 1.0, length)

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        a, b, length, line = self._line(motion)
        speed = motion.velocity_at(self.link_b, b) - motion.velocity_at(self.link_a, a)
        tension = self.stiffness * (length - self.rest_length) + self.damping * (line @ speed)
        pull = tension * line
        return motion.push(self.link_a, a, pull) - motion.push(self.link_b, b, pull)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        length = self._line(motion)[2]
        return 0.5 * self.stiffness * (length - self.rest_length) ** 2
