"""The compiled part of a simulation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..model import Model
from ..muscles import HillState
from ._course import Course, integrate
from ._events import fired
from ._loops import failing_softly
from ._muscles import Drive, as_state, known_range
from ._options import MONITORS, Options
from ._rates import Args
from ._solution import Solution
from ._start import Prepared, prepare
from ._status import judge


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


def _in_range(limits: tuple[Array, Array], q: Float[Array, "rows nq"]) -> Bool[Array, ""]:
    """Whether all rows stay in the coordinates' ranges; an event may end on the limit."""
    width = limits[1] - limits[0]
    slack = 1e-6 * jnp.where(jnp.isfinite(width), width, 1.0)  # one-sided ranges have no width
    low, high = limits[0] - slack, limits[1] + slack
    return ~jnp.any((q < low[None]) | (q > high[None]))  # rows not reached are NaN: no verdict


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
    ready = prepare(model, q0, qd0, ts, tau, drive, muscles, options)
    args = Args(failing_softly(model), tau, drive, muscles, ready.good)
    course = integrate(options, args, ts, ready)
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
            good_times=ready.in_order,
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
