"""Fibre and tendon of a Hill-type muscle: geometry, force balance, equilibrium.

Fibre lengths are divided by the optimal fibre length, tendon lengths by the slack length,
forces by the maximum isometric force; speeds (lengthening positive) by the maximum shortening
speed. Musculotendon lengths (m) and speeds (m/s) are plain. The muscle keeps its thickness:
fibre length · sin(pennation) is constant.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._curves import AbstractCurves, root
from ._parameters import HillParameters

SHORTEST = 0.05
"""Least projection of a fibre on its tendon; a fibre there is carried by its own bulk."""

BALANCED, SLACK, UNSOLVED = 0, 1, 2
"""Status of `equilibrium`: found; no tension, since the path is too short; not converged."""

_MOST_STEPS = 60

PerUnit: TypeAlias = Float[Array, " nm"]


class Fibre(NamedTuple):
    """Where the fibre stands."""

    length: PerUnit
    along: PerUnit
    """Projection on the tendon."""
    cosine: PerUnit
    """Of the pennation angle."""


def fibre_of_projection(parameters: HillParameters, along: PerUnit) -> Fibre:
    """Fibre with a given projection on the tendon, at least `SHORTEST`."""
    along = jnp.maximum(along, SHORTEST)
    length = jnp.sqrt(along**2 + jnp.sin(parameters.pennation) ** 2)
    return Fibre(length, along, along / length)


def fibre_of_length(parameters: HillParameters, length: PerUnit) -> Fibre:
    """Fibre of a given length; its projection is at least `SHORTEST`."""
    height = jnp.sin(parameters.pennation)
    square = jnp.maximum(length**2 - height**2, SHORTEST**2)
    along = jnp.sqrt(square)
    length = jnp.sqrt(square + height**2)
    return Fibre(length, along, along / length)


def tendon_length(parameters: HillParameters, fibre: Fibre, l_mt: PerUnit) -> PerUnit:
    """Length of the tendon that the fibre leaves."""
    left = l_mt - parameters.optimal_fibre_length * fibre.along
    return left / parameters.tendon_slack_length


def tension(parameters: HillParameters, curves: AbstractCurves, length: PerUnit) -> PerUnit:
    """Tendon force; a tendon does not push."""
    return jnp.maximum(curves.tendon_force(length, parameters.tendon_strain), 0.0)


def top_speed(parameters: HillParameters) -> PerUnit:
    """Maximum shortening speed of the fibre (m/s)."""
    return parameters.max_contraction_velocity * parameters.optimal_fibre_length


class Forces(NamedTuple):
    """Parts of the fibre's force, along the fibre."""

    active: PerUnit
    passive: PerUnit
    damping: PerUnit

    @property
    def total(self) -> PerUnit:
        return self.active + self.passive + self.damping


def fibre_forces(
    parameters: HillParameters,
    curves: AbstractCurves,
    length: PerUnit,
    velocity: PerUnit,
    activation: PerUnit,
) -> Forces:
    return Forces(
        activation
        * curves.active_force_length(length)
        * curves.force_velocity(velocity, activation),
        curves.passive_force_length(length),
        parameters.damping * velocity,
    )


def rigid(
    parameters: HillParameters, l_mt: PerUnit, v_mt: PerUnit
) -> tuple[Fibre, PerUnit, PerUnit]:
    """Fibre and its speed under a tendon that keeps its slack length, and the taut share.

    The share is 1 as long as the fibre is longer than `SHORTEST`. Below, it falls to 0 at the
    length where nothing is left for the fibre; it scales the fibre's speed and force, so
    that the force goes to zero without a jump.
    """
    along = (l_mt - parameters.tendon_slack_length) / parameters.optimal_fibre_length
    taut = jnp.clip(along / SHORTEST, 0.0, 1.0)
    fibre = fibre_of_projection(parameters, along)
    return fibre, taut * v_mt * fibre.cosine / top_speed(parameters), taut


def balanced_velocity(
    parameters: HillParameters,
    curves: AbstractCurves,
    fibre: Fibre,
    tendon: PerUnit,
    activation: PerUnit,
) -> PerUnit:
    """Fibre speed at which the fibre bears a tendon force.

    A fibre that comes to its shortest length stops there.
    """
    active = activation * curves.active_force_length(fibre.length)
    force = tendon / fibre.cosine - curves.passive_force_length(fibre.length)
    speed = curves.velocity(active, parameters.damping, force, activation)
    room = jnp.clip(fibre.along / SHORTEST - 1.0, 0.0, 1.0)
    return jnp.where(speed < 0.0, speed * room * room * (3.0 - 2.0 * room), speed)


class TendonFibre(NamedTuple):
    """Fibre that belongs to a tendon force, and what leads to its speed."""

    fibre: Fibre
    tendon_length: PerUnit
    compliance: PerUnit
    """Slope of the tendon's length over its force."""


def fibre_of_tension(
    parameters: HillParameters, curves: AbstractCurves, force: PerUnit, l_mt: PerUnit
) -> TendonFibre:
    """Fibre that a tendon under a given force leaves."""

    def length(f: PerUnit) -> PerUnit:
        return curves.tendon_length(f, parameters.tendon_strain)

    stretched, compliance = jax.jvp(length, (force,), (jnp.ones_like(force),))
    along = (l_mt - parameters.tendon_slack_length * stretched) / parameters.optimal_fibre_length
    return TendonFibre(fibre_of_projection(parameters, along), stretched, compliance)


def tension_residual(
    parameters: HillParameters,
    curves: AbstractCurves,
    force: PerUnit,
    rate: PerUnit,
    activation: PerUnit,
    l_mt: PerUnit,
    v_mt: PerUnit,
) -> PerUnit:
    """Fibre force along the tendon less the tendon force; zero on a motion.

    The state is the tendon force; `rate` is its time derivative (1/s). No equation is solved
    (De Groote et al. 2016, the formulation with tendon force as state).
    """
    placed = fibre_of_tension(parameters, curves, force, l_mt)
    tendon_speed = parameters.tendon_slack_length * placed.compliance * rate
    velocity = (v_mt - tendon_speed) * placed.fibre.cosine / top_speed(parameters)
    forces = fibre_forces(parameters, curves, placed.fibre.length, velocity, activation)
    return forces.total * placed.fibre.cosine - force


class Equilibrium(NamedTuple):
    """Balance of fibre and tendon."""

    fibre_length: PerUnit
    """Divided by the optimal fibre length."""
    tendon_force: PerUnit
    """Divided by the maximum isometric force."""
    fibre_velocity: PerUnit
    """Divided by the maximum shortening speed."""
    status: Int[Array, " nm"]
    """`BALANCED` 0, `SLACK` 1 or `UNSOLVED` 2."""


def equilibrium(
    parameters: HillParameters,
    curves: AbstractCurves,
    activation: PerUnit,
    l_mt: PerUnit,
    v_mt: PerUnit | None = None,
) -> Equilibrium:
    """Fibre length at which fibre and tendon balance in a path of length l_mt (m).

    Without v_mt the fibre rests. With it (m/s), fibre and tendon share the speed of the path
    as springs in a row would, by their stiffnesses in the resting balance. Where the path is
    too short for any tension, the fibre has its shortest length and the status says so.
    """
    rest = jnp.zeros_like(l_mt)
    along, miss = _balance(parameters, curves, activation, l_mt, rest)
    if v_mt is not None:
        fibre_stiffness, tendon_stiffness = _stiffnesses(
            parameters, curves, activation, l_mt, along
        )
        both = fibre_stiffness + tendon_stiffness
        share = tendon_stiffness / jnp.where(both > 0.0, both, 1.0)
        rest = v_mt * jnp.where(both > 0.0, jnp.clip(share, 0.0, 1.0), 0.0)
        along, miss = _balance(parameters, curves, activation, l_mt, rest)
    fibre = fibre_of_projection(parameters, along)
    force = tension(parameters, curves, tendon_length(parameters, fibre, l_mt))
    velocity = rest * fibre.cosine / top_speed(parameters)
    tolerance = jnp.sqrt(jnp.finfo(miss.dtype).eps) * (1.0 + force)
    unloaded = (along <= SHORTEST) | ((force <= 0.0) & (miss > tolerance))
    solved = jnp.abs(miss) <= tolerance
    status = jnp.where(unloaded, SLACK, jnp.where(solved, BALANCED, UNSOLVED))
    velocity = jnp.where(status == SLACK, 0.0, velocity)
    return Equilibrium(fibre.length, force, velocity, status)


def _imbalance(
    parameters: HillParameters,
    curves: AbstractCurves,
    activation: PerUnit,
    l_mt: PerUnit,
    v_along: PerUnit,
    along: PerUnit,
) -> PerUnit:
    """Tendon force less fibre force along the tendon."""
    fibre = fibre_of_projection(parameters, along)
    velocity = v_along * fibre.cosine / top_speed(parameters)
    forces = fibre_forces(parameters, curves, fibre.length, velocity, activation)
    tendon = tension(parameters, curves, tendon_length(parameters, fibre, l_mt))
    return tendon - forces.total * fibre.cosine


def _balance(
    parameters: HillParameters,
    curves: AbstractCurves,
    activation: PerUnit,
    l_mt: PerUnit,
    v_along: PerUnit,
) -> tuple[PerUnit, PerUnit]:
    """Projection of the fibre in balance, and what is left of the imbalance.

    The projection has its least or largest value where there is no balance.
    """

    def miss(along: PerUnit) -> PerUnit:
        return _imbalance(parameters, curves, activation, l_mt, v_along, along)

    def solve() -> tuple[PerUnit, PerUnit]:
        held = jax.lax.stop_gradient((parameters, curves, activation, l_mt, v_along))
        low = jnp.full_like(l_mt, SHORTEST)
        high = (held[3] - held[0].tendon_slack_length) / held[0].optimal_fibre_length
        return _falling_root(lambda x: _imbalance(*held, x), low, jnp.maximum(high, low))

    along, left = root(miss, solve)
    return jnp.where(along <= SHORTEST, SHORTEST, along), left


def _falling_root(
    function: Callable[[PerUnit], PerUnit], low: PerUnit, high: PerUnit
) -> tuple[PerUnit, PerUnit]:
    """Where a function that is positive at `low` and negative at `high` changes its sign.

    Chandrupatla's method (1997): inverse quadratic interpolation where three points allow it,
    halving otherwise; no derivative is needed. `low` or `high` where the sign does not change.
    The second array is the function there.
    """
    at_low, at_high = jax.vmap(function)(jnp.stack([low, high]))
    least = 2.0 * jnp.finfo(low.dtype).eps

    # The state is a bracket [a, b] and a point x inside. Each step ends with the function, so
    # that its value has one use only: the compiler repeats it for every further one.
    def narrowed(state: tuple[Any, ...]) -> tuple[Any, ...]:
        _, a, b, x, fa, fb, fx = state
        same = (fx > 0.0) == (fa > 0.0)
        c, fc = jnp.where(same, a, b), jnp.where(same, fa, fb)
        return x, jnp.where(same, b, a), c, fx, jnp.where(same, fb, fa), fc

    def unfinished(state: tuple[Any, ...]) -> Any:
        a, b, _, fa, _, _ = narrowed(state)
        open_lanes = (jnp.abs(b - a) > least * high) & (fa != 0.0)
        return (state[0] < _MOST_STEPS) & jnp.any(open_lanes)

    def advance(state: tuple[Any, ...]) -> tuple[Any, ...]:
        a, b, c, fa, fb, fc = narrowed(state)
        place, share = _ratio(a - b, c - b), _ratio(fa - fb, fc - fb)
        smooth = (share**2 < place) & ((1.0 - share) ** 2 < 1.0 - place)
        guess = _ratio(fa, fb - fa) * _ratio(fc, fb - fc)
        guess = guess + _ratio(c - a, b - a) * _ratio(fa, fc - fa) * _ratio(fb, fc - fb)
        margin = jnp.minimum(_ratio(0.5 * least * high, jnp.abs(b - a)), 0.5)
        t = jnp.clip(jnp.where(smooth, guess, 0.5), margin, 1.0 - margin)
        x = a + t * (b - a)
        return state[0] + 1, a, b, x, fa, fb, function(x)

    start = (0, low, low, high, at_low, at_low, at_high)
    a, b, _, fa, fb, _ = narrowed(jax.lax.while_loop(unfinished, advance, start))
    nearer = jnp.abs(fa) < jnp.abs(fb)
    x, left = jnp.where(nearer, a, b), jnp.where(nearer, fa, fb)
    x, left = jnp.where(at_high > 0.0, high, x), jnp.where(at_high > 0.0, at_high, left)
    return jnp.where(at_low <= 0.0, low, x), jnp.where(at_low <= 0.0, at_low, left)


def _ratio(above: PerUnit, below: PerUnit) -> PerUnit:
    return above / jnp.where(below == 0.0, 1.0, below)


def _stiffnesses(
    parameters: HillParameters,
    curves: AbstractCurves,
    activation: PerUnit,
    l_mt: PerUnit,
    along: PerUnit,
) -> tuple[PerUnit, PerUnit]:
    """Slopes (N/m) of the fibre's and the tendon's force along the tendon over their lengths."""

    def fibre_force(along: PerUnit) -> PerUnit:
        fibre = fibre_of_projection(parameters, along)
        rest = jnp.zeros_like(along)
        forces = fibre_forces(parameters, curves, fibre.length, rest, activation)
        return forces.total * fibre.cosine

    def tendon_force(length: PerUnit) -> PerUnit:
        return curves.tendon_force(length, parameters.tendon_strain)

    one = jnp.ones_like(along)
    fibre = fibre_of_projection(parameters, along)
    stretched = tendon_length(parameters, fibre, l_mt)
    k_fibre = jax.jvp(fibre_force, (along,), (one,))[1]
    k_tendon = jax.jvp(tendon_force, (stretched,), (one,))[1]
    force = parameters.max_isometric_force
    return (
        jnp.maximum(k_fibre * force / parameters.optimal_fibre_length, 0.0),
        k_tendon * force / parameters.tendon_slack_length,
    )
