"""Closed loops: errors of a file's constraints as functions of its coordinates.

The placements here are copies of those in the model: a loop closes with the numbers that
were in the file.
"""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...rhythms import AbstractRhythm

Kind = Literal["weld", "point", "distance"]


class Arm(eqx.Module):
    """Steps of one axis each that lead from a common body to a frame."""

    places: Float[Array, "steps 4 4"]
    """Placement before each step."""
    axes: Float[Array, "steps 3"]
    end: Float[Array, "4 4"]
    turns: tuple[bool, ...] = eqx.field(static=True)

    def __init__(
        self,
        places: Sequence[np.ndarray],
        axes: Sequence[np.ndarray],
        end: np.ndarray,
        turns: Sequence[bool],
    ):
        self.places = jnp.asarray(np.reshape(places, (-1, 4, 4)), dtype=float)
        self.axes = jnp.asarray(np.reshape(axes, (-1, 3)), dtype=float)
        self.end = jnp.asarray(end, dtype=float)
        self.turns = tuple(turns)

    def __call__(self, steps: Float[Array, " steps"]) -> tuple[Float[Array, "3 3"], Array]:
        """Rotation and position of the frame."""
        turn, at = jnp.eye(3, dtype=steps.dtype), jnp.zeros(3, dtype=steps.dtype)
        for k, turns in enumerate(self.turns):
            at = at + turn @ self.places[k, :3, 3]
            turn = turn @ self.places[k, :3, :3]
            if turns:
                turn = turn @ _turn(self.axes[k], steps[k])
            else:
                at = at + turn @ (self.axes[k] * steps[k])
        return turn @ self.end[:3, :3], at + turn @ self.end[:3, 3]


class LoopErrors(eqx.Module):
    """How far constraints are from being met at coordinates x.

    A weld has twelve errors (the distance of the two origins, and all entries of the turn
    between the frames less the identity), a common point three, both in the first frame's
    axes; a rod of constant length has one. Lengths in m, turns in rad.
    """

    rhythm: AbstractRhythm | None
    """All steps of all arms from x, in turn; None where nothing moves."""
    arms: tuple[tuple[Arm, Arm], ...]
    distances: Float[Array, " ties"]
    kinds: tuple[Kind, ...] = eqx.field(static=True)

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, " errors"]:
        steps = jnp.zeros(0, dtype=x.dtype) if self.rhythm is None else self.rhythm(x)
        errors, used = [], 0
        for k, (kind, pair) in enumerate(zip(self.kinds, self.arms, strict=True)):
            ends = []
            for arm in pair:
                ends.append(arm(steps[used : used + len(arm.turns)]))
                used += len(arm.turns)
            (turn1, at1), (turn2, at2) = ends
            apart = turn1.T @ (at2 - at1)
            if kind == "distance":
                d = self.distances[k]
                errors.append((jnp.dot(apart, apart) - d * d)[None] / (2.0 * d))
                continue
            errors.append(apart)
            if kind == "weld":
                errors.append((turn1.T @ turn2 - jnp.eye(3, dtype=x.dtype)).reshape(-1))
        return jnp.concatenate(errors)


class LoopClosure(eqx.Module):
    """g(q, f) = 0 with as many equations as unknowns: independent errors of a loop."""

    errors: LoopErrors
    mix: Float[Array, "nf errors"]
    """Which combinations of the errors are independent."""
    pose: Float[Array, " n"]
    """All coordinates; those that are neither in q nor in f have no effect."""
    places: tuple[int, ...] = eqx.field(static=True)
    """Where those of (q, f) stand in the pose."""

    def coordinates(self, q: Float[Array, " nq"], f: Float[Array, " nf"]) -> Float[Array, " n"]:
        return self.pose.at[np.asarray(self.places)].set(jnp.concatenate([q, f]))

    def __call__(self, q: Float[Array, " nq"], f: Float[Array, " nf"]) -> Float[Array, " nf"]:
        return self.mix @ self.errors(self.coordinates(q, f))


@eqx.filter_jit
def _linear(errors: LoopErrors, x: Float[Array, " n"]):
    return errors(x), jax.jacfwd(errors)(x)


def errors_and_slopes(errors: LoopErrors, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors and their derivatives at x, compiled once for each kind of loop."""
    g, by_x = _linear(errors, jnp.asarray(x, dtype=float))
    return np.asarray(g, dtype=np.float64), np.asarray(by_x, dtype=np.float64)


def _turn(axis: Float[Array, " 3"], angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    x, y, z = axis[0], axis[1], axis[2]
    zero = jnp.zeros_like(x)
    skew = jnp.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    one = jnp.eye(3, dtype=skew.dtype)
    return one + jnp.sin(angle) * skew + (1.0 - jnp.cos(angle)) * (skew @ skew)
