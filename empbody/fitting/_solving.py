"""A fit's problem, and the way through it: square loss first, then a robust one."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.spatial.transform
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm, Named, Spline, TensorSpline
from ._checks import as_table
from ._coefficients import Coefficients
from ._prior import Prior
from ._problem import Loss, Problem, box_grid, box_span
from ._solvers import Found, Report, descend, exact, levenberg_marquardt, named_optimiser
from ._targets import AbstractTargets, Angles, Orientations

_TINY = 1e-7


def bare(rhythm: AbstractRhythm) -> AbstractRhythm:
    return rhythm.rhythm if isinstance(rhythm, Named) else rhythm


def euler_angles(targets: Orientations) -> np.ndarray:
    turns = np.asarray(targets.turns).reshape(-1, 3, 3)
    angles = scipy.spatial.transform.Rotation.from_matrix(turns).as_euler(targets.sequence)
    return angles.reshape(targets.shape)


class Options(NamedTuple):
    loss: Loss
    loss_scale: float | None
    solver: Any
    rate: float | None
    steps: int | None
    tolerance: float
    patience: int
    restarts: int
    key: int
    validation: tuple[Any, Any] | None
    progress: Report | None
    name: str
    by_name: bool


class Solved(NamedTuple):
    problem: Problem
    found: Found
    solver: str
    notes: tuple[str, ...]


def make_problem(
    codec: Coefficients,
    aims: AbstractTargets,
    xs: np.ndarray,
    weights: np.ndarray,
    prior: Prior | None,
    smoothness: float,
    free: Any,
) -> Problem:
    """The problem with the square loss."""
    start, matrix = codec.vector(), np.eye(codec.size)
    if prior is not None:
        if free is not None:
            raise ValueError("free and prior together: give the prior spread 0 where nothing moves")
        whole = Coefficients(prior.rhythm)
        if whole.size != codec.size or type(bare(prior.rhythm)) is not type(bare(codec.rest)):
            raise ValueError(
                f"the prior has {whole.size} coefficients of a "
                f"{type(bare(prior.rhythm)).__name__}, the family {codec.size} of a "
                f"{type(bare(codec.rest)).__name__}; fit the population with the same family"
            )
        start, matrix = whole.vector(), prior.factor()
        noise = np.broadcast_to(np.asarray(prior.noise), (aims.shape[1],))
        weights = weights / noise[None, :] ** 2
    return Problem(
        coefficients=codec,
        targets=aims,
        inputs=jnp.asarray(xs, dtype=float),
        weights=jnp.asarray(weights, dtype=float),
        start=start,
        map=jnp.asarray(matrix, dtype=float),
        scale=jnp.asarray(1.0),
        smoothness=jnp.asarray(smoothness * weights.sum() / aims.shape[1], dtype=float),
        grid=jnp.asarray(box_grid(xs), dtype=float),
        span=jnp.asarray(box_span(xs), dtype=float),
        loss="square",
        has_prior=prior is not None,
        smooth=smoothness > 0,
    )


def solve(problem: Problem, options: Options) -> Solved:
    """Square loss first; then, where asked for, the robust one from there."""
    codec, aims, solver = problem.coefficients, problem.targets, options.solver
    linear = codec.linear and isinstance(aims, Angles)
    if solver == "exact" and not (linear and options.loss == "square"):
        raise ValueError(
            f'solver = "exact" needs a family that is linear in its coefficients, targets that '
            f'are joint variables and loss="square"; {options.name} here is not: use "auto"'
        )
    zero = jnp.zeros(problem.map.shape[1], dtype=problem.start.dtype)
    notes: tuple[str, ...] = ()
    if linear and solver in ("auto", "exact", "lm"):
        found, used = exact(problem), "exact"
        if found.undetermined:
            problem, found, notes = _opened(problem, found, options.name)
    else:
        start = _start(problem, options) if isinstance(aims, Orientations) else zero
        found, used = _iterate(problem, options, start)
    if options.loss != "square":
        scale = options.loss_scale
        if scale is None:
            scale = 1.345 * _robust_spread(np.asarray(problem.plain(found.z)), problem.weights)
        problem = dataclasses.replace(
            problem, loss=options.loss, scale=jnp.asarray(scale, dtype=float)
        )
        found, used = _iterate(problem, options, found.z)
    if not found.converged:
        notes += (f"{used} stopped after {found.steps} steps before it converged",)
    return Solved(problem, found, used, notes)


def _opened(problem: Problem, found: Found, name: str) -> tuple[Problem, Found, tuple[str, ...]]:
    """Splines between their data take the smoothest course; other families are refused."""
    rhythm = bare(problem.coefficients.rest)
    count = problem.map.shape[1]
    if problem.smooth or not isinstance(rhythm, Spline | TensorSpline):
        raise ValueError(
            f"the data determine only {count - found.undetermined} of the {count} coefficients of "
            f"{name}; use a smaller family, data that are spread more widely, or a prior"
        )
    level = _TINY * jnp.sum(problem.weights) / problem.weights.shape[1]
    smooth = dataclasses.replace(problem, smooth=True, smoothness=level)
    note = (
        f"the data leave {found.undetermined} of {count} coefficients open; there the spline "
        "takes its smoothest course"
    )
    again = exact(smooth)
    if again.undetermined:
        raise ValueError(
            f"the data determine too little of {name}, even if it is smooth; use a smaller "
            "family, data that are spread more widely, or a prior"
        )
    return smooth, again, (note,)


def _iterate(problem: Problem, options: Options, start: Float[Array, " r"]) -> tuple[Found, str]:
    if options.solver in ("auto", "lm"):
        starts = start[None, :] + _perturbations(problem, options)
        return levenberg_marquardt(
            problem, starts, options.tolerance, options.steps or 500
        ), "Levenberg-Marquardt"
    best: Found | None = None
    watch = None
    if options.validation is not None:
        watch = _watcher(problem, options.validation)
    for shift in _perturbations(problem, options):
        found = descend(
            problem,
            start + shift,
            named_optimiser(options.solver, options.rate),
            steps=options.steps or 5000,
            patience=options.patience,
            tolerance=options.tolerance,
            watch=watch,
            progress=options.progress,
        )
        if best is None or found.value < best.value:
            best = found
    assert best is not None
    return best, options.solver if isinstance(options.solver, str) else "Optax"


class _Validation(eqx.Module):
    """Mean square error on data that early stopping looks at."""

    inputs: Float[Array, "n nq"]
    targets: Float[Array, "n k"]

    def __call__(self, problem: Problem, z: Float[Array, " r"]) -> Float[Array, ""]:
        return jnp.mean((jax.vmap(problem.rhythm(z))(self.inputs) - self.targets) ** 2)


def _watcher(problem: Problem, validation: tuple[Any, Any]) -> _Validation:
    xs, ys = (jnp.asarray(as_table(k, v, None), dtype=float)
              for k, v in zip(("validation inputs", "validation targets"), validation,
                              strict=True))  # fmt: skip
    if not isinstance(problem.targets, Angles):
        raise ValueError("validation for early stopping needs targets that are joint variables")
    return _Validation(xs, ys)


def _perturbations(problem: Problem, options: Options) -> Float[Array, "s r"]:
    """Zero for the first start; normal numbers of the coefficients' own size for others."""
    size = problem.map.shape[1]
    draws = jax.random.normal(
        jax.random.key(options.key + 1), (options.restarts, size), dtype=problem.start.dtype
    )
    unit = jnp.sqrt(jnp.mean(problem.start**2)) if not problem.has_prior else jnp.asarray(1.0)
    return draws.at[0].set(0.0) * jnp.where(unit > 0, unit, 1.0)


def _start(problem: Problem, options: Options) -> Float[Array, " r"]:
    """For orientations: the fit to their Euler angles, where the family is linear."""
    zero = jnp.zeros(problem.map.shape[1], dtype=problem.start.dtype)
    aims = problem.targets
    assert isinstance(aims, Orientations)
    if not (problem.coefficients.linear and options.by_name):
        return zero
    plain = Angles(jnp.asarray(np.unwrap(euler_angles(aims), axis=0), dtype=float))
    return exact(dataclasses.replace(problem, targets=plain)).z


def _robust_spread(residuals: np.ndarray, weights: Array) -> float:
    used = np.abs(residuals[np.asarray(weights) > 0])
    spread = 1.4826 * float(np.median(used))
    return spread if spread > 0 else max(float(used.max()), 1e-12)
