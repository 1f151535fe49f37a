"""What a simulation is to do besides its problem, checked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import diffrax
import equinox as eqx
from jaxtyping import Array, Float

from ..model import Model
from ..solvers import SOLVERS, by_name
from . import _inputs
from ._events import AbstractEvent, as_events
from ._methods import ADJOINTS, progress_meter
from ._solution import closure_errors, energies

MONITORS = {"energy": energies, "closure": lambda model, q, qd: closure_errors(model, q)}


class Options(eqx.Module):
    """Everything but the problem: numbers are arrays, the rest decides what is compiled."""

    solver: diffrax.AbstractSolver
    adjoint: diffrax.AbstractAdjoint
    events: tuple[AbstractEvent, ...]
    monitors: tuple[tuple[str, str | Callable], ...]
    meter: diffrax.AbstractProgressMeter
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    dt0: Float[Array, ""] | None
    fixed_step: Float[Array, "..."] | None
    max_step: Float[Array, ""] | None
    max_steps: int = eqx.field(static=True)
    dense: bool = eqx.field(static=True)
    find_root: bool = eqx.field(static=True)


def as_options(
    model: Model,
    ts: Float[Array, " nt"],
    *,
    solver: str | diffrax.AbstractSolver = "tsit5",
    adjoint: str | diffrax.AbstractAdjoint = "checkpoint",
    event: Any = None,
    monitors: Sequence[str] | Mapping[str, str | Callable] = (),
    progress: Any = False,
    rtol: Any = 1e-8,
    atol: Any = 1e-8,
    dt0: Any = None,
    fixed_step: Any = None,
    max_step: Any = None,
    max_steps: int = 16384,
    dense: bool = False,
    find_root: bool = True,
) -> Options:
    """The arguments of `simulate`, checked."""
    options = Options(
        solver=by_name("solver", solver, SOLVERS),
        adjoint=by_name("adjoint", adjoint, ADJOINTS),
        events=as_events(event, model),
        monitors=_monitors(monitors),
        meter=progress_meter(progress),
        rtol=_inputs.tolerance("rtol", rtol),
        atol=_inputs.tolerance("atol", atol),
        dt0=None if dt0 is None else _inputs.tolerance("dt0", dt0),
        fixed_step=None if fixed_step is None else _inputs.step_times(fixed_step, ts),
        max_step=None if max_step is None else _inputs.tolerance("max_step", max_step),
        max_steps=_step_count(max_steps),
        dense=dense,
        find_root=find_root,
    )
    if fixed_step is None:
        _inputs.precision(options.rtol)
    _check_adjoint(options)
    return options


def _monitors(
    monitors: Sequence[str] | Mapping[str, str | Callable],
) -> tuple[tuple[str, str | Callable], ...]:
    if isinstance(monitors, str):
        monitors = (monitors,)
    pairs = (
        monitors.items() if isinstance(monitors, Mapping) else zip(monitors, monitors, strict=True)
    )
    chosen = tuple(pairs)
    for _, what in chosen:
        if isinstance(what, str) and what not in MONITORS:
            raise ValueError(
                f"there is no monitor {what!r}; choose from {sorted(MONITORS)} or give functions "
                "of (t, q, qd) by name"
            )
    return chosen


def _step_count(max_steps: int) -> int:
    if max_steps < 1:
        raise ValueError(f"max_steps = {max_steps}: at least one step is needed")
    return int(max_steps)


def _check_adjoint(options: Options) -> None:
    if isinstance(options.adjoint, diffrax.BacksolveAdjoint) and (options.events or options.dense):
        raise ValueError(
            'adjoint="backsolve" works without events and dense output; use "checkpoint"'
        )
