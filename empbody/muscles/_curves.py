"""What a family of muscle curves gives, and the safe pieces that the families are made of.

Lengths are divided by the optimal fibre length or the tendon's slack length, speeds by the
maximum shortening speed (lengthening is positive), forces by the maximum isometric force.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

FASTEST = 1e4
"""Bound on normalised fibre speeds, far beyond any real one: keeps every result finite."""

Normalised: TypeAlias = Float[Array, "..."]


def linear_beyond(x: Normalised, limit: float) -> Normalised:
    """exp(x), continued by its tangent where x > limit, so that it never overflows."""
    low = jnp.minimum(x, limit)
    return jnp.exp(low) * (1.0 + (x - low))


def root(
    function: Callable[[Normalised], Normalised],
    solve: Callable[[], tuple[Normalised, Normalised]],
) -> tuple[Normalised, Normalised]:
    """x with function(x) = 0, each entry by itself, and what is left there, as `solve` finds them.

    `solve` must not carry derivatives: it works on values held by `stop_gradient`.

    Derivatives of any order follow from the function at the root, not from the iterations.
    """

    found, left = solve()
    pure, captured = jax.closure_convert(function, found)
    return _held_at_root(pure, found, *captured), left


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _held_at_root(pure: Callable[..., Any], found: Any, *captured: Any) -> Any:
    return found


@_held_at_root.defjvp
def _held_at_root_jvp(pure: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    x = _held_at_root(pure, *primals)
    captured = tuple(primals[1:])
    slope = jax.jvp(lambda x: pure(x, *captured), (x,), (jnp.ones_like(x),))[1]
    drift = jax.jvp(lambda *c: pure(x, *c), captured, tuple(tangents[1:]))[1] if captured else 0.0
    flat = jnp.abs(slope) < 1e-12
    return x, jnp.where(flat, 0.0, -1.0 / jnp.where(flat, 1.0, slope)) * drift


def safe_ratio(above: Normalised, below: Normalised, tiny: float = 1e-12) -> Normalised:
    """above / below for below ≥ 0, large and finite where below vanishes."""
    return above / jnp.maximum(below, tiny)


class AbstractCurves(eqx.Module):
    """Force-length, force-velocity and tendon curves of one published muscle model.

    Shape constants are array leaves: scalars, or one entry per musculotendon unit. All
    methods work entry by entry and are finite, with finite gradients, for every finite input.
    """

    typical: ClassVar[dict[str, float]]
    """Time constants, tendon strain and damping that belong to the family: pass them on as
    `HillParameters.of(..., **Millard.typical)`."""

    @abc.abstractmethod
    def active_force_length(self, length: Normalised) -> Normalised:
        """Isometric active force of the fully active fibre."""

    @abc.abstractmethod
    def passive_force_length(self, length: Normalised) -> Normalised:
        """Force of the passive fibre."""

    @abc.abstractmethod
    def force_velocity(
        self, velocity: Normalised, activation: Normalised | None = None
    ) -> Normalised:
        """Factor on the active force at a fibre speed; 1 at rest, rising with the speed.

        Only Thelen's curve depends on the activation, which is 1 if left out.
        """

    @abc.abstractmethod
    def tendon_force(self, length: Normalised, strain: Normalised) -> Normalised:
        """Tendon force; `strain` is the tendon's strain at the maximum isometric force."""

    @abc.abstractmethod
    def tendon_length(self, force: Normalised, strain: Normalised) -> Normalised:
        """Inverse of `tendon_force` for a tendon under tension."""

    @abc.abstractmethod
    def _solve_velocity(
        self, active: Normalised, damping: Normalised, force: Normalised, activation: Normalised
    ) -> Normalised:
        """Numbers of `velocity`, whose derivatives are found elsewhere."""

    def velocity(
        self,
        active: Normalised,
        damping: Normalised,
        force: Normalised,
        activation: Normalised | None = None,
    ) -> Normalised:
        """Speed v at which active · force_velocity(v) + damping · v = force.

        active, damping ≥ 0 and not both zero. Work is fixed; derivatives are implicit.
        """
        level = jnp.ones_like(active) if activation is None else activation

        def excess(v: Normalised) -> Normalised:
            return active * self.force_velocity(v, level) + damping * v - force

        def solve() -> tuple[Normalised, Normalised]:
            # Held before the steps, so that no derivative of them is ever built.
            curves, *held = jax.lax.stop_gradient((self, active, damping, force, level))
            v = curves._solve_velocity(*held)
            return v, jnp.zeros_like(v)

        v, _ = root(excess, solve)
        return jnp.where(jnp.abs(v) < FASTEST, v, jax.lax.stop_gradient(v))

    def force_velocity_inverse(
        self, force: Normalised, activation: Normalised | None = None
    ) -> Normalised:
        """Speed at which the force-velocity factor has a value."""
        return self.velocity(jnp.ones_like(force), jnp.zeros_like(force), force, activation)
