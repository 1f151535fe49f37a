"""Checks of the data behind a fit, and the least-squares solve that linear families share."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Array

Numbers: TypeAlias = Array | np.ndarray | np.generic | Sequence[Any] | float | int
"""What a constructor takes for an array: nested lists and tuples too."""


def as_samples(x: Numbers, y: Numbers, n_in: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """x as (n, nq) and y as (n, nj), float64, checked; a one-dimensional array is one column."""
    xs, ys = _columns("x", x), _columns("y", y)
    if len(xs) != len(ys):
        raise ValueError(f"{len(ys)} rows of y for {len(xs)} abscissae")
    if n_in is not None and xs.shape[1] != n_in:
        raise ValueError(f"x has {xs.shape[1]} columns, this rhythm has {n_in} coordinates")
    return xs, ys


def finite(name: str, values: Numbers) -> np.ndarray:
    """values as a float64 array, refused when any is NaN or infinite."""
    array = np.asarray(values, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = ", ".join(str(int(i)) for i in bad[0])
        raise ValueError(
            f"{name} holds {len(bad)} values that are NaN or infinite, the first at [{where}]; "
            "remove those samples"
        )
    return array


def increasing(name: str, values: np.ndarray) -> None:
    """Refuse a sequence that does not strictly increase, naming where."""
    steps = np.diff(values)
    if np.any(steps <= 0):
        i = int(np.argmax(steps <= 0))
        raise ValueError(
            f"{name} must increase strictly: {name}[{i}] = {values[i]:.9g}, "
            f"{name}[{i + 1}] = {values[i + 1]:.9g}; sort and drop repeats"
        )


def least_squares(design: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
    """Coefficients c, shape (ncolumns, nj), of design @ c ≈ y; refused when not determined."""
    n, columns = design.shape
    if n < columns:
        raise ValueError(f"{n} samples cannot determine the {columns} coefficients of {what}")
    # Columns of unit length: the rank test then does not depend on the units of x.
    norms = np.linalg.norm(design, axis=0)
    # A column of rounding errors is no direction: it stays as small as it is.
    norms = np.where(norms <= 1e-12 * norms.max(), norms.max(), norms)
    solution, _, rank, _ = np.linalg.lstsq(design / norms, y, rcond=None)
    if rank < columns:
        raise ValueError(
            f"the samples determine only {rank} of the {columns} coefficients of {what}; "
            "lower the order or spread the samples"
        )
    return solution / norms[:, None]


def _columns(name: str, values: Numbers) -> np.ndarray:
    array = finite(name, values)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not len(array):
        raise ValueError(f"{name} must have shape (n,) or (n, columns), got {array.shape}")
    return array
