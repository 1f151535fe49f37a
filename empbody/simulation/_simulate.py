"""`simulate`: the motion of a model from a start, at the times asked for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np

from ..model import Model
from ..model._checks import is_concrete
from . import _inputs
from ._core import solve
from ._errors import SimulationError
from ._explain import explain
from ._feedback import AbstractFeedback
from ._muscles import as_drive, start_of_muscles
from ._options import as_options
from ._solution import Solution
from ._wrong_drive import warn_of_percent


def simulate(
    model: Model,
    q0: Any,
    qd0: Any,
    ts: Any,
    *,
    tau: Any = None,
    excitation: Any = None,
    muscle_state: Any = None,
    solver: str | diffrax.AbstractSolver = "tsit5",
    rtol: Any = 1e-8,
    atol: Any = 1e-8,
    dt0: Any = None,
    fixed_step: Any = None,
    max_step: Any = None,
    max_steps: int = 16384,
    dense: bool = False,
    event: Any = None,
    find_root: bool = True,
    adjoint: str | diffrax.AbstractAdjoint = "checkpoint",
    monitors: Sequence[str] | Mapping[str, str | Callable] = (),
    progress: Any = False,
    throw: bool = True,
) -> Solution:
    """Integrate M(q) q̈ + N(q, q̇) q̇ = G(q) + R(q) F + τ + force elements (Ehsani 2016, Eq. 198).

    Compiled once for each structure of model and options; new numbers (of the model, q0,
    qd0, ts, tau, tolerances, steps, limits) run what was compiled. Works under jit, vmap
    (over starts, models or both) and grad.

    **Arguments:**

    - `q0`, `qd0`: coordinates and rates at ts[0], shape (nq,); rad or m, and per second.
    - `ts`: times to save at (s), increasing; the first is the start, the last the end.
    - `tau`: generalised forces: none, constant (nq,), or `tau(t, q, qd)` -> (nq,). A Python
      function is compiled in by its identity, so a lambda made anew for each call compiles
      each time; an Equinox module's numbers may change freely.
    - `excitation`: of the muscles, 0 to 1: constant (nm,), `excitation(t, q, qd)` -> (nm,),
      or, for reflexes, `excitation(t, q, qd, muscles)` with their state (`HillState`) as
      well. Without it the model's muscles exert no force at all, not even a passive one.
      Functions are compiled in as those of `tau` are.
    - `muscle_state`: `HillState` at ts[0]; if absent, that of `initial_muscle_state(model,
      q0, qd0)`: least activation, fibres and tendons in balance.
    - `solver`: "tsit5", "dopri5", "dopri8", "rkf45", for stiff systems "kvaerno5" or
      "trbdf2", or a Diffrax solver. Implicit solvers of Diffrax's own are best given
      `empbody.solvers.StageChord` as root finder.
    - `rtol`, `atol`: tolerances per step. With fixed steps only the stages of implicit
      solvers use them. rtol below 1e-6 needs double precision.
    - `dt0`: first step (s); found from the state if absent.
    - `fixed_step`: None for adaptive steps; a step (s); or an array of times to step to,
      from ts[0] to ts[-1].
    - `max_step`: longest adaptive step (s). An event that comes and goes within one step is
      missed.
    - `max_steps`: number of steps, rejected ones included, after which to give up.
    - `dense`: keep what `Solution.evaluate` needs; memory grows with max_steps.
    - `event`: stops the simulation: `CoordinateLimit`, `Crossing`, a function of (t, q, qd)
      that crosses zero or becomes True, or a sequence of these. When several happen
      within one step, the earliest coordinate limit wins, then the first in the list.
    - `find_root`: whether to find the time of a crossing to rounding (on the solver's
      interpolant), or to stop at the end of the step.
    - `adjoint`: "checkpoint" (reverse mode through the steps), "forward" (for jvp and
      jacfwd), "direct" (both, slower; the one for derivatives to ts and fixed steps),
      "backsolve" (backwards in time, approximate; no events or dense output), or a Diffrax
      adjoint.
    - `monitors`: "energy" (J) and "closure" (residual of loop closures), or a mapping from
      names to these or to functions of (t, q, qd); along ts in `Solution.monitors`.
    - `progress`: show a progress bar, or a Diffrax progress meter.
    - `throw`: raise `SimulationError` when the simulation fails. Under jit, vmap or grad
      the numbers are not known yet: the error then comes from within the compiled
      function, names the reason only, and is raised if any sample of a batch fails. With
      `throw=False` see `Solution.status` and `Solution.reached`.

    Implicit rhythms run with on_failure="nan" here, so that steps beyond their range are
    tried again shorter. A saved row outside a coordinate's range in the model, or, where
    muscles are excited, outside the range of a moving point, is a failure; use
    `CoordinateLimit` to stop there.

    **Raises:** `ValueError` for wrong shapes, names and times; `SimulationError` for
    failures and unusable starts, if `throw`.
    """
    start, rate = _inputs.state_vector("q0", q0, model), _inputs.state_vector("qd0", qd0, model)
    when = _inputs.times(ts)
    if isinstance(tau, AbstractFeedback) and excitation is not None:
        raise ValueError(f"a {type(tau).__name__} cannot act beside muscles: leave excitation out")
    if tau is not None and not callable(tau) and not isinstance(tau, AbstractFeedback):
        tau = _inputs.state_vector("tau", tau, model)
    drive = as_drive(excitation, model)
    muscles = start_of_muscles(model, muscle_state, drive, start, rate)
    options = as_options(
        model,
        when,
        solver=solver,
        adjoint=adjoint,
        event=event,
        monitors=monitors,
        progress=progress,
        rtol=rtol,
        atol=atol,
        dt0=dt0,
        fixed_step=fixed_step,
        max_step=max_step,
        max_steps=max_steps,
        dense=dense,
        find_root=find_root,
    )
    solution = solve(model, start, rate, when, tau, drive, muscles, options)
    if not throw:
        return solution
    if not is_concrete((model, start, rate, solution)):
        return _raising(solution)
    if not bool(solution.succeeded):
        why = explain(solution, model, np.asarray(start), np.asarray(rate), options, drive)
        raise SimulationError(why)
    warn_of_percent(model, solution)
    return solution


def _raising(solution: Solution) -> Solution:
    """The same, raising from within the compiled function where it has failed."""

    def states(s: Solution) -> tuple[Any, ...]:
        of_muscles = jax.tree.leaves((s.muscles, s.muscles_final))
        return s.q, s.qd, s.t_final, s.q_final, s.qd_final, *of_muscles

    checked = solution.status.error_if(states(solution), ~solution.succeeded)
    return eqx.tree_at(states, solution, checked)
