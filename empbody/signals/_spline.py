"""Quintic smoothing splines: values, speeds and accelerations from noisy samples."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Num
from scipy.interpolate import BSpline

from ._checks import signal
from ._penalised import PenalisedSpline

_FEWEST = 7
# -3 dB, as a filter's cutoff is understood.
_DROP = np.sqrt(2.0) - 1.0


class Smoothed(NamedTuple):
    """A smooth motion with its derivatives, per second and per second squared."""

    q: Float[np.ndarray, "samples *columns"]
    qd: Float[np.ndarray, "samples *columns"]
    qdd: Float[np.ndarray, "samples *columns"]


@dataclasses.dataclass(frozen=True)
class SmoothingSpline:
    """Quintic splines through noisy columns; `spline(t)` and `spline(t, 1)` evaluate them."""

    curves: tuple[tuple[tuple[int, ...], BSpline], ...]
    """Columns that share their knots, and their splines of time."""
    smoothing: Float[np.ndarray, "*columns"]
    """λ of each column (s⁵)."""
    cutoff: Float[np.ndarray, "*columns"]
    """Where half of the power passes (Hz): the like of a filter's cutoff."""
    span: tuple[float, float]
    """First and last time of the recording (s)."""

    def __call__(
        self, time: Num[ArrayLike, " samples"], derivative: int = 0
    ) -> Float[np.ndarray, "samples *columns"]:
        """Values, or a derivative up to the fourth, at times within the recording."""
        t = np.asarray(time, dtype=float)
        first, last = self.span
        slack = 1e-9 * (last - first)
        if np.any((t < first - slack) | (t > last + slack)):
            raise ValueError(f"a time is outside the recording, {first:g} to {last:g} s")
        values = np.empty((t.size, self.smoothing.size))
        for columns, curve in self.curves:
            values[:, columns] = curve(np.clip(t, first, last), derivative)
        return values.reshape(t.size, *self.smoothing.shape)


def smoothing_spline(
    time: Num[ArrayLike, " rows"],
    values: Num[ArrayLike, "rows *columns"],
    *,
    cutoff: float | None = None,
    smoothing: float | None = None,
) -> SmoothingSpline:
    """Fit a natural quintic smoothing spline to every column.

    It minimises Σ (x_i - s(t_i))² + λ ∫ s'''(t)² dt: accelerations are smooth, up to
    the ends. λ is, in this order,

    - `smoothing`, given; 0 interpolates; or
    - that whose -3 dB point for even samples Δt apart is `cutoff` (Hz):
      λ Δt (2π cutoff)⁶ = √2 - 1; or
    - for each column by generalised cross-validation, which needs no knowledge of the noise
      but takes it for white (Woltring 1986, Adv. Eng. Software 8:104; Craven & Wahba 1979).
      Filtered data are not: give a cutoff for those.

    Times may be uneven. The work grows linearly with the number of rows.
    """
    t, x = signal(time, values)
    if t.size < _FEWEST:
        raise ValueError(f"{t.size} rows are too few for a quintic spline: {_FEWEST} at least")
    if cutoff is not None and smoothing is not None:
        raise ValueError("give cutoff or smoothing, not both")
    mean = (t[-1] - t[0]) / (t.size - 1)
    fit = PenalisedSpline(t)
    if smoothing is not None:
        if not 0.0 <= smoothing < np.inf:
            raise ValueError(f"smoothing is {smoothing}; it is 0 or positive")
        weights = np.full(x.shape[1], smoothing / mean**5)
    elif cutoff is not None:
        if not 0.0 < cutoff < 0.5 / mean:
            raise ValueError(
                f"cutoff is {cutoff} Hz; at {1 / mean:g} samples/s it must lie between 0 and "
                f"{0.5 / mean:g} Hz"
            )
        weights = np.full(x.shape[1], _DROP / (2 * np.pi * cutoff * mean) ** 6)
    else:
        weights = fit.cross_validate(x)
    shape = np.shape(values)[1:]
    with np.errstate(divide="ignore"):
        passes = (_DROP / weights) ** (1 / 6) / (2 * np.pi * mean)
    curves = []
    for weight in np.unique(weights).tolist():
        columns = np.flatnonzero(weights == weight)
        curves.append((tuple(columns.tolist()), fit.curve(x[:, columns], weight)))
    return SmoothingSpline(
        curves=tuple(curves),
        smoothing=(weights * mean**5).reshape(shape),
        cutoff=passes.reshape(shape),
        span=(float(t[0]), float(t[-1])),
    )


def smooth(
    time: Num[ArrayLike, " rows"],
    values: Num[ArrayLike, "rows *columns"],
    *,
    cutoff: float | None = None,
    smoothing: float | None = None,
    at: Num[ArrayLike, " samples"] | None = None,
) -> Smoothed:
    """Smooth values with first and second derivatives, as inverse dynamics needs them.

    Arguments as of `smoothing_spline`; `at` gives other times within the recording.
    """
    spline = smoothing_spline(time, values, cutoff=cutoff, smoothing=smoothing)
    t = np.asarray(time if at is None else at, dtype=float)
    return Smoothed(spline(t), spline(t, 1), spline(t, 2))
