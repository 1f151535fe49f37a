"""The same recording at other times."""

import numpy as np
import scipy.interpolate
from jax.typing import ArrayLike
from jaxtyping import Float, Num

from ._checks import signal


def resample(
    time: Num[ArrayLike, " rows"],
    values: Num[ArrayLike, "rows *columns"],
    *,
    rate: float | None = None,
    at: Num[ArrayLike, " samples"] | None = None,
    order: int = 3,
) -> tuple[Float[np.ndarray, " samples"], Float[np.ndarray, "samples *columns"]]:
    """New times, and the values there by an interpolating spline.

    **Arguments:**

    - `rate`: samples per second from the first time on, as far as the recording goes; or
    - `at`: the new times, within the recording: nothing is extrapolated.
    - `order`: degree of the spline: 1 (straight lines), 3 or 5.

    Going to a lower rate does not remove what that rate cannot show: use `low_pass` first.
    """
    t, x = signal(time, values)
    if (rate is None) == (at is None):
        raise ValueError("give either rate or at")
    if order not in (1, 3, 5):
        raise ValueError(f"order is {order}; choose 1, 3 or 5")
    if t.size <= order:
        raise ValueError(f"{t.size} rows for a spline of degree {order}, which needs {order + 1}")
    if rate is not None:
        if not rate > 0:
            raise ValueError(f"rate is {rate}; it counts samples per second")
        new = t[0] + np.arange(int(np.floor((t[-1] - t[0]) * rate * (1 + 1e-12) + 1e-6)) + 1) / rate
        new = np.minimum(new, t[-1])
    else:
        new = np.asarray(at, dtype=float)
        slack = 1e-9 * (t[-1] - t[0])
        outside = (new < t[0] - slack) | (new > t[-1] + slack)
        if np.any(outside) or not np.all(np.isfinite(new)):
            worst = new[np.argmax(outside | ~np.isfinite(new))]
            raise ValueError(f"time {worst:g} is outside the recording, {t[0]:g} to {t[-1]:g} s")
        new = np.clip(new, t[0], t[-1])
    spline = scipy.interpolate.make_interp_spline(t, x, k=order)
    return new, spline(new).reshape(new.size, *np.shape(values)[1:])
