"""`empbody simulate`: forward simulation of a model, with or without its muscles."""

import argparse
import contextlib
import math
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..io import Table, read_table
from ..io._matching import match
from ..model import Model
from ..pipeline import rotational
from ..simulation import CoordinateLimit, SimulationError, Solution, simulate
from ..simulation._methods import is_implicit
from ..solvers import SOLVERS
from ._errors import FAILURE, CommandError
from ._excitations import given_excitation
from ._models import (
    finish,
    in_si,
    load_model,
    pose,
    readable,
    save_table,
    shown_pose,
    writable,
)
from ._muscle_start import state_in, steps_per_second, with_rigid_tendons
from ._progress import Progress

_MANY_STEPS = 5000


def run(arguments: argparse.Namespace) -> int:
    out = writable(arguments.out, ".sto", ".mot", ".csv")
    for name, least in (("duration", 0.0), ("rate", 0.0), ("rtol", 0.0), ("max_steps", 0)):
        value = getattr(arguments, name)
        if not (math.isfinite(value) and value > least):
            raise CommandError(f"--{name.replace('_', '-')} {value:g} must be positive")
    if arguments.time is not None and arguments.states is None:
        raise CommandError("--time says which row of --states, but there is no --states")
    progress = Progress(quiet=arguments.quiet)
    model = load_model(arguments, progress)
    start, q0, qd0, row = _start(model, arguments)
    excitation, clipped = given_excitation(model, arguments)
    muscles = None
    if excitation is not None and arguments.tendons == "rigid":
        model = with_rigid_tendons(model)
    if excitation is not None and row is not None:
        muscles = state_in(model, *row, q0, qd0)
    model, events, notes = _limits(model, arguments, q0)
    notes += clipped
    if excitation is not None:
        notes += _stiffness(model, arguments, q0, qd0, excitation, start)
    rows = max(2, round(arguments.duration * arguments.rate) + 1)
    times = start + np.linspace(0.0, arguments.duration, rows)
    with progress.stage(f"simulating {arguments.duration:g} s"), _advising(model, arguments):
        solution = simulate(
            model,
            q0,
            qd0,
            times,
            excitation=excitation,
            muscle_state=muscles,
            solver=arguments.solver,
            rtol=arguments.rtol,
            atol=arguments.rtol,
            max_steps=arguments.max_steps,
            event=events or None,
            progress=progress.bar,
        )
    reached = np.asarray(solution.reached)
    end = float(solution.t_final)
    stopped = _stop(solution, events)
    if stopped:
        notes.append(f"stopped at {end:.6g} s: {stopped} reached the end of its range")
    table = _table(model, solution, reached)
    save_table(out, table)
    last = np.asarray(solution.q_final)
    summary = {
        "out": str(out),
        "rows": int(reached.sum()),
        "time_s": [float(times[0]), end],
        "start": shown_pose(model, q0),
        "end": shown_pose(model, last),
        "stopped_by": stopped,
        "muscles": excitation is not None,
        "tendons": None if excitation is None else model.muscles.tendon,  # pyright: ignore
        "solver": arguments.solver,
        "rtol": arguments.rtol,
        "steps": int(solution.stats["num_accepted_steps"]),
        "notes": notes,
    }
    width = max(len(name) for name in summary["start"])
    lines = [f"from {times[0]:g} to {end:.6g} s in {summary['steps']} steps"]
    lines += [
        f"  {name:<{width}}  {a:12.6g} -> {b:12.6g}"
        for (name, a), b in zip(summary["start"].items(), summary["end"].values(), strict=True)
    ]
    lines += [f"note: {note}" for note in notes] + [f"{summary['rows']} rows in {out}"]
    return finish(arguments, "simulate", progress, summary, lines)


def _start(
    model: Model, arguments: argparse.Namespace
) -> tuple[float, np.ndarray, np.ndarray, tuple[Table, int] | None]:
    """Time, coordinates and speeds at the start, and the row that they come from."""
    q, qd, time, source = pose(model, arguments, ()), np.zeros(model.nq), 0.0, None
    if arguments.states is not None:
        table = read_table(readable(arguments.states))
        if not table.time.size:
            raise CommandError(f"{arguments.states} has no rows")
        row = 0 if arguments.time is None else int(np.argmin(np.abs(table.time - arguments.time)))
        time, source = float(table.time[row]), (table, row)
        columns = match(table.labels, model.coordinate_names)
        turns = rotational(model)
        for k in range(model.nq):
            scale = np.pi / 180 if table.in_degrees and turns[k] else 1.0
            for column, vector in ((columns.values[k], q), (columns.speeds[k], qd)):
                if column >= 0:
                    vector[k] = table.data[row, column] * scale
        if all(column < 0 for column in columns.values):
            raise CommandError(f"{arguments.states} has no column for any coordinate of the model")
    for name, value in in_si(model, arguments, "--at", arguments.at).items():
        q[model.coordinate_index(name)] = value
    for name, value in in_si(model, arguments, "--speed", arguments.speed).items():
        qd[model.coordinate_index(name)] = value
    if not np.all(np.isfinite(np.concatenate([q, qd]))):
        raise CommandError(f"the start in {arguments.states} is not a number throughout")
    return time, q, qd, source


_REMEDY = "--tendons rigid needs few, more excitation or --solver kvaerno5 fewer"


@contextlib.contextmanager
def _advising(model: Model, arguments: argparse.Namespace) -> Iterator[None]:
    """Say what helps where elastic tendons have eaten up the steps."""
    try:
        yield
    except SimulationError as error:
        stiff = getattr(model.muscles, "tendon", "rigid") == "elastic"
        muscles = arguments.excite or arguments.excitations is not None
        if "ran out of" not in str(error) or not (stiff and muscles):
            raise
        if is_implicit(SOLVERS[arguments.solver]):
            raise
        words = "fibres on elastic tendons take many steps at low activation"
        raise CommandError(f"{error}; {words}: {_REMEDY}", FAILURE) from error


def _stiffness(
    model: Model,
    arguments: argparse.Namespace,
    q: np.ndarray,
    qd: np.ndarray,
    excitation: Any,
    start: float,
) -> list[str]:
    """A note where elastic tendons take very short steps; refuses what would not come to an
    end."""
    if is_implicit(SOLVERS[arguments.solver]):
        return []
    level = excitation(start, q, qd) if callable(excitation) else excitation
    rate, name = steps_per_second(model, q, np.asarray(level))
    count = rate * arguments.duration
    if count < min(_MANY_STEPS, arguments.max_steps):
        return []
    words = (
        f"the fibres of {name} on an elastic tendon at this excitation need about {count:.1g} "
        f"steps for {arguments.duration:g} s"
    )
    if count > 2 * arguments.max_steps:
        raise CommandError(f"{words}, with --max-steps {arguments.max_steps}; {_REMEDY}")
    return [f"{words}; {_REMEDY}"]


def _limits(
    model: Model, arguments: argparse.Namespace, q0: np.ndarray
) -> tuple[Model, list[CoordinateLimit], list[str]]:
    """The model, what stops it, and notes about the start."""
    low, high = np.asarray(model.lower), np.asarray(model.upper)
    bounded = np.isfinite(low) | np.isfinite(high)
    if arguments.no_limits:
        nowhere = jnp.full(model.nq, jnp.inf)
        free = eqx.tree_at(lambda m: (m.lower, m.upper), model, (-nowhere, nowhere))
        return free, [], []
    outside = np.flatnonzero((q0 < low) | (q0 > high))
    if outside.size:
        k = int(outside[0])
        shown = shown_pose(model, q0)
        name = list(shown)[k]
        raise CommandError(
            f"the start has {name} = {list(shown.values())[k]:g}, outside the coordinate's range; "
            "choose another with --at, or give --no-limits"
        )
    names = [model.coordinate_names[k] for k in np.flatnonzero(bounded).tolist()]
    return model, [CoordinateLimit(name) for name in names], []


def _stop(solution: Solution, events: list[CoordinateLimit]) -> str | None:
    if solution.events is None:
        return None
    fired = np.flatnonzero(np.asarray(solution.events)).tolist()
    return events[fired[0]].coordinate if fired else None


def _table(model: Model, solution: Solution, reached: np.ndarray) -> Table:
    """All states under OpenSim's names."""
    joints = _joints(model)
    labels, columns = [], []
    for k, name in enumerate(model.coordinate_names):
        labels += [f"{joints[name]}/value", f"{joints[name]}/speed"]
        columns += [solution.q[:, k], solution.qd[:, k]]
    if solution.muscles is not None:
        state = solution.muscle_outputs(model)
        for part, label in ((state.activation, "activation"), (state.fibre_length, "fiber_length")):
            for m, name in enumerate(model.muscle_names):
                labels.append(f"/forceset/{name}/{label}")
                columns.append(part[:, m])
    data = np.stack([np.asarray(column) for column in columns], axis=1)[reached]
    return Table(np.asarray(solution.ts)[reached], tuple(labels), data, name="states")


def _joints(model: Model) -> dict[str, str]:
    """Path of each coordinate in its file."""
    given = model.source.spec.coordinates
    return {name: f"/jointset/{given[name].joint}/{name}" for name in model.coordinate_names}
