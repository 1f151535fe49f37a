"""Several families of curves among the units of one model."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ._curves import AbstractCurves, Normalised


class MixedCurves(AbstractCurves):
    """Curves in which each unit follows its own family.

    `families` are the curves, `units` the positions of the units that follow each of them;
    together they name every unit once. Methods take one entry per unit.
    """

    families: tuple[AbstractCurves, ...]
    units: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(self, families: Sequence[AbstractCurves], units: Sequence[Sequence[int]]):
        self.families = tuple(families)
        self.units = tuple(tuple(int(i) for i in group) for group in units)
        if len(self.families) != len(self.units):
            raise ValueError(f"{len(self.families)} families for {len(self.units)} groups of units")
        every = sorted(i for group in self.units for i in group)
        if every != list(range(len(every))):
            raise ValueError(
                f"the groups {self.units} must name every unit from 0 to {len(every) - 1} once"
            )

    def _each(self, function: Callable[..., Normalised], *values: Normalised) -> Normalised:
        size = sum(len(group) for group in self.units)
        if values[0].shape != (size,):
            raise ValueError(f"shape {values[0].shape} for {size} units in {self.units}")
        whole = [jnp.broadcast_to(value, (size,)) for value in values]
        parts = [
            function(family, *(value[np.asarray(group)] for value in whole))
            for family, group in zip(self.families, self.units, strict=True)
            if group
        ]
        back = np.argsort([i for group in self.units for i in group])
        return jnp.concatenate(parts)[back]

    def active_force_length(self, length: Normalised) -> Normalised:
        return self._each(lambda curves, x: curves.active_force_length(x), length)

    def passive_force_length(self, length: Normalised) -> Normalised:
        return self._each(lambda curves, x: curves.passive_force_length(x), length)

    def force_velocity(
        self, velocity: Normalised, activation: Normalised | None = None
    ) -> Normalised:
        level = jnp.ones_like(velocity) if activation is None else activation
        return self._each(lambda curves, x, a: curves.force_velocity(x, a), velocity, level)

    def tendon_force(self, length: Normalised, strain: Normalised) -> Normalised:
        return self._each(lambda curves, x, s: curves.tendon_force(x, s), length, strain)

    def tendon_length(self, force: Normalised, strain: Normalised) -> Normalised:
        return self._each(lambda curves, x, s: curves.tendon_length(x, s), force, strain)

    def _solve_velocity(
        self, active: Normalised, damping: Normalised, force: Normalised, activation: Normalised
    ) -> Normalised:
        return self._each(
            lambda curves, *values: curves._solve_velocity(*values),
            active,
            damping,
            force,
            activation,
        )
