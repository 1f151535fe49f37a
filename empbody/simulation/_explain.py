"""One sentence on why a simulation failed, once its numbers are known."""

import diffrax
import jax
import numpy as np

from ..model import Model
from ..paths._report import out_of_range
from ._inputs import why_bad_start
from ._loops import why_open
from ._methods import is_implicit
from ._muscles import Drive
from ._options import Options
from ._solution import Solution
from ._status import SimulationStatus
from ._wrong_drive import why_not_excited


def explain(
    solution: Solution,
    model: Model,
    q0: np.ndarray,
    qd0: np.ndarray,
    options: Options,
    drive: Drive | None = None,
) -> str:
    """The reason, the time, and what to do."""
    status = solution.status
    t, q, qd = float(solution.t_final), np.asarray(solution.q_final), np.asarray(solution.qd_final)
    start, end = float(solution.ts[0]), float(solution.ts[-1])
    if bool(status == SimulationStatus.bad_start):
        first = jax.tree.map(lambda x: x[0], solution.muscles)
        return (
            why_bad_start(model, q0, qd0, options.events, solution.muscles)
            or why_not_excited(model, drive, start, q0, qd0, first)
            or _bad_acceleration(drive)
        )
    if bool(status == SimulationStatus.out_of_steps):
        remedy = "loosen rtol and atol" if options.fixed_step is None else "enlarge fixed_step"
        return (
            f"ran out of {int(solution.stats['max_steps'])} steps at t = {t:.6g} s of "
            f"{end:.6g} s; raise max_steps or {remedy}"
        )
    if bool(status == SimulationStatus.left_range):
        return _where_it_left(solution, model)
    if bool(status == SimulationStatus.step_too_small):
        reason = _ahead(model, q, qd, 1e-9 * (end - start))
        if reason is not None:
            return f"the rhythm failed at t = {t:.6g} s: {reason}"
        reach = 1e-3 * (end - start)
        reason = why_not_excited(model, drive, t, q, qd, solution.muscles_final, reach)
        if reason is not None:
            return reason
        remedy = (
            "" if is_implicit(options.solver) else ', or too stiff for this solver (try "kvaerno5")'
        )
        return (
            f"no step was small enough at t = {t:.6g} s: the motion is singular there, or what "
            f"drives it is not a number{remedy}"
        )
    if bool(status == SimulationStatus.not_finite):
        last = int(np.flatnonzero(np.isfinite(np.asarray(solution.q)).all(axis=1))[-1])
        when = float(solution.ts[last])
        until = float(solution.ts[min(last + 1, solution.ts.shape[0] - 1)])
        q, qd = np.asarray(solution.q[last]), np.asarray(solution.qd[last])
        reason = _ahead(model, q, qd, until - when)
        if reason is not None:
            return f"the rhythm failed after t = {when:.6g} s: {reason}"
        held = jax.tree.map(lambda x: x[last], solution.muscles)
        reason = why_not_excited(model, drive, when, q, qd, held, until - when)
        if reason is not None:
            return reason
        return (
            f"the state became NaN or infinite after t = {when:.6g} s; make fixed_step smaller "
            "or let the step adapt"
        )
    words = " ".join(diffrax.RESULTS[solution.result].split()).rstrip(".")
    return f"the solver failed at t = {t:.6g} s: {words}"


def _bad_acceleration(drive: Drive | None) -> str:
    suspects = "a force element" if drive is None else "a force element or a muscle"
    return (
        "the acceleration at q0 is not finite: is the mass matrix singular there, or "
        f"{suspects} NaN?"
    )


def _where_it_left(solution: Solution, model: Model) -> str:
    low, high = np.asarray(model.lower), np.asarray(model.upper)
    rows = np.vstack([np.asarray(solution.q), np.asarray(solution.q_final)[None]])
    times = np.append(np.asarray(solution.ts), float(solution.t_final))
    excess = np.maximum(low - rows, rows - high)
    left = np.flatnonzero((excess > 1e-9).any(axis=1))
    row = int(left[0]) if left.size else len(rows)
    sooner = None if solution.muscles is None else _where_points_left(model, rows[:row], times)
    if sooner is not None:
        return sooner
    k = int(np.argmax(excess[row]))
    name = model.coordinate_names[k]
    return (
        f"coordinate {name!r} left its range {low[k]:.6g} to {high[k]:.6g} by t = "
        f"{times[row]:.6g} s; stop there with event=CoordinateLimit({name!r}), or widen the range"
    )


def _where_points_left(model: Model, rows: np.ndarray, times: np.ndarray) -> str | None:
    """The muscle whose moving point is out of its range, if any, and since when."""
    for row, t in zip(rows, times, strict=False):
        problems = out_of_range(model, row) if np.isfinite(row).all() else []
        if problems:
            return f"by t = {t:.6g} s a muscle's path is not known any more: {problems[0]}"
    return None


def _ahead(model: Model, q: np.ndarray, qd: np.ndarray, reach: float) -> str | None:
    """Why loops do not close a little further on, up to `reach` seconds."""
    for step in (0.0, *np.geomspace(1e-6 * reach, reach, 7)):
        reason = why_open(model, q + step * qd)
        if reason is not None:
            return reason
    return None
