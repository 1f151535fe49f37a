"""Activation that rises the faster the stronger the excitation."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ._activation import AbstractActivation, within


class ZajacActivation(AbstractActivation):
    """(e - a) / τ with 1/τ = 1/fall + e (1/rise - 1/fall) while the excitation e is above the
    activation a, and 1/τ = 1/fall otherwise.

    Zajac (1989), Muscle and tendon: properties, models, scaling, and application to
    biomechanics and motor control, Crit. Rev. Biomed. Eng. 17. Used by OpenSim's
    Schutte1993Muscle and Delp1990Muscle, whose constants are activation1 = time_scale
    (1/rise - 1/fall) and activation2 = time_scale / fall.
    """

    def rate(
        self,
        activation: Float[Array, " nm"],
        excitation: Float[Array, " nm"],
        rise: Float[Array, " nm"],
        fall: Float[Array, " nm"],
        least: Float[Array, " nm"],
    ) -> Float[Array, " nm"]:
        level = within(excitation, least)
        ahead = level - activation
        quicker = jnp.where(ahead >= 0.0, level * (1.0 / rise - 1.0 / fall), 0.0)
        return ahead * (1.0 / fall + quicker)
