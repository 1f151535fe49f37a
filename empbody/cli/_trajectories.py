"""Desired trajectories of the four-bar and the five-bar: piecewise cubic Hermite."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicHermiteSpline


class Hermite(NamedTuple):
    """Values and slopes at knots (s), one column for each coordinate.

    Accelerations jump at inner knots; there the later piece counts.
    """

    knots: Float[np.ndarray, " knots"]
    values: Float[np.ndarray, "knots nq"]
    slopes: Float[np.ndarray, "knots nq"]

    def __call__(self, time: Float[np.ndarray, " rows"]) -> tuple[np.ndarray, ...]:
        """q, q̇ and q̈, each (rows, nq)."""
        curve = CubicHermiteSpline(self.knots, self.values, self.slopes, axis=0)
        return curve(time), curve(time, 1), curve(time, 2)


def _columns(*columns: tuple[float | int, ...]) -> np.ndarray:
    return np.array(columns, dtype=float).T


_KNOTS = np.arange(5.0)

# The manuscript's Fig. 4: q from 0 over 1.5 and -1.5 back to 0 (m).
FOUR_BAR = Hermite(_KNOTS, _columns((0, 1.5, -0.5, -1.5, 0)), _columns((0, 0, -2, 0, 0)))

# The manuscript's Fig. 8 is a drawing without figures; this is a pair of our own (rad) that
# starts and ends at rest and crosses the steep part of the manifold.
FIVE_BAR = Hermite(
    _KNOTS,
    _columns((0.4, 1.6, 0.6, -0.8, 0.4), (0.8, -0.4, -1.4, 0.2, 0.8)),
    _columns((0, 0, -1.5, 0, 0), (0, -1.2, 0, 1.2, 0)),
)
