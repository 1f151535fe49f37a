"""One run of a batch: what it is given, how it begins, what becomes of it."""

import inspect
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..model import Model
from ..muscles import HillState
from ..muscles._forces import hill_muscles
from ..simulation import Solution
from ..simulation._core import conclude
from ..simulation._course import Course
from ..simulation._feedback import AbstractFeedback
from ..simulation._loops import failing_softly
from ..simulation._methods import with_controller_tolerances
from ..simulation._muscles import Drive, as_drive, start_of_muscles
from ..simulation._options import Options
from ..simulation._rates import Args, rates
from ..simulation._start import Prepared, event_of, method, prepare
from ._lanes import Method, State, Task, first_state
from ._watch import locate


class Run(eqx.Module):
    """Arguments of `simulate` that may differ between runs.

    Of one run, of many with a leading axis, or booleans and None in their places.
    """

    model: Any
    q0: Any
    qd0: Any
    ts: Any
    tau: Any
    excitation: Any
    muscle_state: Any
    parameters: Any


class Bound(eqx.Module):
    """A function of (t, q, qd, ..., parameters) with one run's parameters."""

    function: Callable
    parameters: Any

    def __call__(self, t: Any, q: Array, qd: Array, *more: Any) -> Array:
        return self.function(t, q, qd, *more, self.parameters)


def state_size(model: Model, excited: bool) -> int:
    """Numbers in the state of a run: coordinates, rates, and what the muscles add."""
    if not excited:
        return 2 * model.nq
    muscles = hill_muscles(model)
    kinds = [muscles.activation_dynamics is not None, muscles.tendon == "elastic"]
    return 2 * model.nq + model.nm * sum(kinds)


class Begun(eqx.Module):
    """A run before its first step."""

    ready: Prepared
    muscles: HillState | None
    state: State


def begin(run: Run, options: Options) -> Begun:
    """Balance the muscles, look at the start, choose the first step."""
    tau, drive = _tau(run), drive_of(run)
    muscles = start_of_muscles(run.model, run.muscle_state, drive, run.q0, run.qd0)
    t0 = run.ts[0]
    ready = prepare(run.model, run.q0, run.qd0, run.ts, tau, drive, muscles, options)
    task = task_of(run, options, ready, muscles)
    _, _, dt0 = method(options, ready, t0, run.ts[-1])
    return Begun(ready, muscles, first_state(task, rates, ready.y0, ready.slope, dt0))


def task_of(run: Run, options: Options, ready: Prepared, muscles: HillState | None) -> Task:
    """What the steps need."""
    soft = failing_softly(run.model)
    args = Args(soft, _tau(run), drive_of(run), muscles, ready.good)
    solver, controller, _ = method(options, ready, run.ts[0], run.ts[-1])
    solver = with_controller_tolerances(solver, controller)
    event = event_of(options, run.ts.dtype)
    return Task(args, run.ts, Method(solver, controller, event, options.max_steps))


def end(run: Run, options: Options, begun: Begun, state: State, rows: Array) -> Solution:
    """The solution of a run from its last state and its saved rows."""
    task = task_of(run, options, begun.ready, begun.muscles)
    t, y, result = state.t, state.y, state.result
    out_of_steps = diffrax.is_successful(result) & (t < run.ts[-1])
    result = diffrax.RESULTS.where(out_of_steps, diffrax.RESULTS.max_steps_reached, result)
    saved = jnp.arange(run.ts.shape[0]) < state.row
    event, mask = task.method.event, None
    if event is not None and state.watch is not None:
        mask = state.watch.fired
        if event.root_finder is not None:
            t, y, verdict = locate(event, task.method.solver, state.watch, t, y, task.args)
            stopped = result == diffrax.RESULTS.event_occurred
            result = diffrax.RESULTS.where(stopped, verdict, result)
            saved &= run.ts <= t
    course = Course(
        times=jnp.where(saved, run.ts, jnp.inf),
        states=jnp.where(saved[:, None], rows, jnp.inf),
        t_final=t,
        y_final=y,
        result=result,
        stats={
            "max_steps": options.max_steps,
            "num_accepted_steps": state.accepted,
            "num_rejected_steps": state.steps - state.accepted,
            "num_steps": state.steps,
        },
        event_mask=mask,
        interpolation=None,
    )
    drive = drive_of(run)
    return conclude(run.model, run.ts, drive, begun.muscles, options, begun.ready, course)


def _tau(run: Run) -> Any:
    if run.parameters is None or not callable(run.tau) or isinstance(run.tau, AbstractFeedback):
        return run.tau
    return Bound(run.tau, run.parameters) if arity(run.tau, (3, 4)) == 4 else run.tau


def drive_of(run: Run) -> Drive | None:
    """What excites the muscles of a run, with its own parameters."""
    if run.parameters is None or not callable(run.excitation):
        return as_drive(run.excitation, run.model)
    count = arity(run.excitation, (3, 4, 5))
    bound = run.excitation if count == 3 else Bound(run.excitation, run.parameters)
    as_drive(bound, run.model)  # the model must have muscles
    return Drive(bound, count == 5)


def arity(function: Any, counts: tuple[int, ...]) -> int:
    """The largest of some numbers of arguments that a function takes."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return counts[-1]
    for count in reversed(counts):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise ValueError(
        f"a function of the batch takes the arguments {signature}; give one of (t, q, qd, "
        "parameters), or for excitations that see the muscles (t, q, qd, muscles, parameters)"
    )
