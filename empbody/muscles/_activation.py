"""Activation dynamics: how the activation of a muscle follows its excitation."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


def within(value: Float[Array, " nm"], least: Float[Array, " nm"]) -> Float[Array, " nm"]:
    """value held in [least, 1]; the slope is 1 on the bounds themselves."""
    return jnp.where(value < least, least, jnp.where(value > 1.0, 1.0, value))


class AbstractActivation(eqx.Module):
    """First-order dynamics of the activation."""

    @abc.abstractmethod
    def rate(
        self,
        activation: Float[Array, " nm"],
        excitation: Float[Array, " nm"],
        rise: Float[Array, " nm"],
        fall: Float[Array, " nm"],
        least: Float[Array, " nm"],
    ) -> Float[Array, " nm"]:
        """Rate of the activation (1/s).

        `rise` and `fall` are the time constants (s), `least` the lowest activation: the
        excitation is held in [least, 1].
        """


class SwitchedActivation(AbstractActivation):
    """(e - a) / τ with τ = rise (0.5 + 1.5 a) while the excitation e is above the activation a
    and τ = fall / (0.5 + 1.5 a) otherwise.

    Thelen (2003), Eqs. 1-2; also that of OpenSim's Thelen and Millard muscles.
    """

    def rate(
        self,
        activation: Float[Array, " nm"],
        excitation: Float[Array, " nm"],
        rise: Float[Array, " nm"],
        fall: Float[Array, " nm"],
        least: Float[Array, " nm"],
    ) -> Float[Array, " nm"]:
        ahead = within(excitation, least) - activation
        pace = 0.5 + 1.5 * within(activation, least)
        return ahead * jnp.where(ahead > 0.0, 1.0 / (rise * pace), pace / fall)


def _numbers(value: Any) -> Float[Array, "..."]:
    return jnp.asarray(value, dtype=float)


class SmoothActivation(AbstractActivation):
    """The same two rates, blended by ½ tanh(smoothing (e - a)).

    De Groote, Kinney, Rao, Fregly (2016). Their smoothing of 0.1 makes both rates nearly equal
    to their mean; 10 keeps the two time constants apart and is the default here.
    """

    smoothing: Float[Array, "..."] = eqx.field(converter=_numbers, default=10.0)

    def rate(
        self,
        activation: Float[Array, " nm"],
        excitation: Float[Array, " nm"],
        rise: Float[Array, " nm"],
        fall: Float[Array, " nm"],
        least: Float[Array, " nm"],
    ) -> Float[Array, " nm"]:
        ahead = within(excitation, least) - activation
        pace = 0.5 + 1.5 * within(activation, least)
        upward = 0.5 + 0.5 * jnp.tanh(self.smoothing * ahead)
        return ahead * (upward / (rise * pace) + (1.0 - upward) * pace / fall)
