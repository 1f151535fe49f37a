"""Many runs on a fixed number of lanes, each with its own steps.

Under `jax.vmap` an adaptive solve goes on until its slowest run is done, and all others wait.
Here a compiled loop makes one step of the solver on all lanes at a time. A lane whose run has
ended is given the next run, so lanes wait only while others finish at the very end.

One step does what `diffrax.diffeqsolve` does in one: the same solver, the same control of the
step, the same interpolation of what is saved.
"""

from collections.abc import Callable
from typing import Any, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..simulation._rates import Args
from ._watch import Watch, anything, first_watch, next_watch

_REFILL = 16
"""Lanes are refilled when one in so many is free: refilling costs about as much for one lane
as for many."""


class Method(eqx.Module):
    """How runs are stepped."""

    solver: diffrax.AbstractSolver
    controller: diffrax.AbstractStepSizeController
    event: diffrax.Event | None
    max_steps: int = eqx.field(static=True)


class Task(eqx.Module):
    """What a run is, besides its state."""

    args: Args
    ts: Float[Array, " nt"]
    method: Method


class State(eqx.Module):
    """Where a run stands."""

    y: Float[Array, " ny"]
    t: Float[Array, ""]
    t_next: Float[Array, ""]
    """End of the step that comes next (s)."""
    solver: Any
    controller: Any
    result: diffrax.RESULTS
    steps: Int[Array, ""]
    accepted: Int[Array, ""]
    row: Int[Array, ""]
    """How many rows of ts are saved."""
    watch: Watch | None


class _Step(eqx.Module):
    """The step just made."""

    start: Array
    end: Array
    info: Any
    kept: Bool[Array, ""]


_term: Any = diffrax.ODETerm


def first_state(task: Task, field: Callable, y0: Array, slope: Array, dt0: Array | None) -> State:
    """Before the first step; `slope` is what `field` gives at the start."""
    method, ts, terms = task.method, task.ts, _term(field)
    t0, t1 = ts[0], ts[-1]
    solver, order = method.solver, method.solver.error_order(terms)
    t_next, controller = method.controller.init(
        terms, t0, t1, y0, dt0, task.args, solver.func, order
    )
    t_next = jnp.minimum(t_next, t1)
    state = solver.init(terms, t0, t_next, y0, task.args)
    if isinstance(solver, diffrax.AbstractRungeKutta) and state is not None:
        # First same as last: (is this the first step?, slope). With the slope at hand, no
        # lane's first step makes all lanes evaluate one stage more.
        state = (jnp.asarray(False), jnp.where(task.args.moving, slope, 0.0))
    result, watch = diffrax.RESULTS.successful, None
    if method.event is not None:
        made = eqx.filter_eval_shape(solver.step, terms, t0, t_next, y0, task.args, state, False)
        info = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), made[2])
        watch = first_watch(method.event, t0, y0, task.args, info)
        result = diffrax.RESULTS.where(anything(watch), diffrax.RESULTS.event_occurred, result)
    none = jnp.asarray(0, dtype=jnp.int32)
    whole = State(y0, t0, t_next, state, controller, result, none, none, none, watch)
    return jax.tree.map(jnp.asarray, whole)


def going(state: State, task: Task) -> Bool[Array, ""]:
    """Whether a run is to be stepped on."""
    more = (state.t < task.ts[-1]) & (state.steps < task.method.max_steps)
    return more & diffrax.is_successful(state.result)


def _advance(state: State, task: Task, field: Callable) -> tuple[State, _Step]:
    """One step, tried: kept, or to be tried again shorter."""
    method, terms, t1 = task.method, _term(field), task.ts[-1]
    solver, order = method.solver, cast(Any, method.solver.error_order(terms))
    y, error, info, inner, result = solver.step(
        terms, state.t, state.t_next, state.y, task.args, state.solver, False
    )
    error = jax.tree.map(lambda e: jnp.where(jnp.isnan(e), jnp.inf, e), error)
    kept, t, t_next, _, controller, verdict = method.controller.adapt_step_size(
        state.t,
        state.t_next,
        state.y,
        y,
        task.args,
        error,
        order,
        state.controller,
    )
    kept = jnp.asarray(kept)
    t = jnp.minimum(t, t1)
    to_end = jnp.where(kept, t1, t + 0.5 * (t1 - t))
    t_next = jnp.where(t_next > _just_before(t1), to_end, t_next)
    y, inner = jax.tree.map(lambda a, b: jnp.where(kept, a, b), (y, inner), (state.y, state.solver))
    results = diffrax.RESULTS
    result = results.where(kept, result, results.successful)
    result = results.where(diffrax.is_okay(result), verdict, result)
    watch = state.watch
    if method.event is not None and watch is not None:
        step = state.t, state.t_next
        watch = next_watch(method.event, watch, t, y, task.args, step, info)
        result = results.where(anything(watch), results.event_occurred, result)
    accepted = state.accepted + kept.astype(jnp.int32)
    new = State(
        y, t, t_next, inner, controller, result, state.steps + 1, accepted, state.row, watch
    )
    return jax.tree.map(jnp.asarray, new), _Step(state.t, state.t_next, info, kept)


def _just_before(t1: Array) -> Array:
    """100 roundings below t1: a step that ends beyond goes to t1 itself."""
    return jax.lax.fori_loop(0, 100, lambda _, t: jnp.nextafter(t, -jnp.inf * jnp.ones_like(t)), t1)


class Progress(eqx.Module):
    """What is left in the end."""

    book: State
    """The last state of every run."""
    rows: Float[Array, "runs nt ny"]
    lane_steps: Int[Array, ""]
    """Steps that were made on all lanes, those of lanes without work included."""


class _Loop(eqx.Module):
    run: Int[Array, " lanes"]
    """Which run is on each lane; the number of runs where there is none."""
    state: State
    own: Any
    following: Int[Array, ""]
    """The first run that no lane has begun."""
    book: State
    rows: Array
    rounds: Int[Array, ""]


def run_lanes(
    own: Any,
    task_of: Callable[[Any], Task],
    field: Callable,
    begun: State,
    rows: Float[Array, "runs nt ny"],
    count: Int[Array, ""],
    lanes: int,
) -> Progress:
    """Step all runs to their ends.

    **Arguments:**

    - `own`: the arrays that differ between runs, with a leading axis of runs.
    - `task_of`: one run's task from its own arrays.
    - `begun`: states before the first step, from `first_state`.
    - `rows`: where to save; what is in it does not matter.
    - `count`: how many of the runs are to be made; the rest fills up the arrays.
    """
    total = rows.shape[0]
    patience = max(1, lanes // _REFILL)

    def is_going(state: State, own: Any) -> Array:
        return going(state, task_of(own))

    def working(loop: _Loop) -> Array:
        return (loop.run < total) & jax.vmap(is_going)(loop.state, loop.own)

    def refill(loop: _Loop) -> _Loop:
        free = ~working(loop)
        ended = jnp.where(free, loop.run, total)
        book = _written(loop.book, ended, loop.state)
        following = loop.following + jnp.cumsum(free) - 1
        given = free & (following < count)
        run = jnp.where(given, following, jnp.where(free, total, loop.run)).astype(jnp.int32)
        state, mine = _read((book, own), run, given, (loop.state, loop.own))
        begun_now = loop.following + jnp.sum(given)
        return _Loop(run, state, mine, begun_now, book, loop.rows, loop.rounds)

    def body(loop: _Loop) -> _Loop:
        busy = working(loop)
        step_one = jax.vmap(lambda s, o: _advance(s, task_of(o), field))
        new, step = step_one(loop.state, loop.own)
        state = _select(busy, new, loop.state)
        row, rows = _save(loop, task_of, busy & step.kept, step)
        state = eqx.tree_at(lambda s: s.row, state, row)
        loop = _Loop(loop.run, state, loop.own, loop.following, loop.book, rows, loop.rounds + 1)
        idle = lanes - jnp.sum(working(loop))
        more = loop.following < count
        return jax.lax.cond(
            (more & (idle >= patience)) | (idle == lanes), refill, lambda same: same, loop
        )

    zero = jnp.asarray(0, dtype=jnp.int32)
    nobody = jnp.full(lanes, total, dtype=jnp.int32)
    state, mine = jax.tree.map(lambda x: jnp.repeat(x[:1], lanes, axis=0), (begun, own))
    loop = refill(_Loop(nobody, state, mine, zero, begun, rows, zero))
    loop = jax.lax.while_loop(lambda loop: jnp.any(loop.run < total), body, loop)
    return Progress(loop.book, loop.rows, loop.rounds * lanes)


def _save(
    loop: _Loop, task_of: Callable[[Any], Task], kept: Array, step: _Step
) -> tuple[Array, Array]:
    """Rows that the step has passed go to their run's place; how many each run has now."""
    total, nt = loop.rows.shape[:2]

    def due(own: Any, row: Array, kept: Array, step: _Step) -> tuple[Array, Array]:
        when = task_of(own).ts[jnp.minimum(row, nt - 1)]
        return kept & (row < nt) & (when <= step.end), when

    def value(own: Any, when: Array, step: _Step) -> Array:
        solver = task_of(own).method.solver
        return solver.interpolation_cls(t0=step.start, t1=step.end, **step.info).evaluate(when)

    def pending(row: Array) -> tuple[Array, Array]:
        return jax.vmap(due)(loop.own, row, kept, step)

    def write(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        row, rows = carry
        now, when = pending(row)
        y = jax.vmap(value)(loop.own, when, step)
        to = jnp.where(now, loop.run, total)
        return row + now.astype(row.dtype), rows.at[to, row].set(y, mode="drop")

    return jax.lax.while_loop(
        lambda carry: jnp.any(pending(carry[0])[0]), write, (loop.state.row, loop.rows)
    )


def _select(which: Array, new: Any, old: Any) -> Any:
    def pick(a: Array, b: Array) -> Array:
        return jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)


def _written(book: Any, to: Array, values: Any) -> Any:
    return jax.tree.map(lambda all_, one: all_.at[to].set(one, mode="drop"), book, values)


def _read(book: Any, run: Array, given: Array, old: Any) -> Any:
    return _select(given, jax.tree.map(lambda all_: all_.at[run].get(mode="clip"), book), old)
