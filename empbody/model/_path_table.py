"""Lengths of musculotendon units as a table over the coordinates that move them."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class PathTable(eqx.Module):
    """Lengths of some units as cubic B-splines on an even grid of up to four coordinates.

    Made by `eb.tabulate_paths`. Moment arms are the splines' slopes, so they are -∂L/∂q of the
    lengths that are given. Beyond the grid each axis goes on linearly.
    """

    low: Float[Array, " nd"]
    """First grid point of each coordinate of the table (rad or m)."""
    step: Float[Array, " nd"]
    """Distance of grid points."""
    coefficients: Float[Array, "*grid nu"]
    """One per basis function and unit (m): two more along each axis than grid points."""
    coordinates: tuple[int, ...] = eqx.field(static=True)
    units: tuple[int, ...] = eqx.field(static=True)

    @property
    def cells(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(n - 3 for n in self.coefficients.shape[-len(self.coordinates) - 1 : -1])

    @property
    def high(self) -> Float[Array, " nd"]:
        """Last grid point of each coordinate."""
        return self.low + self.step * jnp.asarray(self.cells, dtype=self.step.dtype)
