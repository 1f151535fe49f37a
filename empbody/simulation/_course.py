"""The integration itself: by Diffrax, or by a plain loop of steps where that is enough."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import equinox.internal as eqxi
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from . import _lean
from ._lean_adjoint import integrate as step_by_step
from ._options import Options
from ._rates import Args, rates, unpacking
from ._start import Prepared, event_of, method
from ._unchecked import unchecked


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


def integrate(options: Options, args: Args, ts: Array, ready: Prepared) -> Course:
    """From ts[0] to ts[-1]."""
    t0, t1 = ts[0], ts[-1]
    solver, controller, dt0 = method(options, ready, t0, t1)
    if _is_plain(options):
        return _step_by_step(options, args, ts, ready, dt0)
    field, packed = rates, args
    save = [diffrax.SubSaveAt(ts=ts), diffrax.SubSaveAt(t1=True)]
    # Backsolve knows no sub-saves; the last saved state then counts as the final one.
    plain = isinstance(options.adjoint, diffrax.BacksolveAdjoint)
    if plain:
        field, packed = unpacking(args)
        save = diffrax.SubSaveAt(t0=True, ts=ts[1:])
    saveat = diffrax.SaveAt(subs=save, dense=options.dense)
    event, adjoint = event_of(options, t0.dtype), options.adjoint
    given = (field, solver, t0, t1, dt0, ready.y0, packed, saveat, controller, adjoint, event)
    out = unchecked(_diffeqsolve)(*given, options.meter, options.max_steps)
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


def _diffeqsolve(
    rates: Callable,
    solver: diffrax.AbstractSolver,
    t0: Array,
    t1: Array,
    dt0: Array | None,
    y0: Array,
    args: Any,
    saveat: diffrax.SaveAt,
    controller: diffrax.AbstractStepSizeController,
    adjoint: diffrax.AbstractAdjoint,
    event: diffrax.Event | None,
    meter: diffrax.AbstractProgressMeter,
    max_steps: int,
) -> diffrax.Solution:
    return diffrax.diffeqsolve(
        diffrax.ODETerm(rates),  # pyright: ignore[reportArgumentType]
        solver,
        t0=t0,
        t1=t1,
        dt0=dt0,
        y0=y0,
        args=args,
        saveat=saveat,
        stepsize_controller=controller,
        adjoint=adjoint,
        event=event,
        max_steps=max_steps,
        throw=False,
        progress_meter=meter,
    )


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
    options: Options, args: Args, ts: Array, ready: Prepared, dt0: Array | None
) -> Course:
    """`integrate` by the plain loop of steps."""
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
    field = eqx.filter_closure_convert(rates, ts[0], ready.y0, args)
    arrays, rest = eqx.partition((field, args), eqx.is_inexact_array)
    given = (ready.y0, jnp.where(args.moving, ready.slope, 0.0), arrays)
    last, rows = step_by_step(given, _MethodOf(options.solver, rest), steps, ts)
    results = diffrax.RESULTS
    result = results.where(
        last.state == _lean.TOO_SMALL, results.dt_min_reached, results.max_steps_reached
    )
    result = results.where(last.state == _lean.DONE, results.successful, result)
    times = jnp.where(jnp.arange(ts.shape[0]) < last.row, ts, jnp.inf)
    return Course(
        times=times,
        states=rows,
        t_final=last.t,
        y_final=last.y,
        result=result,
        stats={
            "max_steps": options.max_steps,
            "num_accepted_steps": last.accepted,
            "num_rejected_steps": last.tried - last.accepted,
            "num_steps": last.tried,
        },
        event_mask=None,
        interpolation=None,
    )
