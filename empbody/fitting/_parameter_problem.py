"""Free parameters of a model as a least-squares problem, and the ways through it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from jaxtyping import Array, Float

from ._measurements import AbstractMeasurement
from ._selection import Selection
from ._solvers import Report, descend, named_optimiser


class ParameterProblem(eqx.Module):
    """Residuals or a loss as a function of the unbounded vector z of free parameters."""

    selection: Selection
    data: tuple[Any, ...]
    scalar: bool = eqx.field(static=True)

    def parts(self, z: Float[Array, " p"], forward: bool) -> list[Array]:
        model = self.selection.put(z)
        return [
            d.residuals(model, forward) if isinstance(d, AbstractMeasurement) else d(model)
            for d in self.data
        ]

    def vector(self, z: Float[Array, " p"], forward: bool = True) -> Float[Array, " m"]:
        return jnp.concatenate([part.ravel() for part in self.parts(z, forward)])

    def value(self, z: Float[Array, " p"]) -> Float[Array, ""]:
        """What is minimised: the loss, or half the sum of squares."""
        if self.scalar:
            return self.parts(z, forward=False)[0]
        return 0.5 * jnp.sum(self.vector(z, forward=False) ** 2)


class FoundParameters(NamedTuple):
    z: Array
    history: list[float]
    converged: bool
    steps: int


def make_parameter_problem(selection: Selection, data: Any) -> ParameterProblem:
    parts = tuple(data) if isinstance(data, Sequence) else (data,)
    if not parts:
        raise ValueError("there are no data to fit to")
    for part in parts:
        if not (isinstance(part, AbstractMeasurement) or callable(part)):
            raise TypeError(
                f"data of type {type(part).__name__}; a measurement such as MeasuredMotion, or a "
                "function of the model, is expected"
            )
    problem = ParameterProblem(selection, parts, False)
    shapes = eqx.filter_eval_shape(lambda p, z: p.parts(z, False), problem, selection.vector())
    scalars = [shape.ndim == 0 for shape in shapes]
    if any(scalars) and len(parts) > 1:
        raise ValueError("a scalar loss cannot stand beside other data; return residuals from it")
    count = sum(int(np.prod(shape.shape)) for shape in shapes)
    if not scalars[0] and count < selection.size:
        raise ValueError(
            f"{count} residuals for {selection.size} free numbers; free fewer, or measure more"
        )
    return ParameterProblem(selection, parts, scalars[0])


@eqx.filter_jit
def loss_at(problem: ParameterProblem, z: Array) -> Array:
    return problem.value(z)


@eqx.filter_jit
def linearised(problem: ParameterProblem, z: Array) -> tuple[Array, Array, Array]:
    """Residuals, their derivative to z, and that of all parameters to z."""

    def flat(z: Array) -> Array:
        return jnp.concatenate([v.ravel() for v in problem.selection.values(z).values()])

    return problem.vector(z), jax.jacfwd(problem.vector)(z), jax.jacfwd(flat)(z)


def _refuse(problem: ParameterProblem, z: Array) -> None:
    """Say what is not finite at the start."""
    parts = eqx.filter_jit(lambda p, z: p.parts(z, False))(problem, z)
    if problem.scalar:
        raise ValueError(f"the loss is {float(parts[0])} at the start: check the start values")
    for number, (part, kind) in enumerate(zip(parts, problem.data, strict=True)):
        bad = ~np.isfinite(np.asarray(part))
        if not bad.any():
            continue
        what = type(kind).__name__ if isinstance(kind, AbstractMeasurement) else "the function"
        rows = np.unique(np.argwhere(bad)[:, 0])
        shown = ", ".join(map(str, rows[:6])) + (" ..." if len(rows) > 6 else "")
        raise ValueError(
            f"data {number} ({what}): {int(bad.sum())} of {bad.size} residuals are not finite at "
            f"the start, in rows (from 0) {shown}; check the start values"
            + (" or the simulation from there" if what == "MeasuredMotion" else "")
        )
    raise ValueError("the derivatives at the start are not finite; check the start values")


def marquardt(
    problem: ParameterProblem, z0: Array, tolerance: float, steps: int, progress: Report | None
) -> FoundParameters:
    """Levenberg-Marquardt step by step, so that progress can be told."""
    z, state = z0, _init(problem, z0, tolerance)
    history, done = [], False
    while len(history) <= steps and not done:
        z, state, loss, done, well = _step(problem, z, state, tolerance)
        history.append(float(loss))
        if not np.isfinite(history[0]):
            _refuse(problem, z0)
        if progress is not None:
            progress(len(history) - 1, steps)
        done = bool(done) or history[-1] == 0.0
        if not well:
            break
    return FoundParameters(z, history, done, len(history) - 1)


def _start_state(problem: ParameterProblem, z: Array, tolerance: Any) -> tuple[Any, Any, Any]:
    """Solver, residuals for it, and its state before the first step."""
    solver = optx.LevenbergMarquardt(rtol=tolerance, atol=tolerance)
    arrays, rest = eqx.partition(problem, eqx.is_array)

    def residuals(z: Array, arrays: Any) -> tuple[Array, None]:
        return eqx.combine(arrays, rest).vector(z), None

    shape = eqx.filter_eval_shape(residuals, z, arrays)[0]
    state = solver.init(residuals, z, arrays, {}, shape, None, frozenset())
    return solver, residuals, state


@eqx.filter_jit
def _init(problem: ParameterProblem, z: Array, tolerance: Any) -> Any:
    return eqx.filter(_start_state(problem, z, tolerance)[2], eqx.is_array)


@eqx.filter_jit
def _step(problem: ParameterProblem, z: Array, state: Any, tolerance: Any) -> tuple[Any, ...]:
    # What is no array in the state (programs of derivatives) is made anew, so that it never
    # crosses the border of the compiled function, which serves the next fit as well.
    solver, residuals, fresh = _start_state(problem, z, tolerance)
    whole = eqx.combine(state, eqx.filter(fresh, eqx.is_array, inverse=True))
    arrays = eqx.filter(problem, eqx.is_array)
    z, whole, _ = solver.step(residuals, z, arrays, {}, whole, frozenset())
    loss = 0.5 * jnp.sum(whole.f_info.residual**2)
    well = whole.result == optx.RESULTS.successful
    return z, eqx.filter(whole, eqx.is_array), loss, whole.terminate, well


def descend_parameters(
    problem: ParameterProblem,
    z0: Array,
    solver: Any,
    rate: float | None,
    steps: int,
    patience: int,
    tolerance: float,
    progress: Report | None,
) -> FoundParameters:
    if not np.isfinite(float(loss_at(problem, z0))):
        _refuse(problem, z0)
    found = descend(
        problem,
        z0,
        named_optimiser(solver, rate),
        steps=steps,
        patience=patience,
        tolerance=tolerance,
        progress=progress,
    )
    return FoundParameters(found.z, list(found.history), found.converged, found.steps)
