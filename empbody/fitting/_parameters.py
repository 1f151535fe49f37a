"""`fit_parameters`: any numbers of a model, fitted to what was measured."""

import time
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jaxtyping import Array, Float

from ._parameter_problem import (
    ParameterProblem,
    descend_parameters,
    linearised,
    make_parameter_problem,
    marquardt,
)
from ._selection import Selection
from ._solvers import Report

_SINGULAR = 1e-7
"""Ratio of singular values of the scaled Jacobian below which data leave a combination open."""
_SOLVERS = {"lm": "Levenberg-Marquardt", "lbfgs": "L-BFGS", "adam": "Adam"}


class ParameterFit(eqx.Module):
    """A model with fitted parameters."""

    model: Any
    values: dict[str, Array]
    """The parameters by name, in the model's units."""
    errors: dict[str, Array] | None
    """Standard errors of the same, from the Gauss-Newton Hessian; None for a scalar loss."""
    covariance: Float[Array, "v v"] | None
    """Of all numbers of `values`, in the order of `labels`."""
    labels: tuple[str, ...] = eqx.field(static=True)
    loss: float = eqx.field(static=True)
    """Half the sum of squares, or the user's loss."""
    sigma: float = eqx.field(static=True)
    """Standard deviation of the residuals: in units of the sigmas given with the data."""
    history: tuple[float, ...] = eqx.field(static=True)
    """Best loss after each step; the first is that of the start."""
    solver: str = eqx.field(static=True)
    converged: bool = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    seconds: float = eqx.field(static=True)
    freedom: int = eqx.field(static=True)
    """Residuals less parameters."""
    notes: tuple[str, ...] = eqx.field(static=True)
    _problem: ParameterProblem
    _z: Float[Array, " p"]

    def interval(self, name: str, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper bound of a parameter (Student's t)."""
        if self.errors is None:
            raise ValueError("a fit to a scalar loss has no standard errors; return residuals")
        if not 0 < level < 1:
            raise ValueError(f"level = {level}; between 0 and 1 is expected")
        half = float(scipy.stats.t.ppf(0.5 + level / 2, max(self.freedom, 1))) * self.errors[name]
        return self.values[name] - half, self.values[name] + half

    def __str__(self) -> str:
        state = "converged" if self.converged else "not converged"
        lines = [f"{self.solver}: {state} after {self.steps} steps, loss {self.loss:.6g}"]
        for name, value in self.values.items():
            shown = np.array2string(np.asarray(value), precision=6)
            if self.errors is not None:
                shown += f" ± {np.array2string(np.asarray(self.errors[name]), precision=2)}"
            lines.append(f"  {name}: {shown}")
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])


def fit_parameters(
    model: Any,
    where: Any,
    data: Any,
    *,
    transforms: Any = None,
    solver: Any = "auto",
    rate: float | None = None,
    steps: int | None = None,
    tolerance: float = 1e-10,
    patience: int = 100,
    unidentified: str = "raise",
    progress: Report | None = None,
) -> ParameterFit:
    """Fit numbers of a model to measurements: lengths, axes, inertias, muscle parameters.

    **Arguments:**

    - `model`: where to start from; any tree of arrays, such as a `Model`.
    - `where`: picks what is free, as `eqx.tree_at` does: a function of the model that returns
      an array or several, `lambda m: (m.mass, m.com)`, or one indexed part of each,
      `m.translation[1, 1]`; or a dict of such functions by name.
    - `data`: `fitting.MeasuredMotion`, `MeasuredTorques`, `MeasuredMomentArms`,
      `MeasuredLengths`, `MeasuredMuscleTorques`, several of these in a list (give each its
      `sigma`); or a function of the model that returns residuals, or one number to be
      minimised.
    - `transforms`: keeps parameters what they are: "positive", "unit", "inertia" (moments of
      a body that can exist), "positive_definite", "free", or bounds (low, high); one for all,
      a list, or by name. Default: masses and muscle parameters are positive, joint axes unit
      vectors, inertias those of bodies, all else is free.
    - `solver`: "lm" (Levenberg-Marquardt by Optimistix; needs residuals; default for these),
      or an optimiser of Optax by name ("lbfgs", default for a scalar loss; "adam") or itself,
      with `rate` (step size) and `patience` (steps without gain after which it stops).
    - `tolerance`: of the steps and residuals, relative and absolute.
    - `unidentified`: "raise" if the data leave a combination of parameters open, or "note".
    - `progress`: called with steps done and the most that there can be.

    **Raises:** ValueError where nothing is free, a start is outside its bounds, the residuals
    at the start are not finite, or the data do not determine the parameters; the message
    names what is meant.
    """
    begin = time.perf_counter()
    if unidentified not in ("raise", "note"):
        raise ValueError(f'unidentified = "{unidentified}"; "raise" or "note" is expected')
    selection = Selection(model, where, transforms)
    problem = make_parameter_problem(selection, data)
    z0 = selection.vector()
    tolerance = max(tolerance, 20 * float(jnp.finfo(z0.dtype).eps))
    if problem.scalar and solver == "lm":
        raise ValueError('solver = "lm" needs residuals; a scalar loss takes "lbfgs" or "adam"')
    chosen = ("lbfgs" if problem.scalar else "lm") if solver == "auto" else solver
    if chosen == "lm":
        found = marquardt(problem, z0, tolerance, steps or 200, progress)
    else:
        found = descend_parameters(
            problem, z0, chosen, rate, steps or 5000, patience, tolerance, progress
        )
    notes = () if found.converged else (f"stopped after {found.steps} steps, not converged",)
    errors = covariance = None
    loss, sigma, freedom = found.history[-1], np.nan, 0
    if not problem.scalar:
        residual, slope, jacobian = (
            np.asarray(x, dtype=np.float64) for x in linearised(problem, found.z)
        )
        loss = 0.5 * float(np.sum(residual**2))
        if not np.isfinite(slope).all():
            raise ValueError("derivatives are not finite at the fit; start elsewhere or use bounds")
        used = int((np.any(slope != 0.0, axis=1) | (residual != 0.0)).sum())
        freedom = used - selection.size
        limit = max(_SINGULAR, 100 * float(jnp.finfo(z0.dtype).eps))
        scaled = slope * selection.relative(found.z)[None, :]
        open_ = open_combinations(scaled, selection.directions(), limit)
        if open_:
            message = (
                f"the data do not determine {' nor '.join(open_)}: fix one of these parameters, or "
                "measure something that depends on them differently"
            )
            if unidentified == "raise":
                raise ValueError(message)
            notes += (message,)
        sigma = float(np.sqrt(np.sum(residual**2) / max(freedom, 1)))
        covariance = jnp.asarray(_covariance(slope, jacobian) * sigma**2, dtype=float)
        if freedom < 1:
            notes += (f"{used} residuals for {selection.size} numbers: no error can be told",)
        errors = _by_name(selection, jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), 0.0)))
    return ParameterFit(
        model=selection.put(found.z),
        values=selection.values(found.z),
        errors=errors,
        covariance=covariance,
        labels=selection.labels(),
        loss=loss,
        sigma=sigma,
        history=tuple(found.history),
        solver=_SOLVERS.get(chosen, chosen) if isinstance(chosen, str) else "Optax",
        converged=found.converged,
        steps=found.steps,
        seconds=time.perf_counter() - begin,
        freedom=freedom,
        notes=notes,
        _problem=problem,
        _z=found.z,
    )


def open_combinations(
    slope: Float[np.ndarray, "m p"], names: Sequence[str], limit: float = _SINGULAR
) -> list[str]:
    """Combinations of parameters that change no residual, in words; none if all is well."""
    size = np.linalg.norm(slope, axis=0)
    largest = size.max()
    still = size <= limit * largest if largest > 0 else np.ones(len(size), dtype=bool)
    words = [names[k] for k in np.flatnonzero(still).tolist()]
    moving = np.flatnonzero(~still).tolist()
    if not moving:
        return words
    _, singular, vectors = np.linalg.svd(slope[:, moving] / size[moving], full_matrices=False)
    for value, vector in zip(singular, vectors, strict=True):
        if value > limit * singular[0]:
            continue
        vector = vector / size[moving]
        vector = vector / vector[np.argmax(np.abs(vector))]
        terms = [(x, names[k]) for x, k in zip(vector, moving, strict=True) if abs(x) > 0.01]
        shown = " ".join(f"{'-' if x < 0 else '+'} {abs(x):.2g} {name}" for x, name in terms)
        words.append(f"the combination {shown.lstrip('+ ')} (relative changes)")
    return words


def _covariance(slope: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """Of the parameters for unit residuals; directions that are open get zero."""
    size = np.linalg.norm(slope, axis=0)
    size = np.where(size > 0, size, 1.0)
    _, singular, vectors = np.linalg.svd(slope / size, full_matrices=False)
    kept = singular > _SINGULAR * singular.max(initial=0.0)
    half = (vectors[kept] / singular[kept][:, None] / size[None, :]) @ jacobian.T
    return half.T @ half


def _by_name(selection: Selection, flat: Array) -> dict[str, Array]:
    found, place = {}, 0
    for piece in selection.pieces:
        count = int(np.prod(piece.start.shape))
        found[piece.name] = flat[place : place + count].reshape(piece.start.shape)
        place += count
    return found
