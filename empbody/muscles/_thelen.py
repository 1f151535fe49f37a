"""Curves of Thelen (2003), in closed form."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._curves import FASTEST, AbstractCurves, Normalised, linear_beyond, safe_ratio


def _numbers(value: Any) -> Float[Array, "..."]:
    return jnp.asarray(value, dtype=float)


def _default(value: float) -> Any:
    return eqx.field(converter=_numbers, default=value)


class Thelen(AbstractCurves):
    """Gaussian active curve, exponential passive curve, hyperbolic force-velocity curve whose
    fastest shortening is (0.25 + 0.75 activation) of the maximum, exponential-then-linear
    tendon.

    As published, the force-velocity curve has a kink at rest (its slope doubles from
    shortening to lengthening), and so have the passive curve at the optimal length and the
    tendon at its slack length. The toe of the tendon ends where value and slope agree with the
    line through force 1 at the given strain; the paper's 0.609 and 1.712 are these numbers
    rounded. Beyond the fastest shortening, and above `eccentric_linear` of the lengthening
    plateau, the force-velocity curve goes on as its tangent, as in OpenSim's Thelen2003Muscle;
    so it is negative for shortening faster than the maximum.

    Thelen (2003), Adjustment of muscle mechanics model parameters to simulate dynamic
    contractions in older adults, J. Biomech. Eng. 125.
    """

    typical: ClassVar[dict[str, float]] = {
        "activation_time": 0.015,
        "deactivation_time": 0.050,
        "tendon_strain": 0.04,
        "damping": 0.0,
    }

    active_shape: Float[Array, "..."] = _default(0.45)
    passive_strain: Float[Array, "..."] = _default(0.6)
    passive_shape: Float[Array, "..."] = _default(5.0)
    concentric_shape: Float[Array, "..."] = _default(0.25)
    plateau: Float[Array, "..."] = _default(1.4)
    eccentric_linear: Float[Array, "..."] = _default(0.95)
    toe_force: Float[Array, "..."] = _default(0.33)
    toe_shape: Float[Array, "..."] = _default(3.0)

    def active_force_length(self, length: Normalised) -> Normalised:
        away = jnp.clip(length - 1.0, -20.0, 20.0)
        return jnp.exp(-away * away / self.active_shape)

    def passive_force_length(self, length: Normalised) -> Normalised:
        """0 up to the optimal length, 1 at a fibre strain of `passive_strain`."""
        stretch = jnp.maximum(length - 1.0, 0.0) * (self.passive_shape / self.passive_strain)
        return (linear_beyond(stretch, 13.0) - 1.0) / (jnp.exp(self.passive_shape) - 1.0)

    def _eccentric(self) -> tuple[Array, Array, Array, Array, Array]:
        """Steepness and rise of the lengthening branch; speed, force, slope where it ends."""
        steep = 2.0 + 2.0 / self.concentric_shape
        rise = self.plateau - 1.0
        force = self.eccentric_linear * self.plateau
        speed = rise * (force - 1.0) / (steep * (self.plateau - force))
        slope = steep * (rise / (steep * speed + rise)) ** 2
        return steep, rise, speed, force, slope

    def force_velocity(
        self, velocity: Normalised, activation: Normalised | None = None
    ) -> Normalised:
        u = velocity if activation is None else velocity / _fastest(activation)
        steep, rise, speed, force, slope = self._eccentric()
        a = self.concentric_shape
        slow = jnp.clip(u, -1.0, 0.0)
        shortening = (1.0 + slow) / (1.0 - slow / a)
        shortening = shortening + jnp.minimum(u + 1.0, 0.0) * a / (1.0 + a)
        mild = jnp.where(u < 0.0, 0.0, jnp.where(u > speed, speed, u))
        lengthening = 1.0 + steep * rise * mild / (steep * mild + rise)
        lengthening = jnp.where(u > speed, force + slope * (u - speed), lengthening)
        return jnp.where(u < 0.0, shortening, lengthening)

    def _toe(self, strain: Normalised) -> tuple[Array, Array]:
        """Strain at which the toe ends and stiffness of the linear part."""
        growth = jnp.exp(self.toe_shape)
        start = self.toe_force * self.toe_shape * growth / (growth - 1.0)
        end = strain * start / (start + 1.0 - self.toe_force)
        return end, (1.0 - self.toe_force) / (strain - end)

    def tendon_force(self, length: Normalised, strain: Normalised) -> Normalised:
        end, stiffness = self._toe(strain)
        stretch = jnp.maximum(length - 1.0, 0.0)
        bent = jnp.exp(self.toe_shape * jnp.minimum(stretch / end, 1.0)) - 1.0
        bent = self.toe_force * bent / (jnp.exp(self.toe_shape) - 1.0)
        return bent + stiffness * jnp.maximum(stretch - end, 0.0)

    def tendon_length(self, force: Normalised, strain: Normalised) -> Normalised:
        """Inverse for forces ≥ 0 (below, the slack length)."""
        end, stiffness = self._toe(strain)
        share = jnp.clip(force / self.toe_force, 0.0, 1.0)
        bent = jnp.log1p(share * (jnp.exp(self.toe_shape) - 1.0)) / self.toe_shape
        return 1.0 + end * bent + jnp.maximum(force - self.toe_force, 0.0) / stiffness

    def _solve_velocity(
        self, active: Normalised, damping: Normalised, force: Normalised, activation: Normalised
    ) -> Normalised:
        """Each branch with linear damping is a quadratic."""
        fastest = _fastest(activation)
        drag, excess = damping * fastest, force - active
        steep, rise, speed, top, slope = self._eccentric()
        a = self.concentric_shape

        half = 0.5 * (rise * (active * steep + drag) - excess * steep)
        wide = jnp.sqrt(half * half + jnp.maximum(drag * steep * excess * rise, 0.0))
        lengthening = jnp.where(
            half > 0.0,
            safe_ratio(excess * rise, half + wide),
            safe_ratio(wide - half, drag * steep),
        )
        beyond = safe_ratio(force - active * (top - slope * speed), active * slope + drag)
        lengthening = jnp.where(lengthening > speed, beyond, lengthening)

        half = 0.5 * (active + drag + force / a)
        wide = jnp.sqrt(half * half + jnp.maximum(-drag * excess / a, 0.0))
        shortening = jnp.where(
            half > 0.0,
            safe_ratio(excess, half + wide),
            safe_ratio(a * (half - wide), drag),
        )
        end = a / (1.0 + a)
        beyond = safe_ratio(force - active * end, active * end + drag)
        shortening = jnp.where(force < -drag, beyond, shortening)

        u = jnp.where(excess < 0.0, shortening, lengthening)
        return jnp.clip(u * fastest, -FASTEST, FASTEST)


def _fastest(activation: Normalised) -> Normalised:
    return 0.25 + 0.75 * activation
