"""What all signals must be: as many rows as times, times that increase, no gaps."""

from typing import Any

import numpy as np


def signal(time: Any, values: Any, *, gaps: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Times (rows,) and values (rows, columns), checked; further axes are flattened."""
    t = np.asarray(time, dtype=float)
    x = np.asarray(values, dtype=float)
    if t.ndim != 1 or x.ndim == 0 or x.shape[0] != t.size:
        raise ValueError(f"times of shape {t.shape} for values of shape {x.shape}")
    if not np.all(np.isfinite(t)):
        raise ValueError(f"the time of row {int(np.argmin(np.isfinite(t))) + 1} is not finite")
    stuck = np.diff(t) <= 0
    if np.any(stuck):
        raise ValueError(f"time does not increase at row {int(np.argmax(stuck)) + 2}")
    x = x.reshape(t.size, -1) if t.size else x.reshape(0, int(np.prod(x.shape[1:])))
    if not gaps and not np.all(np.isfinite(x)):
        row, column = (int(k) + 1 for k in np.argwhere(~np.isfinite(x))[0])
        raise ValueError(f"row {row}, column {column} is not a number; fill_gaps fills short gaps")
    return t, x


def step(time: np.ndarray) -> float:
    """The sampling interval of even times (s)."""
    steps = np.diff(time)
    mean = float(np.mean(steps))
    # Times in files are often rounded to a millisecond; real jitter is larger.
    wrong = np.abs(steps - mean) > 0.1 * mean
    drift = np.abs(time - (time[0] + mean * np.arange(time.size))) > 0.2 * mean
    if np.any(wrong) or np.any(drift):
        row = int(np.argmax(wrong)) + 2 if np.any(wrong) else int(np.argmax(drift)) + 1
        raise ValueError(
            f"times are not even: at row {row} the step differs from the mean, {mean:.6g} s; "
            "use resample first"
        )
    return mean
