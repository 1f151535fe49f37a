"""Curves of Millard, Uchida, Seth and Delp (2013): quintic Bézier corners."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._bezier import Corner, Curve, Knot
from ._curves import FASTEST, AbstractCurves, Normalised, safe_ratio

_LEAST_FORCE = 1e-6


def _numbers(value: Any) -> Float[Array, "..."]:
    return jnp.asarray(value, dtype=float)


def _default(value: float) -> Any:
    return eqx.field(converter=_numbers, default=value)


def _bend(curviness: Normalised) -> Normalised:
    return 0.1 + 0.8 * curviness


class Millard(AbstractCurves):
    """Twice differentiable curves with the default shapes of OpenSim's
    Millard2012EquilibriumMuscle with fibre damping.

    Constants carry the meaning of the properties of OpenSim's ActiveForceLengthCurve,
    ForceVelocityCurve, FiberForceLengthCurve and TendonForceLengthCurve. The active curve
    falls to `active_least` = 0, which is what the damped model uses. Stiffness and toe of the
    tendon are given per unit of its strain at the maximum isometric force. With the flat ends
    of the force-velocity curve the fibre needs damping; for an undamped fibre give both
    slopes at the maximum speed a positive value (0.1 in OpenSim).

    Millard, Uchida, Seth, Delp (2013), Flexing computational muscle: modeling and simulation of
    musculotendon dynamics, J. Biomech. Eng. 135.
    """

    typical: ClassVar[dict[str, float]] = {
        "activation_time": 0.010,
        "deactivation_time": 0.040,
        "tendon_strain": 0.049,
        "damping": 0.1,
    }

    active_shortest: Float[Array, "..."] = _default(0.4441)
    active_transition: Float[Array, "..."] = _default(0.73)
    active_longest: Float[Array, "..."] = _default(1.8123)
    active_shallow_slope: Float[Array, "..."] = _default(0.8616)
    active_least: Float[Array, "..."] = _default(0.0)
    concentric_slope_at_end: Float[Array, "..."] = _default(0.0)
    concentric_slope_near_end: Float[Array, "..."] = _default(0.25)
    isometric_slope: Float[Array, "..."] = _default(5.0)
    eccentric_slope_at_end: Float[Array, "..."] = _default(0.0)
    eccentric_slope_near_end: Float[Array, "..."] = _default(0.15)
    plateau: Float[Array, "..."] = _default(1.4)
    concentric_curviness: Float[Array, "..."] = _default(0.6)
    eccentric_curviness: Float[Array, "..."] = _default(0.9)
    passive_strain_at_zero: Float[Array, "..."] = _default(0.0)
    passive_strain: Float[Array, "..."] = _default(0.7)
    passive_low_stiffness: Float[Array, "..."] = _default(0.2)
    passive_stiffness: Float[Array, "..."] = _default(2.0 / 0.7)
    passive_curviness: Float[Array, "..."] = _default(0.75)
    tendon_stiffness: Float[Array, "..."] = _default(1.375)
    tendon_toe_force: Float[Array, "..."] = _default(2.0 / 3.0)
    tendon_curviness: Float[Array, "..."] = _default(0.5)

    def _active(self) -> Curve:
        short, long, slope = self.active_shortest, self.active_longest, self.active_shallow_slope
        transition, zero = self.active_transition, jnp.zeros_like(self.active_shortest)
        width = 0.05  # half of the plateau
        height = 1.0 - slope * (1.0 - width - transition)
        knots = (
            Knot(short, self.active_least, zero),
            Knot(0.5 * (short + transition), 0.5 * height, 1.25 * height / (transition - short)),
            Knot(0.5 * (transition + 1.0 - width), 0.5 * (1.0 + height), slope),
            Knot(zero + 1.0, zero + 1.0, zero),
            Knot(0.5 * (1.0 + width + long), zero + 0.5, -1.0 / (long - 1.0 - 2.0 * width)),
            Knot(long, self.active_least, zero),
        )
        return Curve.through(knots, (_bend(zero + 1.0),) * 5)

    def _speed(self) -> Curve:
        slow, fast = self.concentric_slope_at_end, self.eccentric_slope_at_end
        near_slow, near_fast = self.concentric_slope_near_end, self.eccentric_slope_near_end
        zero = jnp.zeros_like(self.plateau)
        knots = (
            Knot(zero - 1.0, zero, slow),
            Knot(zero - 0.9, 0.05 * (near_slow + slow), near_slow),
            Knot(zero, zero + 1.0, self.isometric_slope),
            Knot(zero + 0.9, self.plateau - 0.05 * (near_fast + fast), near_fast),
            Knot(zero + 1.0, self.plateau, fast),
        )
        concentric, eccentric = _bend(self.concentric_curviness), _bend(self.eccentric_curviness)
        return Curve.through(knots, (concentric, concentric, eccentric, eccentric))

    def _passive(self) -> Curve:
        first, last = 1.0 + self.passive_strain_at_zero, 1.0 + self.passive_strain
        step = 0.1 * jnp.minimum(1.0 / self.passive_stiffness, last - first)
        zero = jnp.zeros_like(step)
        knots = (
            Knot(first, zero, zero),
            Knot(first + step, 0.5 * step * self.passive_low_stiffness, self.passive_low_stiffness),
            Knot(last, zero + 1.0, self.passive_stiffness),
        )
        return Curve.through(knots, (_bend(self.passive_curviness),) * 2)

    def _tendon(self) -> Curve:
        """Force over the strain divided by that at the maximum isometric force."""
        stiffness, toe = self.tendon_stiffness, self.tendon_toe_force
        zero = jnp.zeros_like(toe)
        end = 1.0 - (1.0 - toe) / stiffness
        foot = 0.1 * end
        middle = 1.0 - (1.0 - 0.5 * toe) / stiffness
        slope = 0.5 * toe / (middle - foot)
        control = 0.5 * (foot + middle)
        knots = (
            Knot(zero, zero, zero),
            Knot(control, slope * (control - foot), slope),
            Knot(end, toe, stiffness),
        )
        return Curve.through(knots, (_bend(self.tendon_curviness),) * 2)

    def active_force_length(self, length: Normalised) -> Normalised:
        return self._active()(length)

    def passive_force_length(self, length: Normalised) -> Normalised:
        return self._passive()(length)

    def force_velocity(
        self, velocity: Normalised, activation: Normalised | None = None
    ) -> Normalised:
        return self._speed()(velocity)

    def tendon_force(self, length: Normalised, strain: Normalised) -> Normalised:
        return self._tendon()((length - 1.0) / strain)

    def tendon_length(self, force: Normalised, strain: Normalised) -> Normalised:
        """Inverse for forces above 1e-6, straight below: the slack tendon has no stiffness."""
        curve = self._tendon()
        last = curve.knots[-1]
        taut = jnp.clip(force, _LEAST_FORCE, last.y)
        along_x, along_y = curve.select(tuple(taut >= knot.y for knot in curve.knots[1:-1]))
        u = along_y.parameter(taut)
        inverse_slope = along_x.slope(u) / along_y.slope(u)
        beyond = jnp.where(force > last.y, 1.0 / last.slope, inverse_slope) * (force - taut)
        return 1.0 + strain * (along_x.at(u) + beyond)

    def _solve_velocity(
        self, active: Normalised, damping: Normalised, force: Normalised, activation: Normalised
    ) -> Normalised:
        """The damped curve is a polynomial in the Bézier parameter of each corner."""
        curve = self._speed()
        first, last = curve.knots[0], curve.knots[-1]

        def damped(x: Normalised, y: Normalised) -> Normalised:
            return active * y + damping * x

        past = tuple(force >= damped(knot.x, knot.y) for knot in curve.knots[1:-1])
        x, y = curve.select(past)
        start, span, lead = (damped(a, b) for a, b in zip(x[:3], y[:3], strict=True))
        inside = jnp.clip(force, start, start + span)
        middle = x.at(Corner(start, span, lead, x.curviness).parameter(inside))
        before = first.x + _steps_beyond(active, damping, force, first)
        after = last.x + _steps_beyond(active, damping, force, last)
        v = jnp.where(force < damped(first.x, first.y), before, middle)
        v = jnp.where(force > damped(last.x, last.y), after, v)
        return jnp.clip(v, -FASTEST, FASTEST)


def _steps_beyond(
    active: Normalised, damping: Normalised, force: Normalised, knot: Knot
) -> Normalised:
    miss = force - active * knot.y - damping * knot.x
    return safe_ratio(miss, active * knot.slope + damping)
