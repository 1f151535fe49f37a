"""Force sharing along a whole motion, written as costs and constraints of neighbouring frames.

Unknowns of a frame are the activations a, with elastic tendons the tendon forces over the
maximum isometric ones, and the reserves over their optimal forces. Torques, and fibres against
tendons, are balanced at the frames; rates are those of the step that ends there (implicit
Euler). Rules that look at the middle of a step, of second order, let muscles swap forces from
frame to frame unseen.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..muscles import HillMuscles
from ..muscles._fibre import tension_residual

Unknowns = Float[Array, " n"]


class Frames(NamedTuple):
    """What is known at frames; of one or of all."""

    arms: Float[Array, "*nt nq nm"]
    """R over the scale of the torques, times the maximum isometric forces."""
    tau: Float[Array, "*nt nq"]
    """Torques over their scale."""
    capacity: Float[Array, "*nt nm"]
    """Of rigid tendons: force of full activation over the maximum isometric force."""
    passive: Float[Array, "*nt nm"]
    share: Float[Array, "*nt"]
    """Time that each frame stands for, over the mean step (trapezoidal rule)."""


class Steps(NamedTuple):
    """What is known of the steps between frames; of one or of all."""

    duration: Float[Array, "*nt"]
    """s"""
    length: Float[Array, "*nt nm"]
    """Of the paths, where the step ends (m)."""
    speed: Float[Array, "*nt nm"]
    start_length: Float[Array, "*nt nm"]
    """The same where it starts."""
    start_speed: Float[Array, "*nt nm"]
    first: Float[Array, "*nt"]
    """1 for the first step, at whose start fibres and tendons balance as well; 0 for others."""


class Terms(NamedTuple):
    """Parts of the problem that some unknowns enter."""

    cost: Float[Array, " _cost"]
    """½ Σ cost² is to be least."""
    equal: Float[Array, " _equal"]
    """To be zero."""
    below: Float[Array, " _below"]
    """To be zero or less."""


class Trajectory(eqx.Module):
    """The problem; all numbers are arrays."""

    frames: Frames
    steps: Steps
    muscles: HillMuscles
    weights: Float[Array, " nm"]
    reserves: Float[Array, " nq"]
    """Optimal forces of the reserves over the scale of the torques."""
    lower: Float[Array, " nm"]
    upper: Float[Array, " nm"]
    cost: str = eqx.field(static=True)
    with_reserves: bool = eqx.field(static=True)

    @property
    def elastic(self) -> bool:
        return self.muscles.tendon == "elastic"

    def split(self, x: Float[Array, "*rows n"]) -> tuple[Array, Array | None, Array]:
        """Activations, tendon forces and reserves, each over its unit."""
        nm = self.muscles.size
        force = x[..., nm : 2 * nm] if self.elastic else None
        return x[..., :nm], force, x[..., x.shape[-1] - self.n_reserves :]

    @property
    def n_reserves(self) -> int:
        return self.reserves.shape[0] if self.with_reserves else 0

    def forces(self, x: Unknowns, frame: Frames) -> Float[Array, " nm"]:
        """Musculotendon forces at a frame, over the maximum isometric ones."""
        a, force, _ = self.split(x)
        return frame.capacity * a + frame.passive if force is None else force

    def missing(self, x: Unknowns, frame: Frames) -> Float[Array, " nq"]:
        """Torque that is not given, over its scale."""
        left = frame.tau - frame.arms @ self.forces(x, frame)
        _, _, reserve = self.split(x)
        return left - self.reserves * reserve if self.with_reserves else left

    def at_frame(self, x: Unknowns, frame: Frames) -> Terms:
        a, force, reserve = self.split(x)
        root, price = jnp.sqrt(2.0 * self.weights), jnp.sqrt(jnp.asarray(2.0, dtype=x.dtype))
        if self.cost == "activation_cubed":
            size = root * jnp.sqrt(jnp.maximum(a, 1e-12)) * a
        elif self.cost == "force_squared":
            newton = self.muscles.parameters.max_isometric_force
            unit = jnp.mean(newton)  # of order 1, as the others; reserves keep their price
            size = root * self.forces(x, frame) * newton / unit
            price = price / unit
        else:
            size = root * a
        cost = [size]
        if self.with_reserves:
            cost.append(price * reserve)
        cost = [jnp.sqrt(frame.share) * part for part in cost]
        below = [a - self.upper, self.lower - a]
        if force is not None:
            below.append(-force)
        return Terms(jnp.concatenate(cost), self.missing(x, frame), jnp.concatenate(below))

    def between(self, x: Unknowns, y: Unknowns, step: Steps) -> Terms:
        """Terms of a step with unknowns x at its start and y at its end."""
        (a, force, _), (b, after, _) = self.split(x), self.split(y)
        muscles, p, h = self.muscles, self.muscles.parameters, step.duration
        equal, below = jnp.zeros(0, dtype=a.dtype), jnp.zeros(0, dtype=a.dtype)
        if force is not None and after is not None:
            rate = (after - force) / h
            ends = (after, rate, b, step.length, step.speed)
            starts = (force, rate, a, step.start_length, step.start_speed)
            before = step.first * tension_residual(p, muscles.curves, *starts)
            equal = jnp.concatenate([tension_residual(p, muscles.curves, *ends), before])
        if muscles.activation_dynamics is not None:
            fastest = h * self._rate(b, self.upper)
            slowest = h * self._rate(b, self.lower)
            below = jnp.concatenate([b - a - fastest, slowest - (b - a)])
        return Terms(jnp.zeros(0, dtype=a.dtype), equal, below)

    def _rate(self, a: Array, excitation: Array) -> Array:
        p, dynamics = self.muscles.parameters, self.muscles.activation_dynamics
        assert dynamics is not None
        rise, fall = p.activation_time, p.deactivation_time
        return dynamics.rate(a, excitation, rise, fall, p.minimum_activation)

    def excitation(self, x: Unknowns, y: Unknowns, step: Float[Array, ""]) -> Float[Array, " nm"]:
        """Constant excitation that leads from one frame's activations to the next one's."""
        (a, _, _), (b, _, _) = self.split(x), self.split(y)
        rate = (b - a) / step
        low, high = self.lower, self.upper
        for _ in range(40):
            middle = 0.5 * (low + high)
            short = self._rate(b, middle) < rate
            low, high = jnp.where(short, middle, low), jnp.where(short, high, middle)
        return 0.5 * (low + high)
