"""What is settled before the first step: the start and whether it is usable, and how to step."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..model import Model
from ..muscles import HillState
from ._events import CoordinateLimit, StateCondition, grouped
from ._first_crossing import FirstCrossing
from ._loops import failing_softly
from ._methods import with_stage_tolerances
from ._muscles import Drive, as_vector, known_range
from ._options import Options
from ._rates import Args, rates

_DIRECTIONS = {"up": True, "down": False, None: None}


class Prepared(eqx.Module):
    """One simulation, ready to be integrated."""

    start: Float[Array, " ny"]
    """State at the start, as given."""
    y0: Float[Array, " ny"]
    """The same without what is not finite."""
    slope: Float[Array, " ny"]
    """Rates at the start."""
    good: Bool[Array, ""]
    """Whether start and times are usable."""
    in_order: Bool[Array, ""]
    """Whether the times are."""


def prepare(
    model: Model,
    q0: Float[Array, " nq"],
    qd0: Float[Array, " nq"],
    ts: Float[Array, " nt"],
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
    slope = rates(ts[0], start, Args(failing_softly(model), tau, drive, muscles, moving))
    in_order = _good_times(options, ts)
    good = in_order & _good_start(options, model, known_range(model, drive), start, slope)
    # A start that is not usable stands still, so that it costs a batch nothing.
    y0 = jnp.where(good | jnp.isfinite(start), start, 0.0)
    return Prepared(start, y0, slope, good, in_order)


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


def _good_times(options: Options, ts: Array) -> Bool[Array, ""]:
    """Whether all times increase; what was known before compilation was looked at there."""
    good = jnp.all(ts[1:] > ts[:-1])
    if options.dt0 is not None:
        good &= options.dt0 > 0.0
    steps = options.fixed_step
    if steps is None:
        return good
    if steps.ndim == 0:
        return good & (steps > 0.0)
    return good & jnp.all(steps[1:] > steps[:-1]) & (steps[0] == ts[0]) & (steps[-1] == ts[-1])


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
    if dt0 is not None:
        dt0 = jnp.where(ready.good, dt0, t1 - t0)
    return solver, controller, dt0


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
