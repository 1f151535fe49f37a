"""Least squares with a penalty on the third derivative, in banded matrices."""

from typing import Any

import numpy as np
import scipy.interpolate
import scipy.linalg
import scipy.sparse
from jaxtyping import Float
from scipy.interpolate import BSpline

_DEGREE = 5
_BAND = 5
# Range of weights that cross-validation looks through: all noise, and hardly any.
_SMALLEST, _LARGEST = 1e-5, 1e15
# The normal equations' condition grows with the weight, while a stiff spline needs few
# knots: beyond this weight knots are thinned out, so that seven digits are always left.
_THIN = 1e4


class PenalisedSpline:
    """Smoothing splines on one time axis.

    Weights are those of the penalty for unit mean steps, so that numbers do not depend on
    the rate. With u = t/Δt: Σ (x_i - s(u_i))² + weight ∫ s‴(u)² du.
    """

    def __init__(self, time: Float[np.ndarray, " rows"]):
        self.mean = float(time[-1] - time[0]) / (time.size - 1)
        self.first = float(time[0])
        self.u = (time - self.first) / self.mean
        self.systems: dict[int, _System] = {}

    @property
    def heaviest(self) -> float:
        """A weight beyond which only a parabola is left, to seven digits."""
        return 1e3 * float(self.u.size) ** 6

    def system(self, weight: float) -> "_System":
        """The equations with as many knots as this weight needs."""
        ratio = max(weight / _THIN, 1.0) ** (1 / 6)
        stride = min(2 ** int(np.log2(ratio)), self.u.size - 1)
        if stride not in self.systems:
            self.systems[stride] = _System(self.u, stride)
        return self.systems[stride]

    def curve(self, x: Float[np.ndarray, "rows columns"], weight: float) -> BSpline:
        """Splines of time for columns of one weight; 0 interpolates."""
        if weight == 0.0:
            zeros = np.zeros(x.shape[1])
            natural = [(3, zeros), (4, zeros)]
            spline = scipy.interpolate.make_interp_spline(
                self.u, x, k=_DEGREE, bc_type=(natural, natural), t=_knots(self.u)
            )
            knots, coefficients = spline.t, spline.c
        else:
            weight = min(weight, self.heaviest)
            system = self.system(weight)
            knots, coefficients = system.knots, system.solve(x, weight)
        return BSpline(self.first + self.mean * knots, coefficients, _DEGREE)

    def cross_validate(self, x: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, " columns"]:
        """For each column the weight that minimises the score of cross-validation."""
        grid = np.geomspace(_SMALLEST, min(_LARGEST, self.heaviest), 61)
        systems = [self.system(weight) for weight in grid]
        freedom = np.concatenate(
            [
                system.traces(grid[[other is system for other in systems]])
                for system in dict.fromkeys(systems)
            ]
        )
        between = scipy.interpolate.PchipInterpolator(np.log(grid), freedom)
        scores = np.stack([self._score(x, w, df) for w, df in zip(grid, freedom, strict=True)])
        best = np.argmin(scores, axis=0)
        weights = grid[best]
        # The score is flat near its minimum: a finer grid between the neighbours is enough.
        for column in range(x.shape[1]):
            low, high = max(best[column] - 1, 0), min(best[column] + 1, grid.size - 1)
            fine = np.geomspace(grid[low], grid[high], 13)
            one = x[:, column : column + 1]
            values = [self._score(one, w, float(between(np.log(w))))[0] for w in fine]
            weights[column] = fine[int(np.argmin(values))]
        return weights

    def _score(self, x: np.ndarray, weight: float, freedom: float) -> np.ndarray:
        system = self.system(weight)
        rest = x - system.basis @ system.solve(x, weight)
        return np.mean(rest**2, axis=0) / (1.0 - min(freedom / self.u.size, 1 - 1e-9)) ** 2


class _System:
    """Normal equations of splines with a knot at every `stride`-th sample, in bands."""

    def __init__(self, u: np.ndarray, stride: int):
        # Spread evenly: one short stretch at an end would spoil the condition.
        count = -(-(u.size - 1) // stride) + 1
        self.knots = _knots(u[np.round(np.linspace(0, u.size - 1, count)).astype(int)])
        self.basis = BSpline.design_matrix(u, self.knots, _DEGREE).tocsr()
        self.squares = _bands(self.basis.T @ self.basis)
        self.parabolas = _parabolas(self.knots)
        self.fit = np.linalg.pinv(self.basis @ self.parabolas)
        self.penalty = _bands(_third_derivatives(self.knots))

    def factor(self, weight: float) -> np.ndarray:
        matrix = self.squares + weight * self.penalty
        return scipy.linalg.cholesky_banded(matrix, lower=True, check_finite=False)

    def solve(self, x: np.ndarray, weight: float) -> np.ndarray:
        """Coefficients for columns of samples.

        Parabolas are free of penalty: taking them off first keeps their digits.
        """
        trend = self.parabolas @ (self.fit @ x)
        right = self.basis.T @ (x - self.basis @ trend)
        factor = (self.factor(weight), True)
        return trend + scipy.linalg.cho_solve_banded(factor, right, check_finite=False)

    def traces(self, weights: np.ndarray) -> np.ndarray:
        """Degrees of freedom: the trace of the matrix from samples to smoothed samples.

        Only the inverse's band is needed, which a recurrence from the last row upwards gives
        from the Cholesky factor (Hutchinson & de Hoog 1985, Numer. Math. 47:99), here for
        all weights at once.
        """
        factors = np.stack([self.factor(weight) for weight in weights])
        pivot = factors[:, 0, :]
        ratio = factors[:, 1:, :] / pivot[:, None, :]
        window = np.zeros((weights.size, _BAND, _BAND))
        total = np.zeros(weights.size)
        for i in range(factors.shape[2] - 1, -1, -1):
            column = ratio[:, :, i]
            beside = -np.einsum("wij,wj->wi", window, column)
            here = pivot[:, i] ** -2.0 - np.sum(column * beside, axis=1)
            total += self.squares[0, i] * here + 2.0 * beside @ self.squares[1:, i]
            window[:, 1:, 1:] = window[:, :-1, :-1].copy()
            window[:, 0, 0] = here
            window[:, 0, 1:] = window[:, 1:, 0] = beside[:, :-1]
        return total


def _knots(breaks: np.ndarray) -> np.ndarray:
    return np.concatenate([[breaks[0]] * _DEGREE, breaks, [breaks[-1]] * _DEGREE])


def _parabolas(knots: np.ndarray) -> np.ndarray:
    """Coefficients of 1, v and v², with v from -1 to 1: their polar forms at the knots."""
    v = 2.0 * (knots - knots[0]) / (knots[-1] - knots[0]) - 1.0
    inner = np.lib.stride_tricks.sliding_window_view(v[1:-1], _DEGREE)
    total = inner.sum(axis=1)
    pairs = 0.5 * (total**2 - (inner**2).sum(axis=1))
    return np.stack([np.ones_like(total), total / 5, pairs / 10], axis=1)


def _third_derivatives(knots: np.ndarray) -> Any:
    """∫ B_i''' B_j''' of quintic B-splines, exact; sparse."""
    count = knots.size - _DEGREE - 1
    slopes: Any = scipy.sparse.identity(count, format="csr")
    inner = knots
    for degree in (5, 4, 3):
        size = slopes.shape[0] - 1
        span = inner[degree + 1 : degree + 1 + size] - inner[1 : 1 + size]
        scale = scipy.sparse.diags(degree / span)
        one = scipy.sparse.eye_array(size, size + 1)
        shift = scipy.sparse.eye_array(size, size + 1, k=1) - one
        slopes = scale @ shift @ slopes
        inner = inner[1:-1]
    # The third derivatives are quadratics between knots: three points integrate squares.
    points, weights = np.polynomial.legendre.leggauss(3)
    breaks = knots[_DEGREE:-_DEGREE]
    half, middle = 0.5 * np.diff(breaks), 0.5 * (breaks[1:] + breaks[:-1])
    at = (middle[:, None] + half[:, None] * points[None, :]).ravel()
    weight = (half[:, None] * weights[None, :]).ravel()
    quadratics = BSpline.design_matrix(at, inner, _DEGREE - 3)
    third = quadratics @ slopes
    return third.T @ scipy.sparse.diags(weight) @ third


def _bands(matrix: Any) -> np.ndarray:
    """The lower band of a symmetric matrix, as LAPACK holds it."""
    size = matrix.shape[0]
    bands = np.zeros((_BAND + 1, size))
    for k in range(_BAND + 1):
        bands[k, : size - k] = matrix.diagonal(-k)
    return bands
