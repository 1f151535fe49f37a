"""What a fit found, with its uncertainty."""

import time
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ..rhythms import Named
from ._prior import Prior
from ._problem import bending_jacobian, plain_jacobian, unbent
from ._result import FitSummary, RhythmFit
from ._solving import Solved


def assemble(
    solved: Solved,
    weights: np.ndarray,
    prior: Prior | None,
    name: str,
    xs: np.ndarray,
    names: tuple[Sequence[str] | None, Sequence[str] | None],
    smoothness: float,
    begin: float,
) -> RhythmFit:
    problem, found = solved.problem, solved.found
    residuals, slope = (np.asarray(x, np.float64) for x in plain_jacobian(problem, found.z))
    if not np.isfinite(residuals).all():
        raise ValueError("the fit ended in values that are not finite; check data and rhythm")
    rows, columns = residuals.shape
    used = weights > 0
    counts = np.maximum(used.sum(axis=0), 1)
    squares = (weights * residuals**2).sum(axis=0)
    w = np.asarray(problem.weights, dtype=np.float64)
    matrix = np.asarray(problem.map, dtype=np.float64)
    reduced = slope @ matrix
    data = _gram(w, reduced)
    penalty = np.eye(len(data)) if problem.has_prior else np.zeros_like(data)
    if problem.smooth:
        bends = bending_jacobian(unbent(problem), found.z)[1]
        penalty = penalty + float(problem.smoothness) * bends.T @ bends
    inverse = _inverse(data + penalty)
    effective = float(np.trace(inverse @ data))
    if prior is not None:
        noise = np.broadcast_to(np.asarray(prior.noise, dtype=np.float64), (columns,)).copy()
        middle, dof = inverse, np.inf
    else:
        left = np.maximum(counts - effective / columns, 1.0)
        noise = np.sqrt(squares / left)
        scatter = _gram(w * noise[None, :] ** 2, reduced)
        middle, dof = inverse @ scatter @ inverse, float(counts.sum() - effective)
        dof = max(dof, 1.0)
    rms = np.sqrt((used * residuals**2).sum(axis=0) / counts)
    likelihood = float((counts * np.log(np.maximum(squares / counts, 1e-300))).sum())
    freedom = effective + columns
    c = problem.start + problem.map @ found.z
    rhythm = problem.coefficients.rhythm(c)
    ins = None if names[0] is None else tuple(names[0])
    outs = None if names[1] is None else tuple(names[1])
    if ins and outs and not isinstance(rhythm, Named):
        rhythm = Named(rhythm, ins, outs)
    report = FitSummary(
        family=name,
        solver=solved.solver,
        rows=rows,
        parameters=problem.coefficients.size,
        effective=effective,
        rms=rms,
        rms_all=float(np.sqrt((used * residuals**2).sum() / max(used.sum(), 1))),
        aic=likelihood + 2 * freedom,
        bic=likelihood + float(np.log(rows)) * freedom,
        converged=found.converged,
        steps=found.steps,
        seconds=time.perf_counter() - begin,
        notes=solved.notes,
        smoothness=smoothness,
    )
    return RhythmFit(
        rhythm=rhythm,
        coefficients=c,
        covariance=jnp.asarray(matrix @ middle @ matrix.T, dtype=float),
        noise=noise,
        prior=prior,
        report=report,
        labels=problem.coefficients.labels(ins, outs),
        input_names=ins,
        target_names=outs,
        ranges=ranges_of(xs),
        _codec=problem.coefficients,
        _dof=dof,
    )


def ranges_of(xs: np.ndarray) -> tuple[tuple[float, float], ...]:
    return tuple((float(a), float(b)) for a, b in zip(xs.min(axis=0), xs.max(axis=0), strict=True))


def _gram(weights: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Σ w s sᵀ over rows and targets."""
    rows = (np.sqrt(weights)[:, :, None] * slope).reshape(-1, slope.shape[2])
    return rows.T @ rows


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Inverse of a symmetric matrix; directions without any information get zero."""
    scale = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
    try:
        factor = np.linalg.cholesky(matrix / np.outer(scale, scale))
        half = np.linalg.inv(factor) / scale[None, :]
        return half.T @ half
    except np.linalg.LinAlgError:
        return np.linalg.pinv(matrix, hermitian=True)
