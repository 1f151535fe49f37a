"""How smooth a curve should be, by the error on stretches of rows that were left out."""

import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from ._problem import Problem, bending_jacobian, jacobian
from ._solvers import unknowns_apart
from ._stretches import FOLDS, stretches

_GRID = (0.0, *10.0 ** np.arange(-7.0, 1.25, 0.5))


def choose_smoothness(problem: Problem) -> float:
    """The largest `smoothness` whose error on what was left out is within one standard error
    of the least (Breiman et al. 1984); 0 where no smoothing is best by more than that.

    Stretches of neighbouring rows are left out as in `cross_validate`. The least error alone
    would choose too little: frames between their neighbours are easily met, and a curve that
    bends to meet them goes astray beyond the data.

    For families that are linear in their coefficients; `problem` has no penalty as yet.
    """
    weights = np.asarray(problem.weights, dtype=np.float64).sum(axis=1)
    used = np.flatnonzero(weights > 0)
    folds = min(FOLDS, len(used))
    unit = stretches(len(used), folds)
    fold = np.full(len(weights), -1)
    fold[used] = unit % folds
    total = np.bincount(unit, weights[used])
    squares = _squares_left_out(problem, fold)
    errors = np.stack([np.bincount(unit, row[used]) / total for row in squares])
    mean = np.where(np.isfinite(errors).all(axis=1), errors.mean(axis=1), np.inf)
    best = int(np.argmin(mean))
    if not np.isfinite(mean[best]):
        raise ValueError("the data are too few to choose the smoothness by; give a number")
    margin = errors[best].std(ddof=1) / np.sqrt(len(total))
    return float(_GRID[np.flatnonzero(mean <= mean[best] + margin).max()])


def _squares_left_out(problem: Problem, fold: Int[np.ndarray, " n"]) -> Float[np.ndarray, "grid n"]:
    """Weighted squares of every row's residuals, by the fit that has not seen it."""
    zero = jnp.zeros(problem.map.shape[1], dtype=problem.start.dtype)
    rows, columns = problem.weights.shape
    residual, slope = jacobian(problem, zero)
    start, bends = bending_jacobian(problem, zero)
    row = np.repeat(np.arange(rows), columns)
    weight = np.asarray(problem.weights, dtype=np.float64).sum(axis=1)
    squares = np.zeros((len(_GRID), rows))
    for part in unknowns_apart(np.concatenate([slope, bends])):
        mine = np.flatnonzero(np.any(slope[:, part] != 0.0, axis=1))
        s, r, at = slope[np.ix_(mine, part)], residual[mine], row[mine]
        bent = bends[:, part]
        bent_square, bent_start = bent.T @ bent, bent.T @ start
        for k in np.unique(fold[fold >= 0]):
            seen = fold[at] != k
            square, product = s[seen].T @ s[seen], s[seen].T @ r[seen]
            size = weight[(fold != k) & (fold >= 0)].sum() / columns
            for g, value in enumerate(_GRID):
                strength = value * size
                z = _solved(square + strength * bent_square, product + strength * bent_start)
                miss = r[~seen] - s[~seen] @ z
                np.add.at(squares[g], at[~seen], miss**2)
    return squares


def _solved(
    square: Float[np.ndarray, "p p"], product: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """The minimum, or nothing (not a number) where directions are left open."""
    scale = np.sqrt(np.maximum(np.diagonal(square), 1e-300))
    try:
        factor = scipy.linalg.cho_factor(square / np.outer(scale, scale), lower=True)
    except np.linalg.LinAlgError:
        return np.full(len(product), np.nan)
    if np.diagonal(factor[0]).min() < 1e-7:
        return np.full(len(product), np.nan)
    return scipy.linalg.cho_solve(factor, product / scale) / scale
