"""A bushing: springs and dampers on all six deflections between two frames."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics import Motion
from ..model import AbstractForce, Model
from ..model._checks import rotation_matrix

Vector = Float[Array, " 3"]


def _vector(value: Any) -> Vector:
    array = jnp.asarray(value, dtype=float)
    return jnp.broadcast_to(array, (3,)) if array.ndim == 0 else array


class _Frame(eqx.Module):
    """A frame fixed to a body."""

    rotation: Float[Array, "3 3"]
    translation: Vector
    body: int = eqx.field(static=True)


class Bushing(AbstractForce):
    """Springs and dampers between frame A on one body and frame B on another.

    The deflections are the body-fixed X-Y-Z angles of B in A (rad) and the position of B's
    origin in A (m). Each has its own stiffness and damping, and its generalised force is
    -k x - b ẋ, as in OpenSim's BushingForce. The angle about Y must stay within ±π/2.
    """

    body_a: str = eqx.field(static=True)
    body_b: str = eqx.field(static=True)
    rotational_stiffness: Vector
    translational_stiffness: Vector
    rotational_damping: Vector
    translational_damping: Vector
    frame_a: _Frame
    frame_b: _Frame
    name: str = eqx.field(static=True)

    def __init__(
        self,
        body_a: str,
        body_b: str,
        rotational_stiffness: Any = 0.0,
        translational_stiffness: Any = 0.0,
        rotational_damping: Any = 0.0,
        translational_damping: Any = 0.0,
        translation_a: Any = (0.0, 0.0, 0.0),
        rotation_a: Any = (0.0, 0.0, 0.0),
        translation_b: Any = (0.0, 0.0, 0.0),
        rotation_b: Any = (0.0, 0.0, 0.0),
        name: str = "",
    ):
        self.body_a, self.body_b, self.name = body_a, body_b, name
        self.rotational_stiffness = _vector(rotational_stiffness)
        self.translational_stiffness = _vector(translational_stiffness)
        self.rotational_damping = _vector(rotational_damping)
        self.translational_damping = _vector(translational_damping)
        self.frame_a = _frame(body_a, translation_a, rotation_a)
        self.frame_b = _frame(body_b, translation_b, rotation_b)

    def bind(self, model: Model) -> "Bushing":
        both = [
            _Frame(frame.rotation, frame.translation, model.body_index(body))
            for body, frame in ((self.body_a, self.frame_a), (self.body_b, self.frame_b))
        ]
        return eqx.tree_at(
            lambda x: (x.frame_a, x.frame_b), self, both, is_leaf=lambda x: isinstance(x, _Frame)
        )

    def _deflection(self, motion: Motion) -> tuple[Array, ...]:
        """World rotation of A, world points, angles and position of B in A."""
        a, b = self.frame_a, self.frame_b
        turn_a = motion.body_rotation(a.body) @ a.rotation
        turn_b = motion.body_rotation(b.body) @ b.rotation
        at_a = motion.body_point(a.body, a.translation)
        at_b = motion.body_point(b.body, b.translation)
        R = turn_a.T @ turn_b
        # R = Rx Ry Rz, so its first row and last column hold the angles.
        x = jnp.arctan2(-R[1, 2], R[2, 2])
        y = jnp.arctan2(R[0, 2], jnp.hypot(R[0, 0], R[0, 1]))
        z = jnp.arctan2(-R[0, 1], R[0, 0])
        return turn_a, at_a, at_b, jnp.stack([x, y, z]), turn_a.T @ (at_b - at_a)

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        turn_a, _, at_b, angles, place = self._deflection(motion)
        link_a, link_b = motion.link_of(self.frame_a.body), motion.link_of(self.frame_b.body)
        to_rates = jnp.linalg.inv(_axes(angles))
        spin = _spin(motion, link_b) - _spin(motion, link_a)
        rates = to_rates @ (turn_a.T @ spin)
        slide = motion.velocity_at(link_b, at_b) - motion.velocity_at(link_a, at_b)
        moment = -self.rotational_stiffness * angles - self.rotational_damping * rates
        force = -self.translational_stiffness * place
        force = force - self.translational_damping * (turn_a.T @ slide)
        torque, push = turn_a @ (to_rates.T @ moment), turn_a @ force
        on_b = motion.push(link_b, at_b, push) + motion.turn(link_b, torque)
        return on_b - motion.push(link_a, at_b, push) - motion.turn(link_a, torque)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        _, _, _, angles, place = self._deflection(motion)
        stored = self.rotational_stiffness * angles**2 + self.translational_stiffness * place**2
        return 0.5 * jnp.sum(stored)


def _frame(body: str, translation: Any, rotation: Any) -> _Frame:
    turn = rotation_matrix(f"rotation of a bushing on {body!r}", np.asarray(rotation))
    return _Frame(jnp.asarray(turn, dtype=float), _vector(translation), -2)


def _spin(motion: Motion, link: int) -> Vector:
    return jnp.zeros(3, dtype=motion.q.dtype) if link < 0 else motion.velocity[link, :3]


def _axes(angles: Vector) -> Float[Array, "3 3"]:
    """Columns: axes of the three turns in frame A; angular velocity = axes · rates."""
    cx, sx, cy, sy = (*_turn(angles[0]), *_turn(angles[1]))
    zero, one = jnp.zeros_like(cx), jnp.ones_like(cx)
    columns = [(one, zero, zero), (zero, cx, sx), (sy, -sx * cy, cx * cy)]
    return jnp.stack([jnp.stack(column) for column in columns], axis=1)


def _turn(angle: Array) -> tuple[Array, Array]:
    return jnp.cos(angle), jnp.sin(angle)
