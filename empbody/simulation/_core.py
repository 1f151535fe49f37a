"""The compiled part of a simulation."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..dynamics import forward_dynamics
from ..model import Model
from ..muscles import HillState
from ..muscles._forces import without_muscles
from . import _lean
from ._events import AbstractEvent, CoordinateLimit, StateCondition, fired, grouped
from ._feedback import AbstractFeedback
from ._first_crossing import FirstCrossing
from ._lean_adjoint import integrate
from ._loops import failing_softly
from ._methods import with_stage_tolerances
from ._muscles import Drive, as_state, as_vector, known_range, muscle_rates
from ._solution import Solution, closure_errors, energies
from ._status import judge

_DIRECTIONS = {"up": True, "down": False, None: None}
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


class _Args(eqx.Module):
    model: Model
    tau: Any
    drive: Drive | None
    like: HillState | None
    """What the muscles' part of the state holds."""
    moving: Bool[Array, ""]


@eqx.filter_jit
def _rates(t: Any, y: Array, args: _Args) -> Array:
    """(q̇, q̈, ...) of the state (q, q̇, ...); zero throughout when the start is not usable."""
    nq = args.model.nq
    q, qd = y[:nq], y[nq : 2 * nq]
    tau = args.tau
    if isinstance(tau, AbstractFeedback):
        qdd, _ = tau.respond(args.model, t, q, qd)
        return jnp.where(args.moving, jnp.concatenate([qd, qdd]), 0.0)
    if callable(tau):
        tau = jnp.asarray(tau(t, q, qd), dtype=y.dtype)
        if tau.shape != q.shape:
            raise ValueError(f"tau(t, q, qd) has shape {tau.shape} for {q.shape[0]} coordinates")
    if args.drive is None or args.like is None:
        qdd = forward_dynamics(args.model, q, qd, tau, t=t)
        return jnp.where(args.moving, jnp.concatenate([qd, qdd]), 0.0)
    state = as_state(args.like, y[2 * nq :])
    pull, rate = muscle_rates(args.model, args.drive, t, q, qd, state)
    tau = pull if tau is None else pull + tau
    qdd = forward_dynamics(without_muscles(args.model), q, qd, tau, t=t)
    return jnp.where(args.moving, jnp.concatenate([qd, qdd, as_vector(rate)]), 0.0)


def _unpacking(args: _Args) -> tuple[Callable, list[Array]]:
    """The same rates with the arrays of `args` in a list: Diffrax 0.7.2 cannot backsolve
    with an empty tuple, such as a model's forces may be, among the arguments."""
    arrays, rest = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def rates(t: Any, y: Array, leaves: list[Array]) -> Array:
        return _rates(t, y, eqx.combine(jax.tree.unflatten(structure, leaves), rest))

    return rates, leaves


def _first_step(y: Array, slope: Array, rtol: Array, atol: Array, span: Array) -> Array:
    """A hundredth of the time that the state takes to change by its own size (the first
    guess of Hairer, Nørsett and Wanner, Solving Ordinary Differential Equations I, II.4)."""
    scale = atol + rtol * jnp.abs(y)
    size, rate = jnp.sqrt(jnp.mean((y / scale) ** 2)), jnp.sqrt(jnp.mean((slope / scale) ** 2))
    known = (size > 1e-5) & (rate > 1e-5)
    guess = jnp.where(known, 0.01 * size / jnp.where(known, rate, 1.0), 1e-6)
    return jnp.minimum(guess, span)


def _controller(
    options: Options, t0: Array, t1: Array
) -> tuple[diffrax.AbstractStepSizeController, Array | None]:
    """Step size control, and the fixed step if there is just one."""
    if options.fixed_step is not None:
        if options.fixed_step.ndim == 0:
            return diffrax.ConstantStepSize(), options.fixed_step
        return diffrax.StepTo(options.fixed_step), None
    # Below this, rounding in t decides. Diffrax's last step is longer than 100 ulp.
    smallest = 16 * np.finfo(t0.dtype).eps * jnp.maximum(jnp.abs(t0), jnp.abs(t1))
    controller = diffrax.PIDController(
        rtol=options.rtol,
        atol=options.atol,
        dtmin=smallest,
        dtmax=options.max_step,
        force_dtmin=False,
    )
    return controller, None


def _event(options: Options, dtype: Any) -> diffrax.Event | None:
    if not options.events:
        return None
    groups = [tuple(options.events[i] for i in group) for group in grouped(options.events)]
    eps = float(np.finfo(dtype).eps)
    return diffrax.Event(
        [StateCondition(events) for events in groups],
        FirstCrossing(rtol=4 * eps, atol=float(np.finfo(dtype).tiny))
        if options.find_root
        else None,
        [_DIRECTIONS[events[0].direction] for events in groups],
    )


def _monitor(options: Options, model: Model, ts: Array, q: Array, qd: Array) -> dict[str, Array]:
    return {
        name: MONITORS[what](model, q, qd) if isinstance(what, str) else jax.vmap(what)(ts, q, qd)
        for name, what in options.monitors
    }


def _excitations(
    drive: Drive, model: Model, ts: Array, q: Array, qd: Array, states: HillState
) -> Float[Array, "nt nm"]:
    """Along ts; NaN where the simulation did not come."""
    if callable(drive.value):
        return jax.vmap(drive)(ts, q, qd, states)
    rows = jnp.broadcast_to(drive.value, (ts.shape[0], model.nm))
    return jnp.where(jnp.isfinite(q[:, :1]), rows, jnp.nan)


def _good_start(
    options: Options, model: Model, limits: tuple[Array, Array], start: Array, slope: Array
) -> Bool[Array, ""]:
    """Finite, within the ranges and limits, and with an acceleration."""
    nq = model.nq
    q, qd = start[:nq], start[nq : 2 * nq]
    good = jnp.all((q >= limits[0]) & (q <= limits[1]))
    good &= jnp.all(jnp.isfinite(start)) & jnp.all(jnp.isfinite(slope))
    for event in options.events:
        if isinstance(event, CoordinateLimit):
            good &= event.holds_at_start(model, q, qd, slope[nq : 2 * nq])
    return good


def _in_range(limits: tuple[Array, Array], q: Float[Array, "rows nq"]) -> Bool[Array, ""]:
    """Whether all rows stay in the coordinates' ranges; an event may end on the limit."""
    width = limits[1] - limits[0]
    slack = 1e-6 * jnp.where(jnp.isfinite(width), width, 1.0)  # one-sided ranges have no width
    low, high = limits[0] - slack, limits[1] + slack
    return ~jnp.any((q < low[None]) | (q > high[None]))  # rows not reached are NaN: no verdict


def _integrate(
    options: Options, args: _Args, ts: Array, y0: Array, slope: Array
) -> tuple[diffrax.Solution, Array, Array, Array, Array]:
    """Diffrax's solution, the times and states saved, and the last of each."""
    t0, t1 = ts[0], ts[-1]
    solver = options.solver
    controller, dt0 = _controller(options, t0, t1)
    if options.fixed_step is not None:
        solver = with_stage_tolerances(solver, options.rtol, options.atol)
    elif options.dt0 is not None:
        dt0 = options.dt0
    else:  # the choice of steps is not differentiated
        y, rate = jax.lax.stop_gradient((y0, slope))
        dt0 = _first_step(y, rate, options.rtol, options.atol, t1 - t0)
        dt0 = jnp.where(args.moving, dt0, t1 - t0)
    if _is_plain(options):
        return _step_by_step(options, args, ts, y0, slope, dt0)
    rates, packed = _rates, args
    save = [diffrax.SubSaveAt(ts=ts), diffrax.SubSaveAt(t1=True)]
    # Backsolve knows no sub-saves; the last saved state then counts as the final one.
    plain = isinstance(options.adjoint, diffrax.BacksolveAdjoint)
    if plain:
        rates, packed = _unpacking(args)
        save = diffrax.SubSaveAt(t0=True, ts=ts[1:])
    out = diffrax.diffeqsolve(
        diffrax.ODETerm(rates),  # pyright: ignore[reportArgumentType]
        solver,
        t0=t0,
        t1=t1,
        dt0=dt0,
        y0=y0,
        args=packed,
        saveat=diffrax.SaveAt(subs=save, dense=options.dense),
        stepsize_controller=controller,
        adjoint=options.adjoint,
        event=_event(options, t0.dtype),
        max_steps=options.max_steps,
        throw=False,
        progress_meter=options.meter,
    )
    times: Any = out.ts
    states: Any = out.ys
    if not plain:
        return out, times[0], states[0], times[1][0], states[1][0]
    last = jnp.sum(jnp.isfinite(times)) - 1
    return out, times, states, times[last], states[last]


def _is_plain(options: Options) -> bool:
    """Whether nothing is asked for that only Diffrax's own loop gives."""
    return (
        not options.events
        and not options.dense
        and type(options.meter) is diffrax.NoProgressMeter
        and options.adjoint == diffrax.RecursiveCheckpointAdjoint()
        and _lean.applies(options.solver)
    )


_FIXED_TIMES = (
    'with adjoint="checkpoint" a simulation has no derivatives to ts, steps and tolerances; use '
    'adjoint="direct"'
)


class _MethodOf(eqx.Module):
    """A method, but for the numbers that derivatives may be asked for."""

    solver: diffrax.AbstractSolver
    rest: Any

    def __call__(self, numbers: Any) -> _lean.Method:
        rates, args = eqx.combine(numbers, self.rest)
        return _lean.Method(self.solver, lambda t, y: rates(t, y, args))


def _step_by_step(
    options: Options, args: _Args, ts: Array, y0: Array, slope: Array, dt0: Array | None
) -> tuple[diffrax.Solution, Array, Array, Array, Array]:
    """`_integrate` by the plain loop of steps."""
    fixed = options.fixed_step
    steps = _lean.Steps(
        first=ts[-1] - ts[0] if dt0 is None else dt0,
        to=fixed if fixed is not None and fixed.ndim else None,
        rtol=options.rtol,
        atol=options.atol,
        longest=options.max_step,
        adaptive=fixed is None,
        most=options.max_steps,
    )
    steps, ts = eqxi.nondifferentiable((steps, ts), msg=_FIXED_TIMES)
    # Functions that were given may hold arrays that derivatives are asked for.
    rates = eqx.filter_closure_convert(_rates, ts[0], y0, args)
    arrays, rest = eqx.partition((rates, args), eqx.is_inexact_array)
    slope = jnp.where(args.moving, slope, 0.0)
    last, rows = integrate((y0, slope, arrays), _MethodOf(options.solver, rest), steps, ts)
    results = diffrax.RESULTS
    result = results.where(
        last.state == _lean.TOO_SMALL, results.dt_min_reached, results.max_steps_reached
    )
    result = results.where(last.state == _lean.DONE, results.successful, result)
    times = jnp.where(jnp.arange(ts.shape[0]) < last.row, ts, jnp.inf)
    out = diffrax.Solution(
        t0=ts[0],
        t1=ts[-1],
        ts=times,
        ys=rows,
        interpolation=None,
        stats={
            "max_steps": options.max_steps,
            "num_accepted_steps": last.accepted,
            "num_rejected_steps": last.tried - last.accepted,
            "num_steps": last.tried,
        },
        result=result,
        solver_state=None,
        controller_state=None,
        made_jump=None,
        event_mask=None,
    )
    return out, times, rows, last.t, last.y


@eqx.filter_jit
def solve(
    model: Model,
    q0: Float[Array, " nq"],
    qd0: Float[Array, " nq"],
    ts: Float[Array, " nt"],
    tau: Any,
    drive: Drive | None,
    muscles: HillState | None,
    options: Options,
) -> Solution:
    """Integrate from ts[0] to ts[-1]."""
    soft = failing_softly(model)
    start = jnp.concatenate([q0, qd0])
    if muscles is not None:
        start = jnp.concatenate([start, as_vector(muscles)])
    slope = _rates(ts[0], start, _Args(soft, tau, drive, muscles, jnp.asarray(True)))
    limits = known_range(model, drive)
    good = _good_start(options, model, limits, start, slope)
    # A start that is not usable stands still, so that it costs a batch nothing.
    y0 = jnp.where(good | jnp.isfinite(start), start, 0.0)
    out, times, states, t_final, y_final = _integrate(
        options, _Args(soft, tau, drive, muscles, good), ts, y0, slope
    )
    # The start is what was given, also where nothing could be integrated.
    reached = (good & jnp.isfinite(times)).at[0].set(True)
    y = jnp.where(reached[:, None], states, jnp.nan).at[0].set(start)
    t_final = jnp.where(good, t_final, ts[0])
    y_final = jnp.where(good, y_final, start)
    nq = model.nq
    q, qd = y[:, :nq], y[:, nq : 2 * nq]
    q_final, qd_final = y_final[:nq], y_final[nq : 2 * nq]
    states, final, excitation = None, None, None
    if drive is not None and muscles is not None:
        states = as_state(muscles, y[:, 2 * nq :])
        final = as_state(muscles, y_final[2 * nq :])
        excitation = _excitations(drive, model, ts, q, qd, states)
    events = None
    if out.event_mask is not None:
        events = fired(options.events, out.event_mask, model, t_final, q_final, qd_final)
    finite = jnp.all(jnp.isfinite(y) | ~reached[:, None]) & jnp.all(jnp.isfinite(y_final))
    return Solution(
        ts=ts,
        q=q,
        qd=qd,
        reached=reached,
        t_final=t_final,
        q_final=q_final,
        qd_final=qd_final,
        status=judge(
            out.result,
            good_start=good,
            at_end=t_final >= ts[-1],
            finite=finite,
            in_range=_in_range(limits, jnp.concatenate([q, q_final[None]])),
        ),
        result=out.result,
        stats={name: out.stats[name] for name in sorted(out.stats)},
        events=events,
        monitors=_monitor(options, model, ts, q, qd),
        interpolation=out.interpolation,  # pyright: ignore[reportArgumentType]
        muscles=states,
        muscles_final=final,
        excitation=excitation,
    )
