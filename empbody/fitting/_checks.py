"""What is wrong with data, said before any fit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float


def as_table(kind: str, values: Any, names: Sequence[str] | None) -> Float[np.ndarray, "n k"]:
    """Values as (n, k), finite; one-dimensional is one column. Errors name rows, from 0."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"{kind} must have shape (rows, columns), got {table.shape}")
    if names is not None and len(names) != table.shape[1]:
        raise ValueError(f"{len(names)} names for {table.shape[1]} columns of {kind}")
    bad = ~np.isfinite(table).all(axis=1)
    if bad.any():
        rows = np.flatnonzero(bad)
        shown = ", ".join(map(str, rows[:8])) + (" ..." if len(rows) > 8 else "")
        raise ValueError(
            f"{kind} are NaN or infinite in {len(rows)} of {len(table)} rows (from 0): {shown}; "
            "remove those rows or give them weight by filling the gaps first"
        )
    return table


def check_units(kind: str, table: np.ndarray, names: Sequence[str] | None) -> None:
    """Refuse angles above 2π: degrees in a column of radians."""
    largest = np.abs(table).max(axis=0)
    for j in np.flatnonzero(largest > 2 * np.pi * (1 + 1e-9)).tolist():
        name = names[j] if names is not None else f"column {j}"
        row = int(np.argmax(np.abs(table[:, j])))
        raise ValueError(
            f"{kind} {name!r} should be in radians but is {table[row, j]:.6g} in row {row} (from "
            "0), more than 2π: degrees? Convert with numpy.radians, or name a file's column "
            f"{name}_deg"
        )


def check_varies(inputs: np.ndarray, names: Sequence[str] | None) -> None:
    """Refuse an input that is constant: nothing can be learned about it."""
    span = np.ptp(inputs, axis=0)
    still = span <= 1e-12 * np.maximum(1.0, np.abs(inputs).max(axis=0))
    for j in np.flatnonzero(still).tolist():
        name = names[j] if names is not None else f"column {j}"
        raise ValueError(
            f"input {name!r} is constant ({inputs[0, j]:.6g} in all {len(inputs)} rows), so "
            "nothing can be learned about it; leave it out, or fit with a prior"
        )


def check_count(rows: int, columns: int, coefficients: int, what: str) -> None:
    """Refuse fewer data than parameters."""
    if rows * columns < coefficients:
        raise ValueError(
            f"{rows} rows of {columns} targets are {rows * columns} data, fewer than the "
            f"{coefficients} parameters of {what}; use a smaller family or a prior"
        )


def as_weights(
    weights: Any, rows: int, columns: int, names: Sequence[str] | None
) -> Float[np.ndarray, "n nj"]:
    """Weights of squared residuals: one number each, per row (n,) or per cell (n, nj)."""
    if weights is None:
        return np.ones((rows, columns))
    if isinstance(weights, dict):
        if names is None:
            raise ValueError("weights by name need names of the targets")
        unknown = [name for name in weights if name not in names]
        if unknown:
            raise ValueError(f"no target {unknown[0]!r} to weight; there are {', '.join(names)}")
        weights = np.array([[weights.get(name, 1.0) for name in names]])
    array = np.asarray(weights, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    try:
        whole = np.broadcast_to(array, (rows, columns)).copy()
    except ValueError:
        raise ValueError(
            f"weights of shape {array.shape} for {rows} rows of {columns} targets"
        ) from None
    if not (np.isfinite(whole).all() and (whole >= 0).all() and whole.any()):
        raise ValueError("weights must be finite, at least 0, and not all 0")
    return whole
