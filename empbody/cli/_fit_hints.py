"""Whether a family is too poor for what was measured, by the error that is left in it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ..fitting import make_family
from ..rhythms import Polynomial

RICHER = "poly:3"
_POOR = ("linear", "poly:1", "poly:2")
_SHARE, _GAIN = 0.6, math.radians(0.5)
_EDGE = math.radians(1.0)
_ENOUGH = 2  # rows for each coefficient of a target


def richer_error(xs: np.ndarray, ys: np.ndarray, groups: Any, family: str) -> float | None:
    """Root mean square residual (rad) of `RICHER`, each subject fitted to all its rows; None
    where the family is no poorer or the rows are too few to tell."""
    if family not in _POOR:
        return None
    rhythm = make_family(RICHER, xs, ys)
    assert isinstance(rhythm, Polynomial)
    scaled = (xs - np.asarray(rhythm.centre)) / np.asarray(rhythm.scale)
    design = np.stack([np.prod(scaled ** np.array(e), axis=1) for e in rhythm.exponents], axis=1)
    left = np.zeros_like(ys)
    for name in np.unique(groups):
        rows = np.flatnonzero(np.asarray(groups) == name)
        if len(rows) < _ENOUGH * design.shape[1]:
            return None
        left[rows] = _residuals(design[rows], ys[rows])
    return float(np.sqrt(np.mean(left**2)))


def _residuals(design: Float[np.ndarray, "n p"], ys: Float[np.ndarray, "n k"]) -> np.ndarray:
    return design @ np.linalg.lstsq(design, ys, rcond=None)[0] - ys


def beyond(names: Sequence[str], fitted: np.ndarray, tested: np.ndarray, family: str) -> list[str]:
    """A note where rows of the test lie outside what was fitted: a guess, not a fit."""
    low, high = fitted.min(axis=0), fitted.max(axis=0)
    outside = (tested < low - _EDGE) | (tested > high + _EDGE)
    notes = []
    for k, name in enumerate(names):
        count = int(outside[:, k].sum())
        if not count:
            continue
        course = "" if family.startswith("spline") else ", and only splines go on straight there"
        notes.append(
            f"{count} of {len(tested)} rows of the test lie outside the fitted range of {name} "
            f"({math.degrees(low[k]):.1f} to {math.degrees(high[k]):.1f} deg){course}"
        )
    return notes


def too_poor(family: str, left: float, richer: float | None, *, prior: bool = False) -> list[str]:
    """A note where a richer family would leave far less than `left` (rad): in these data, or
    in those of the `prior`."""
    if richer is None or not (richer < _SHARE * left and left - richer > _GAIN):
        return []
    whose = "the subjects of the prior" if prior else "these data"
    remedy = (
        f"fit the population again with --rhythm {RICHER}" if prior else f"use --rhythm {RICHER}"
    )
    return [
        f"{family} is too poor for {whose}: fitted to all poses it still misses them by "
        f"{math.degrees(left):.1f} deg, {RICHER} by {math.degrees(richer):.1f}; no prior and no "
        f"further pose can mend that: {remedy}"
    ]
