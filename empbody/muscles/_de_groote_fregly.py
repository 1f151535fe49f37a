"""Curves of De Groote, Kinney, Rao and Fregly (2016): smooth everywhere."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._curves import FASTEST, AbstractCurves, Normalised, linear_beyond, safe_ratio

_STEPS = 5


def _numbers(value: Any) -> Float[Array, "..."]:
    return jnp.asarray(value, dtype=float)


@jax.custom_jvp
def _arsinh(u: Normalised) -> Normalised:
    # By the absolute value: the plain formula cancels for large negative u.
    size = jnp.abs(u)
    return jnp.where(u < 0.0, -1.0, 1.0) * jnp.log(size + jnp.sqrt(u * u + 1.0))


@_arsinh.defjvp
def _arsinh_jvp(primals: Any, tangents: Any) -> Any:
    (u,), (du,) = primals, tangents
    return _arsinh(u), du / jnp.sqrt(u * u + 1.0)


def _default(value: float, *more: float) -> Any:
    return eqx.field(converter=_numbers, default=(value, *more) if more else value)


class DeGrooteFregly(AbstractCurves):
    """The default family.

    Constants are those of OpenSim's DeGrooteFregly2016Muscle, in which the published fits are
    shifted so that the active curve is 1 at speed 0 and 0 at speed -1, the tendon is
    unstrained at its slack length, and the passive force vanishes at `shortest`, a fibre
    length of 0.2, instead of turning negative below the optimal length. The tendon's
    stiffness follows from its strain at the maximum isometric force, kT = ln((1 + c3) / c1)
    / (1 + strain - c2). Below its slack length the formula gives a small pushing force, down
    to -c3; `HillMuscles` cuts it off.

    Far outside the body's range the exponentials go on as their tangents (passive force above
    3000, tendon force above 500 times the maximum isometric force).

    De Groote, Kinney, Rao, Fregly (2016), Evaluation of direct collocation optimal control
    problem formulations for solving the muscle redundancy problem, Ann. Biomed. Eng. 44.
    """

    typical: ClassVar[dict[str, float]] = {
        "activation_time": 0.015,
        "deactivation_time": 0.060,
        "tendon_strain": 0.049,
        "damping": 0.01,
    }

    active_height: Float[Array, "3"] = _default(0.8150671134243542, 0.433004984392647, 0.1)
    active_centre: Float[Array, "3"] = _default(1.055033428970575, 0.716775413397760, 1.0)
    active_width: Float[Array, "3"] = _default(
        0.162384573599574, -0.029947116970696, 0.353553390593274
    )
    active_skew: Float[Array, "3"] = _default(0.063303448465465, 0.200356847296188, 0.0)
    active_width_scale: Float[Array, "..."] = _default(1.0)
    speed: Float[Array, "4"] = _default(-0.3211346127989808, -8.149, -0.374, 0.8825327733249912)
    passive_strain: Float[Array, "..."] = _default(0.6)
    passive_shape: Float[Array, "..."] = _default(4.0)
    shortest: Float[Array, "..."] = _default(0.2)
    tendon: Float[Array, "3"] = _default(0.2, 1.0, 0.2)

    def active_force_length(self, length: Normalised) -> Normalised:
        """Three bells b1 exp(-½ (x - b2)² / (b3 + b4 x)²) over the (widened) length x."""
        x = jnp.clip((length - 1.0) / self.active_width_scale + 1.0, -10.0, 10.0)
        total = jnp.zeros_like(x)
        for k in range(3):
            # Where the width passes through zero the bell is flat zero, with all derivatives.
            width = self.active_width[k] + self.active_skew[k] * x
            width = jnp.where(jnp.abs(width) < 0.01, 0.01, width)
            ratio = (x - self.active_centre[k]) / width
            total = total + self.active_height[k] * jnp.exp(-0.5 * ratio * ratio)
        return total

    def passive_force_length(self, length: Normalised) -> Normalised:
        """Exponential; 0 at `shortest`, 1 at a fibre strain of `passive_strain`."""
        rate = self.passive_shape / self.passive_strain
        offset = jnp.exp(rate * (self.shortest - 1.0))
        top = jnp.exp(self.passive_shape)
        return (linear_beyond(rate * (length - 1.0), 12.0) - offset) / (top - offset)

    def force_velocity(
        self, velocity: Normalised, activation: Normalised | None = None
    ) -> Normalised:
        """d1 arsinh(d2 v + d3) + d4."""
        d1, d2, d3, d4 = self.speed
        return d1 * _arsinh(d2 * jnp.clip(velocity, -1e12, 1e12) + d3) + d4

    def tendon_force(self, length: Normalised, strain: Normalised) -> Normalised:
        """c1 exp(kT (length - c2)) - c3."""
        c1, c2, c3 = self.tendon
        stiffness = jnp.log((1.0 + c3) / c1) / (1.0 + strain - c2)
        return c1 * linear_beyond(stiffness * (length - c2), 8.0) - c3

    def tendon_length(self, force: Normalised, strain: Normalised) -> Normalised:
        """Inverse for forces above -0.95 c3 (below, the value there)."""
        c1, c2, c3 = self.tendon
        stiffness = jnp.log((1.0 + c3) / c1) / (1.0 + strain - c2)
        grown = jnp.maximum((force + c3) / c1, 0.05 * c3 / c1)
        highest = jnp.exp(8.0)
        exponent = jnp.where(
            grown > highest,
            8.0 + (grown - highest) / highest,
            jnp.log(jnp.minimum(grown, highest)),
        )
        return exponent / stiffness + c2

    def _solve_velocity(
        self, active: Normalised, damping: Normalised, force: Normalised, activation: Normalised
    ) -> Normalised:
        """Newton's method between rest and the nearer of two bounds.

        The speed has the sign of force - active and is less, in size, than damping alone or
        the active curve alone would give. The curve bends one way only on either side (but
        for a sliver next to 0), so a few steps from the two bounds' parallel sum are enough.
        """
        d1, d2, d3, d4 = self.speed
        excess = force - active
        exponent = jnp.clip((safe_ratio(force, active) - d4) / d1, -30.0, 30.0)
        grown = jnp.exp(exponent)
        alone = (0.5 * (grown - 1.0 / grown) - d3) / d2
        damped = jnp.clip(safe_ratio(excess, damping), -FASTEST, FASTEST)
        alone = jnp.clip(alone, -FASTEST, FASTEST)
        away = jnp.where(excess < 0.0, -1.0, 1.0)
        alone, damped = jnp.maximum(away * alone, 0.0), away * damped
        furthest = jnp.minimum(alone, damped)
        size = safe_ratio(alone * damped, alone + damped)
        for _ in range(_STEPS):
            u = d2 * away * size + d3
            wide = jnp.sqrt(u * u + 1.0)
            arsinh = jnp.where(u < 0.0, -1.0, 1.0) * jnp.log(jnp.abs(u) + wide)
            miss = active * (d1 * arsinh + d4) + damping * away * size - force
            slope = active * d1 * d2 / wide + damping
            size = jnp.clip(size - away * safe_ratio(miss, slope), 0.0, furthest)
        return away * size
