"""Rows of a recording cut into stretches, to be left out in turn."""

import numpy as np
from jaxtyping import Int

FOLDS, RUNS = 5, 4


def stretches(rows: int, folds: int = FOLDS, runs: int = RUNS) -> Int[np.ndarray, " rows"]:
    """Rows in their order, cut into folds · runs stretches of neighbours: the number of each."""
    if not 2 <= folds <= rows:
        raise ValueError(f"{folds} folds of {rows} rows; at least 2 and at most the rows")
    return np.arange(rows) * min(rows, folds * runs) // rows


def blocks(rows: int, folds: int = FOLDS, runs: int = RUNS) -> Int[np.ndarray, " rows"]:
    """Groups for leaving out when a recording has no trials: rows in their order are cut into
    folds · runs stretches, and every `folds`-th belongs to one group.

    Neighbouring frames resemble each other, so that leaving out single rows would flatter a
    fit; a whole stretch is what it has not seen.
    """
    return stretches(rows, folds, runs) % folds
