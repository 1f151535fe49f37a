"""Springs and end stops on coordinates, or on variables that depend on them."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics import Motion
from ..model import AbstractForce, Model
from ..rhythms import AbstractRhythm
from ._variables import Variables, per_variable

PerVariable = Float[Array, " n"]


class VariableSprings(AbstractForce):
    """-k (s - rest) - b ṡ on each of n variables s(q).

    The variables are the named coordinates, or the outputs of `rhythm` of them: so springs
    may act on coordinates that are coupled to others. Numbers are one for all variables, or
    one each, in the variables' SI units.
    """

    variables: Variables
    stiffness: PerVariable
    rest: PerVariable
    damping: PerVariable
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        coordinates: str | Sequence[str],
        stiffness: Any = 0.0,
        rest: Any = 0.0,
        damping: Any = 0.0,
        rhythm: AbstractRhythm | None = None,
        names: Sequence[str] = (),
    ):
        self.variables = Variables(coordinates, rhythm)
        n = self.variables.size
        self.stiffness = per_variable("stiffness", stiffness, n)
        self.rest = per_variable("rest", rest, n)
        self.damping = per_variable("damping", damping, n)
        self.names = tuple(names)

    def bind(self, model: Model) -> "VariableSprings":
        return eqx.tree_at(
            lambda x: x.variables,
            self,
            self.variables.bind(model),
            is_leaf=lambda x: isinstance(x, Variables),
        )

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        stretch = self.variables.value(motion) - self.rest
        force = -self.stiffness * stretch - self.damping * self.variables.rate(motion)
        return self.variables.push(motion, force)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        stretch = self.variables.value(motion) - self.rest
        return 0.5 * jnp.sum(self.stiffness * stretch**2)


class SoftStops(AbstractForce):
    """Springs and dampers that hold n variables s(q) between limits.

    Beyond `upper` the force is -k S(u) (s - upper) - b S(u) ṡ, where u is the excess over
    `transition` and S the step 10u³ - 15u⁴ + 6u⁵ from 0 to 1; below `lower` likewise. SI
    units, rad or m. This is OpenSim's CoordinateLimitForce, which gives its numbers in
    degrees. Variables as for `VariableSprings`.
    """

    variables: Variables
    lower: PerVariable
    upper: PerVariable
    lower_stiffness: PerVariable
    upper_stiffness: PerVariable
    damping: PerVariable
    transition: PerVariable
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        coordinates: str | Sequence[str],
        lower: Any,
        upper: Any,
        lower_stiffness: Any,
        upper_stiffness: Any,
        damping: Any = 0.0,
        transition: Any = 0.1,
        rhythm: AbstractRhythm | None = None,
        names: Sequence[str] = (),
    ):
        self.variables = Variables(coordinates, rhythm)
        n = self.variables.size
        self.lower = per_variable("lower", lower, n)
        self.upper = per_variable("upper", upper, n)
        self.lower_stiffness = per_variable("lower_stiffness", lower_stiffness, n)
        self.upper_stiffness = per_variable("upper_stiffness", upper_stiffness, n)
        self.damping = per_variable("damping", damping, n)
        self.transition = per_variable("transition", transition, n)
        self.names = tuple(names)

    def bind(self, model: Model) -> "SoftStops":
        return eqx.tree_at(
            lambda x: x.variables,
            self,
            self.variables.bind(model),
            is_leaf=lambda x: isinstance(x, Variables),
        )

    def _excess(self, motion: Motion) -> tuple[PerVariable, PerVariable]:
        """How far beyond the lower and the upper limit, over the transition."""
        s = self.variables.value(motion)
        return (self.lower - s) / self.transition, (s - self.upper) / self.transition

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        low, high = self._excess(motion)
        held_low, held_high = _step(low), _step(high)
        force = self.lower_stiffness * held_low * low - self.upper_stiffness * held_high * high
        drag = self.damping * (held_low + held_high) * self.variables.rate(motion)
        return self.variables.push(motion, self.transition * force - drag)

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        low, high = self._excess(motion)
        stored = self.lower_stiffness * _stored(low) + self.upper_stiffness * _stored(high)
        return jnp.sum(self.transition**2 * stored)


def _step(u: PerVariable) -> PerVariable:
    x = jnp.clip(u, 0.0, 1.0)
    return x * x * x * (10.0 - x * (15.0 - 6.0 * x))


def _stored(u: PerVariable) -> PerVariable:
    """∫ step(u) u du from 0."""
    x = jnp.clip(u, 0.0, 1.0)
    inside = x**5 * (2.0 - x * (2.5 - x * (6.0 / 7.0)))
    return inside + 0.5 * (jnp.maximum(u, 1.0) ** 2 - 1.0)
