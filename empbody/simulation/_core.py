"""The compiled part of a simulation."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..dynamics import forward_dynamics
from ..model import Model
from ..muscles import HillState
from ..muscles._forces import without_muscles
from ._events import CoordinateLimit, StateCondition, fired, grouped
from ._feedback import AbstractFeedback
from ._first_crossing import FirstCrossing
from ._loops import failing_softly
from ._methods import with_stage_tolerances
from ._muscles import Drive, as_state, as_vector, known_range, muscle_rates
from ._options import MONITORS, Options
from ._solution import Solution
from ._status import judge

_DIRECTIONS = {"up": True, "down": False, None: None}


class Args(eqx.Module):
    """What the rates depend on besides time and state."""

    model: Model
    tau: Any
    drive: Drive | None
    like: HillState | None
    """What the muscles' part of the state holds."""
    moving: Bool[Array, ""]


@eqx.filter_jit
def rates(t: Any, y: Array, args: Args) -> Array:
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


def _unpacking(args: Args) -> tuple[Callable, list[Array]]:
    """The same rates with the arrays of `args` in a list: Diffrax 0.7.2 cannot backsolve
    with an empty tuple, such as a model's forces may be, among the arguments."""
    arrays, rest = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def field(t: Any, y: Array, leaves: list[Array]) -> Array:
        return rates(t, y, eqx.combine(jax.tree.unflatten(structure, leaves), rest))

    return field, leaves


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


def event_of(options: Options, dtype: Any) -> diffrax.Event | None:
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


class Prepared(eqx.Module):
    """One simulation, ready to be integrated."""

    start: Float[Array, " ny"]
    """State at the start, as given."""
    y0: Float[Array, " ny"]
    """The same without what is not finite."""
    slope: Float[Array, " ny"]
    """Rates at the start."""
    good: Bool[Array, ""]
    """Whether the start is usable."""


class Course(eqx.Module):
    """What an integration gives: rows at the times asked for, and the end."""

    times: Float[Array, " nt"]
    """Times of the rows; not finite where a row was not reached."""
    states: Float[Array, "nt ny"]
    t_final: Float[Array, ""]
    y_final: Float[Array, " ny"]
    result: diffrax.RESULTS
    stats: dict[str, Any]
    event_mask: list[Bool[Array, ""]] | None
    interpolation: Any


def prepare(
    model: Model,
    q0: Float[Array, " nq"],
    qd0: Float[Array, " nq"],
    t0: Float[Array, ""],
    tau: Any,
    drive: Drive | None,
    muscles: HillState | None,
    options: Options,
) -> Prepared:
    """State and rates at the start, and whether they are usable."""
    start = jnp.concatenate([q0, qd0])
    if muscles is not None:
        start = jnp.concatenate([start, as_vector(muscles)])
    moving = jnp.asarray(True)
    slope = rates(t0, start, Args(failing_softly(model), tau, drive, muscles, moving))
    good = _good_start(options, model, known_range(model, drive), start, slope)
    # A start that is not usable stands still, so that it costs a batch nothing.
    y0 = jnp.where(good | jnp.isfinite(start), start, 0.0)
    return Prepared(start, y0, slope, good)


def method(
    options: Options, ready: Prepared, t0: Array, t1: Array
) -> tuple[diffrax.AbstractSolver, diffrax.AbstractStepSizeController, Array | None]:
    """Solver, step size control and first step."""
    solver = options.solver
    controller, dt0 = _controller(options, t0, t1)
    if options.fixed_step is not None:
        solver = with_stage_tolerances(solver, options.rtol, options.atol)
    elif options.dt0 is not None:
        dt0 = options.dt0
    else:  # the choice of steps is not differentiated
        y, rate = jax.lax.stop_gradient((ready.y0, ready.slope))
        dt0 = _first_step(y, rate, options.rtol, options.atol, t1 - t0)
        dt0 = jnp.where(ready.good, dt0, t1 - t0)
    return solver, controller, dt0


def _integrate(options: Options, args: Args, ts: Array, ready: Prepared) -> Course:
    """From ts[0] to ts[-1] by Diffrax."""
    t0, t1 = ts[0], ts[-1]
    solver, controller, dt0 = method(options, ready, t0, t1)
    field, packed = rates, args
    save = [diffrax.SubSaveAt(ts=ts), diffrax.SubSaveAt(t1=True)]
    # Backsolve knows no sub-saves; the last saved state then counts as the final one.
    plain = isinstance(options.adjoint, diffrax.BacksolveAdjoint)
    if plain:
        field, packed = _unpacking(args)
        save = diffrax.SubSaveAt(t0=True, ts=ts[1:])
    out = diffrax.diffeqsolve(
        diffrax.ODETerm(field),  # pyright: ignore[reportArgumentType]
        solver,
        t0=t0,
        t1=t1,
        dt0=dt0,
        y0=ready.y0,
        args=packed,
        saveat=diffrax.SaveAt(subs=save, dense=options.dense),
        stepsize_controller=controller,
        adjoint=options.adjoint,
        event=event_of(options, t0.dtype),
        max_steps=options.max_steps,
        throw=False,
        progress_meter=options.meter,
    )
    times: Any = out.ts
    states: Any = out.ys
    if plain:
        last = jnp.sum(jnp.isfinite(times)) - 1
        times, states = (times, times[last][None]), (states, states[last][None])
    masks: Any = out.event_mask
    return Course(
        times=times[0],
        states=states[0],
        t_final=times[1][0],
        y_final=states[1][0],
        result=out.result,
        stats={name: out.stats[name] for name in sorted(out.stats)},
        event_mask=masks,
        interpolation=out.interpolation,
    )


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
    ready = prepare(model, q0, qd0, ts[0], tau, drive, muscles, options)
    args = Args(failing_softly(model), tau, drive, muscles, ready.good)
    course = _integrate(options, args, ts, ready)
    return conclude(model, ts, drive, muscles, options, ready, course)


def conclude(
    model: Model,
    ts: Float[Array, " nt"],
    drive: Drive | None,
    muscles: HillState | None,
    options: Options,
    ready: Prepared,
    course: Course,
) -> Solution:
    """The solution of a simulation that was integrated, with its verdict."""
    start, good = ready.start, ready.good
    # The start is what was given, also where nothing could be integrated.
    reached = (good & jnp.isfinite(course.times)).at[0].set(True)
    y = jnp.where(reached[:, None], course.states, jnp.nan).at[0].set(start)
    t_final = jnp.where(good, course.t_final, ts[0])
    y_final = jnp.where(good, course.y_final, start)
    nq = model.nq
    q, qd = y[:, :nq], y[:, nq : 2 * nq]
    q_final, qd_final = y_final[:nq], y_final[nq : 2 * nq]
    states, final, excitation = None, None, None
    if drive is not None and muscles is not None:
        states = as_state(muscles, y[:, 2 * nq :])
        final = as_state(muscles, y_final[2 * nq :])
        excitation = _excitations(drive, model, ts, q, qd, states)
    events = None
    if course.event_mask is not None:
        events = fired(options.events, course.event_mask, model, t_final, q_final, qd_final)
    finite = jnp.all(jnp.isfinite(y) | ~reached[:, None]) & jnp.all(jnp.isfinite(y_final))
    limits = known_range(model, drive)
    return Solution(
        ts=ts,
        q=q,
        qd=qd,
        reached=reached,
        t_final=t_final,
        q_final=q_final,
        qd_final=qd_final,
        status=judge(
            course.result,
            good_start=good,
            at_end=t_final >= ts[-1],
            finite=finite,
            in_range=_in_range(limits, jnp.concatenate([q, q_final[None]])),
        ),
        result=course.result,
        stats=course.stats,
        events=events,
        monitors=_monitor(options, model, ts, q, qd),
        interpolation=course.interpolation,
        muscles=states,
        muscles_final=final,
        excitation=excitation,
    )
