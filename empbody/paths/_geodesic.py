"""What the shortest paths over an ellipsoid and over a torus have in common."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Geodesic(NamedTuple):
    """A taut string from a over a surface to b, in the frame of the surface (m).

    It runs straight from a to `p`, where it touches down, over the surface along a geodesic
    of length `arc`, and straight from `q`, where it lifts off, to b. `length` is the whole,
    |p - a| + arc + |b - q|. Where `converged` is false the numbers are finite but are not
    those of a geodesic.
    """

    p: Float[Array, "3 *batch"]
    q: Float[Array, "3 *batch"]
    arc: Float[Array, "*batch"]
    length: Float[Array, "*batch"]
    converged: Bool[Array, "*batch"]


class Tried(NamedTuple):
    """Solutions of problems that are near the next ones."""

    rows: Float[Array, "13 *batch"]
    """In whatever numbers the kind of surface has for them; zero where nothing is known."""

    @staticmethod
    def nothing(on: Bool[Array, "*batch"], dtype: jnp.dtype) -> "Tried":
        return Tried(jnp.zeros((13, *on.shape), dtype))

    def loosely(self, which: Bool[Array, "*batch"]) -> "Tried":
        """Without where ellipsoids were touched: the azimuth then turns with the plane of the
        string's ends and the centre."""
        rows = self.rows
        point = jnp.where(which[None], 0.0, rows[5:8])
        return Tried(jnp.concatenate([rows[:5], point, rows[8:]]))
