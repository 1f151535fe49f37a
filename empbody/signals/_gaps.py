"""Gaps in recordings, and how to bridge them."""

from typing import NamedTuple

import numpy as np
import scipy.interpolate
from jax.typing import ArrayLike
from jaxtyping import Float, Num

from ._checks import signal


class Gap(NamedTuple):
    """A run of NaN in one column."""

    column: int
    """Among the columns, further axes flattened."""
    first: int
    """First row that is missing, from 0."""
    last: int
    """Last row that is missing."""
    duration: float
    """Seconds between the samples on its two sides; infinite at an end of the recording."""

    @property
    def at_end(self) -> bool:
        """Whether the gap touches the first or the last row."""
        return self.duration == np.inf


def find_gaps(
    time: Num[ArrayLike, " rows"], values: Num[ArrayLike, "rows *columns"]
) -> tuple[Gap, ...]:
    """All runs of NaN, by row."""
    t, x = signal(time, values, gaps=True)
    gaps = []
    for column in np.flatnonzero(np.isnan(x).any(axis=0)).tolist():
        edge = np.diff(np.concatenate([[False], np.isnan(x[:, column]), [False]]).astype(int))
        starts, stops = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
        for first, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            inside = first > 0 and stop < t.size
            duration = float(t[stop] - t[first - 1]) if inside else np.inf
            gaps.append(Gap(column, first, stop - 1, duration))
    return tuple(sorted(gaps, key=lambda gap: (gap.first, gap.column)))


def fill_gaps(
    time: Num[ArrayLike, " rows"],
    values: Num[ArrayLike, "rows *columns"],
    *,
    longest: float | None = None,
) -> Float[np.ndarray, "rows *columns"]:
    """Bridge gaps (NaN) by cubic splines through the samples that are there.

    Gaps longer than `longest` (s, between the samples on both sides; None for any length)
    and gaps at the ends stay NaN. A column with fewer than four samples is bridged by
    straight lines. Long gaps in fast motion are guesses: 0.1 to 0.2 s is a usual limit.
    """
    if longest is not None and not longest > 0:
        raise ValueError(f"longest is {longest}; it is a duration in seconds")
    t, x = signal(time, values, gaps=True)
    filled = x.copy()
    for gap in find_gaps(time, values):
        if gap.at_end or (longest is not None and gap.duration > longest * (1 + 1e-9)):
            continue
        column = x[:, gap.column]
        # Far samples do not matter to a cubic spline: a window keeps this linear in time.
        near = np.flatnonzero(~np.isnan(column[max(0, gap.first - 40) : gap.last + 41]))
        near = near + max(0, gap.first - 40)
        rows = slice(gap.first, gap.last + 1)
        if near.size < 4:
            filled[rows, gap.column] = np.interp(t[rows], t[near], column[near])
        else:
            spline = scipy.interpolate.CubicSpline(t[near], column[near])
            filled[rows, gap.column] = spline(t[rows])
    return filled.reshape(np.shape(values))
