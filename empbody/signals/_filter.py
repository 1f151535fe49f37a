"""Low-pass filters without lag."""

import numpy as np
import scipy.signal
from jax.typing import ArrayLike
from jaxtyping import Float, Num

from ._checks import signal, step


def low_pass(
    time: Num[ArrayLike, " rows"],
    values: Num[ArrayLike, "rows *columns"],
    *,
    cutoff: float = 6.0,
    order: int = 4,
    corrected: bool = True,
) -> Float[np.ndarray, "rows *columns"]:
    """Zero-lag Butterworth low-pass filter: once forwards, once backwards.

    **Arguments:**

    - `cutoff`: Hz.
    - `order`: of both passes together, so 4 means two passes of a second-order filter.
    - `corrected`: if True, `cutoff` is where both passes together let 1/√2 of the amplitude
      through (-3 dB). Each pass then has a cutoff higher by (√2 - 1)^(-1/order), 1.25 for
      order 4, in prewarped frequency (Winter, Biomechanics and Motor Control of Human
      Movement, ch. 3). If False, `cutoff` is that of each pass, and both together let one
      half through (-6 dB): what a plain `filtfilt` does.

    Times must be even. The ends are continued by point reflection over three periods of the
    cutoff, after which nothing of the filter's start is left. `rows_at_ends` tells which rows
    lean on that.
    """
    t, x = signal(time, values)
    sections, margin = _design(t, cutoff, order, corrected)
    smooth = scipy.signal.sosfiltfilt(sections, x, axis=0, padlen=min(t.size - 1, margin))
    return smooth.reshape(np.shape(values))


def rows_at_ends(
    time: Num[ArrayLike, " rows"],
    *,
    cutoff: float = 6.0,
    order: int = 4,
    corrected: bool = True,
) -> int:
    """How many rows at each end `low_pass` makes up in part, as far as accelerations go.

    Beyond the ends the filter sees what it guesses by reflection. A row counts where guessed
    values have more than 1 % of the weight in the second derivative of the filtered signal.
    """
    t, _ = signal(time, np.zeros(np.shape(time)))
    sections, margin = _design(t, cutoff, order, corrected)
    pulse = np.zeros(2 * margin + 1)
    pulse[margin] = 1.0
    answer = np.abs(np.diff(scipy.signal.sosfiltfilt(sections, pulse, padlen=0), 2))
    beyond = np.cumsum(answer)[margin - 1 :: -1] / np.sum(answer)  # farther than 0, 1, 2, ... rows
    return min(int(np.sum(beyond > _SHARE)), t.size)


_SHARE = 0.01
_Sections = Float[np.ndarray, "sections 6"]


def _design(
    t: Float[np.ndarray, " rows"], cutoff: float, order: int, corrected: bool
) -> tuple[_Sections, int]:
    """Sections of one pass, and for how many rows one value is felt."""
    if order < 2 or order % 2:
        raise ValueError(f"order is {order}; two passes give an even order, 2 or more")
    if t.size < 3 * order:
        raise ValueError(f"{t.size} rows are too few for a filter of order {order}")
    rate = 1.0 / step(t)
    if not 0.0 < cutoff < 0.5 * rate:
        raise ValueError(
            f"cutoff is {cutoff} Hz; at {rate:g} samples/s it must lie between 0 and "
            f"{0.5 * rate:g} Hz"
        )
    each = cutoff
    if corrected:
        share = (np.sqrt(2.0) - 1.0) ** (1.0 / order)
        each = np.arctan(np.tan(np.pi * cutoff / rate) / share) * rate / np.pi
    sections = np.asarray(scipy.signal.butter(order // 2, each, fs=rate, output="sos"))
    return sections, max(3 * (order + 1), int(np.ceil(3 * rate / cutoff)))
