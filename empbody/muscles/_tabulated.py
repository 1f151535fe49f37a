"""Curves given by tables, as muscle models before 2003 had them."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rhythms import SimmSpline
from ._curves import FASTEST, AbstractCurves, Normalised, safe_ratio

_HALVINGS = 60

# Figures of Delp (1990) and Zajac (1989) as OpenSim's older muscles carry them: x, then y.
_ACTIVE = (
    """
    -5.307692 -4.307692 -1.923077 -0.884615 -0.269231 0.230769 0.461538 0.52725 0.62875
    0.71875 0.86125 1.045 1.2175 1.43875 1.5 1.615385 2 2.961538 3.692308 5.461538
    9.901902
    """,
    """
    0.012188 0.021899 0.036466 0.052493 0.075312 0.114158 0.157859 0.226667 0.636667
    0.856667 0.95 0.993333 0.77 0.246667 0.193821 0.133252 0.072683 0.044417 0.036341
    0.021899 0.007332
    """,
)
_PASSIVE = (
    """
    -5 0.998 0.999 1 1.1 1.2 1.3 1.4 1.5 1.6 1.601 1.602 5
    """,
    """
    0 0 0 0 0.035 0.12 0.26 0.55 1.17 2 2 2 2
    """,
)
_TENDON = (
    """
    -10 -0.002 -0.001 0 0.00131 0.00281 0.00431 0.00581 0.00731 0.00881 0.0103 0.0118
    0.0123 9.2 9.201 9.202 20
    """,
    """
    0 0 0 0 0.0108 0.0257 0.0435 0.0652 0.0915 0.123 0.161 0.208 0.227 345 345 345 345
    """,
)
_SPEED = (
    """
    -1.001 -1 -0.95 -0.9 -0.85 -0.8 -0.75 -0.7 -0.65 -0.6 -0.55 -0.5 -0.45 -0.4 -0.35
    -0.3 -0.25 -0.2 -0.15 -0.1 -0.05 0 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.55
    0.6 0.65 0.7 0.75 0.8 0.85 0.9 0.95 1
    """,
    """
    0 0 0.010417 0.021739 0.034091 0.047619 0.0625 0.078947 0.097222 0.117647 0.140625
    0.166667 0.196429 0.230769 0.270833 0.318182 0.375 0.444444 0.53125 0.642857
    0.791667 1 1.482014 1.601571 1.655791 1.686739 1.706751 1.720753 1.731099 1.739055
    1.745365 1.75049 1.754736 1.758312 1.761364 1.763999 1.766298 1.768321 1.770115
    1.771717 1.773155 1.774455
    """,
)


def _spline(table: tuple[str, str]) -> SimmSpline:
    return SimmSpline(*(np.asarray(row.split(), dtype=float) for row in table))


def _default(table: tuple[str, str]) -> Any:
    return eqx.field(default_factory=lambda: _spline(table))


def _numbers(value: Any) -> Float[Array, "..."]:
    return jnp.asarray(value, dtype=float)


class Tabulated(AbstractCurves):
    """Curves by SimmSplines: active and passive force over the fibre length, tendon force
    over the strain, and a force-velocity curve.

    `passive=None` is Schutte's exponential exp(8 (length - 1) - 4), which is never slack.
    `speed=None` is Schutte's pair of hyperbolas: (1 + v) / (1 - v / a) for shortening, none
    faster than the maximum, and (p v + s) / (v + s) for lengthening, with a = `hill`,
    p = `plateau` and s = `eccentric`. The tendon's table is stretched so that its force is 1
    at the unit's own tendon strain; `tendon_strain` is where the table itself has force 1.
    A spline through a flat table swings a little below zero; `never_pushes` cuts that off
    from the passive force.

    Schutte, Rodgers, Zajac, Glaser (1993), Improving the efficacy of electrical
    stimulation-induced leg cycle ergometry, IEEE Trans. Rehab. Eng. 1; Delp (1990).
    """

    typical: ClassVar[dict[str, float]] = {
        "activation_time": 0.1 / (7.667 + 1.459854),
        "deactivation_time": 0.1 / 1.459854,
        "damping": 0.1,
    }

    active: SimmSpline = _default(_ACTIVE)
    passive: SimmSpline | None = None
    speed: SimmSpline | None = None
    tendon: SimmSpline = _default(_TENDON)
    tendon_strain: Float[Array, "..."] | None = None
    hill: Float[Array, "..."] = eqx.field(converter=_numbers, default=0.15)
    plateau: Float[Array, "..."] = eqx.field(converter=_numbers, default=1.4)
    eccentric: Float[Array, "..."] = eqx.field(converter=_numbers, default=0.13 * 0.15 / 1.15)
    never_pushes: bool = eqx.field(static=True, default=False)

    def __post_init__(self) -> None:
        if self.tendon_strain is None:
            self.tendon_strain = _numbers(strain_at_one(self.tendon))

    @classmethod
    def delp(cls, **given: Any) -> "Tabulated":
        """With the tables of Delp (1990) for passive force and speed too."""
        tables = {"passive": _spline(_PASSIVE), "speed": _spline(_SPEED)}
        every: dict[str, Any] = tables | given
        return cls(**every, never_pushes=True)

    def active_force_length(self, length: Normalised) -> Normalised:
        return jnp.maximum(_at(self.active, length), 0.0)

    def passive_force_length(self, length: Normalised) -> Normalised:
        if self.passive is None:
            return jnp.exp(jnp.clip(8.0 * (length - 1.0) - 4.0, -100.0, 20.0))
        force = _at(self.passive, length)
        return jnp.maximum(force, 0.0) if self.never_pushes else force

    def force_velocity(
        self, velocity: Normalised, activation: Normalised | None = None
    ) -> Normalised:
        if self.speed is not None:
            return _at(self.speed, velocity)
        short, long = jnp.clip(velocity, -1.0, 0.0), jnp.maximum(velocity, 0.0)
        lengthening = (self.plateau * long + self.eccentric) / (long + self.eccentric)
        return jnp.where(velocity < 0.0, (1.0 + short) / (1.0 - short / self.hill), lengthening)

    def tendon_force(self, length: Normalised, strain: Normalised) -> Normalised:
        assert self.tendon_strain is not None
        stretch = jnp.maximum(length - 1.0, 0.0) * self.tendon_strain / strain
        return _at(self.tendon, stretch)

    def tendon_length(self, force: Normalised, strain: Normalised) -> Normalised:
        """Inverse for forces ≥ 0 (below, the slack length)."""
        assert self.tendon_strain is not None

        wanted = jnp.maximum(force, 0.0)
        table, held = jax.lax.stop_gradient((self.tendon, wanted))
        low = jnp.zeros_like(force)
        found = _halved(lambda x: _at(table, x) - held, low, low + table.breaks[-1])
        # One step of Newton's method carries the derivatives.
        slope = jax.jvp(lambda x: _at(table, x), (found,), (jnp.ones_like(found),))[1]
        found = found + (wanted - _at(self.tendon, found)) / jnp.maximum(slope, 1e-6)
        return 1.0 + jnp.maximum(found, 0.0) * strain / self.tendon_strain

    def _solve_velocity(
        self, active: Normalised, damping: Normalised, force: Normalised, activation: Normalised
    ) -> Normalised:
        if self.speed is not None:

            def miss(v: Normalised) -> Normalised:
                return active * self.force_velocity(v) + damping * v - force

            wide = jnp.full_like(force, FASTEST)
            return _halved(miss, -wide, wide)
        excess = force - active
        a, s = self.hill, self.eccentric
        # Shortening: D v² - (F + a A + a D) v + a (F - A) = 0, the root of smaller size.
        half = 0.5 * (force + a * (active + damping))
        wide = jnp.sqrt(jnp.maximum(half * half - damping * a * excess, 0.0))
        short = jnp.where(
            half > 0.0,
            a * excess / jnp.maximum(half + wide, 1e-12),
            safe_ratio(half - wide, damping),
        )
        short = jnp.where(force < -damping, safe_ratio(force, damping), short)
        # Lengthening: D v² + (p A + s D - F) v - s (F - A) = 0, the positive root.
        half = 0.5 * (self.plateau * active + s * damping - force)
        wide = jnp.sqrt(jnp.maximum(half * half + damping * s * excess, 0.0))
        long = jnp.where(
            half > 0.0,
            s * excess / jnp.maximum(half + wide, 1e-12),
            safe_ratio(wide - half, damping),
        )
        return jnp.clip(jnp.where(excess < 0.0, short, long), -FASTEST, FASTEST)


def strain_at_one(tendon: SimmSpline) -> float:
    """Strain at which a tendon's table has the maximum isometric force."""
    x, y = np.asarray(tendon.breaks), np.asarray(tendon.values)[:, 0]
    over = np.flatnonzero(y >= 1.0)
    if not over.size or over[0] == 0:
        raise ValueError("the tendon's table does not reach force 1 from below")
    piece = slice(over[0] - 1, over[0] + 1)
    slopes = np.diff(y) / np.diff(x) if len(x) == 2 else np.asarray(tendon.slopes)[piece, 0]
    slopes = np.broadcast_to(slopes, (2,))
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        u = 0.5 * (low + high)
        rise, h = y[piece][1] - y[piece][0], x[piece][1] - x[piece][0]
        value = y[piece][0] + u * u * (3.0 - 2.0 * u) * rise
        value += h * u * (1.0 - u) * ((1.0 - u) * slopes[0] - u * slopes[1])
        low, high = (u, high) if value < 1.0 else (low, u)
    return float(x[piece][0] + low * (x[piece][1] - x[piece][0]))


def _at(spline: SimmSpline, x: Normalised) -> Normalised:
    """A spline of one variable, entry by entry."""
    return jax.vmap(lambda t: spline(t[None])[0])(x.reshape(-1)).reshape(x.shape)


def _halved(
    function: Callable[[Normalised], Normalised], low: Normalised, high: Normalised
) -> Normalised:
    """Where a rising function changes its sign, by halving."""

    def step(_: Any, ends: tuple[Normalised, Normalised]) -> tuple[Normalised, Normalised]:
        low, high = ends
        middle = 0.5 * (low + high)
        below = function(middle) < 0.0
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, 2 * _HALVINGS, step, (low, high))
    return 0.5 * (low + high)
