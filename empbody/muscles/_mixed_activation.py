"""Several kinds of activation dynamics among the units of one model."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._activation import AbstractActivation


class MixedActivation(AbstractActivation):
    """Each unit follows its own kind: `units` are the positions of those that follow each of
    `kinds`; together they name every unit once."""

    kinds: tuple[AbstractActivation, ...]
    units: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(self, kinds: Sequence[AbstractActivation], units: Sequence[Sequence[int]]):
        self.kinds = tuple(kinds)
        self.units = tuple(tuple(int(i) for i in group) for group in units)
        every = sorted(i for group in self.units for i in group)
        if len(self.kinds) != len(self.units) or every != list(range(len(every))):
            raise ValueError(
                f"{len(self.kinds)} kinds of activation dynamics for the groups {self.units}; "
                "give one group each, which together name every unit once"
            )

    def rate(
        self,
        activation: Float[Array, " nm"],
        excitation: Float[Array, " nm"],
        rise: Float[Array, " nm"],
        fall: Float[Array, " nm"],
        least: Float[Array, " nm"],
    ) -> Float[Array, " nm"]:
        given = (activation, excitation, rise, fall, least)
        parts = [
            kind.rate(*(value[np.asarray(group)] for value in given))
            for kind, group in zip(self.kinds, self.units, strict=True)
        ]
        back = np.argsort([i for group in self.units for i in group])
        return jnp.concatenate(parts)[back]
