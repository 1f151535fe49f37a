"""From measured to usable: gaps, resampling, low-pass filters, smoothing with derivatives.

NumPy and SciPy on whole recordings, before anything is simulated or differentiated. Times
in seconds along the first axis; all further axes are columns of their own, so coordinates
(rows, nq) and markers (rows, n, 3) go through the same functions.
"""

from ._filter import low_pass, rows_at_ends
from ._gaps import Gap, fill_gaps, find_gaps
from ._resample import resample
from ._spline import Smoothed, SmoothingSpline, smooth, smoothing_spline

__all__ = [
    "Gap",
    "Smoothed",
    "SmoothingSpline",
    "fill_gaps",
    "find_gaps",
    "low_pass",
    "resample",
    "rows_at_ends",
    "smooth",
    "smoothing_spline",
]
