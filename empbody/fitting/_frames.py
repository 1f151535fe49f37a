"""Weights for frames of a recording, which are not as many measurements as there are rows."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from ._checks import as_table

_ROWS = 512


def frame_weights(inputs: Any, width: float = math.radians(10.0)) -> Float[np.ndarray, " rows"]:
    """One over the number of rows about each: dense stretches count as much as sparse ones.

    Neighbouring frames repeat each other, misses of the curve included. Taken for separate
    measurements they outvote a prior, and where the arm moved slowly they outvote the rest of
    the raise. A row's neighbours are counted by exp(-½ (distance / width)²), so that frames
    of a stretch of 2.5 `width` weigh as much as one pose. For `weights` of `fit_rhythm` and
    `cross_validate`.

    **Arguments:**

    - `inputs`: coordinates (rows, nq), rad.
    - `width`: rad; how far along the coordinates a miss of the curve lasts.
    """
    xs = as_table("inputs", inputs, None)
    if not width > 0.0:
        raise ValueError(f"width = {width}; a positive angle (rad) is expected")
    crowd = np.zeros(len(xs))
    for start in range(0, len(xs), _ROWS):  # a whole table of distances may be large
        some = xs[start : start + _ROWS]
        squares = np.sum((some[:, None] - xs[None]) ** 2, axis=2)
        crowd[start : start + _ROWS] = np.exp(-0.5 * squares / width**2).sum(axis=1)
    return 1.0 / crowd
