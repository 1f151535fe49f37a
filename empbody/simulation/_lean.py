"""Explicit Runge-Kutta steps in a plain loop: the route of simulations without events.

The methods, their error estimates and interpolants are Diffrax's, and so are the rules of
step size control; what is left out is all that such a simulation does not use, which costs
more than a cheap right-hand side. Under vmap all lanes go on until the last is done.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

RUNNING, TOO_SMALL, DONE = 0, 1, 2
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0
"""Of Diffrax's PIDController, as it is by default."""


class Steps(eqx.Module):
    """How long steps are: fixed ones, or what the tolerances allow."""

    first: Float[Array, ""]
    """First step; where neither `adaptive` nor `to` says otherwise, the longest of all."""
    to: Float[Array, " n"] | None
    """Times to step to."""
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    longest: Float[Array, ""] | None
    adaptive: bool = eqx.field(static=True)
    most: int = eqx.field(static=True)
    """Number of steps, rejected ones included, after which to give up."""


class Place(NamedTuple):
    """Where a simulation stands."""

    t: Float[Array, ""]
    goal: Float[Array, ""]
    """End of the step to try."""
    y: Float[Array, " ny"]
    slope: Float[Array, " ny"]
    at_least: Bool[Array, ""]
    """Whether the step has the least length, so that it will be accepted."""
    tried: Int[Array, ""]
    accepted: Int[Array, ""]
    row: Int[Array, ""]
    """Next time to save at."""
    state: Int[Array, ""]


class Trial(NamedTuple):
    """One step that may be accepted."""

    y: Float[Array, " ny"]
    error: Float[Array, " ny"]
    slopes: Float[Array, "stages ny"]


class Method(NamedTuple):
    """An explicit method whose last stage is the first of the next step."""

    solver: Any
    rates: Callable[[Any, Array], Array]
    """(t, y) -> ẏ"""

    def trial(self, t: Array, goal: Array, y: Array, slope: Array) -> Trial:
        """The step from t to its goal; `slope` are the rates at its start."""
        tableau, h = self.solver.tableau, goal - t
        count = tableau.num_stages
        weights = np.zeros((count - 1, count))
        for i, row in enumerate(tableau.a_lower):
            weights[i, : len(row)] = row

        def stage(slopes: Array, each: Any) -> tuple[Array, None]:
            i, weight, c = each
            at = y + h * jnp.sum(weight[:, None] * slopes, axis=0)
            return _put(slopes, i, self.rates(t + c * h, at)), None

        numbers = [jnp.asarray(x, dtype=y.dtype) for x in (weights, tableau.c)]
        first = jnp.zeros((count, *y.shape), dtype=y.dtype).at[0].set(slope)
        slopes, _ = jax.lax.scan(stage, first, (jnp.arange(1, count), *numbers))
        b, e = (jnp.asarray(x, dtype=y.dtype) for x in (tableau.b_sol, tableau.b_error))
        moved = h * jnp.sum(b[:, None] * slopes, axis=0)
        return Trial(y + moved, h * jnp.sum(e[:, None] * slopes, axis=0), slopes)

    def between(self, at: Array, t: Array, goal: Array, y: Array, trial: Trial) -> Array:
        """The state at a time within a step."""
        k = trial.slopes * (goal - t)
        return self.solver.interpolation_cls(t0=t, t1=goal, y0=y, y1=trial.y, k=k).evaluate(at)

    @property
    def error_order(self) -> float:
        return float(self.solver.order(None))


def applies(solver: Any) -> bool:
    """Whether a solver is one of these methods."""
    if not isinstance(solver, diffrax.AbstractERK):
        return False
    tableau: Any = solver.tableau
    one = isinstance(tableau, diffrax.ButcherTableau) and tableau.fsal
    return one and solver.order(None) is not None  # pyright: ignore[reportArgumentType]


def start(
    steps: Steps, ts: Float[Array, " nt"], y: Float[Array, " ny"], slope: Float[Array, " ny"]
) -> Place:
    t0, t1 = ts[0], ts[-1]
    first = steps.first
    if steps.adaptive:
        first = jnp.maximum(_shorter(first, steps), _least(ts))
    goal = t0 + first if steps.to is None else steps.to[1]
    zero = jnp.asarray(0)
    running = jnp.asarray(RUNNING)
    at_least = jnp.asarray(False)
    return Place(t0, jnp.minimum(goal, t1), y, slope, at_least, zero, zero, zero + 1, running)


def _least(ts: Float[Array, " nt"]) -> Array:
    """Below this step, rounding in t decides."""
    return 16 * np.finfo(ts.dtype).eps * jnp.maximum(jnp.abs(ts[0]), jnp.abs(ts[-1]))


def _fixed_goal(steps: Steps, ts: Float[Array, " nt"], index: Int[Array, ""]) -> Array:
    """End of a fixed step, counted from one; all but the first share the time equally."""
    if steps.to is not None:
        return steps.to[jnp.minimum(index, steps.to.shape[0] - 1)]
    t0, t1 = ts[0], ts[-1]
    count = jnp.ceil((t1 - t0) / jnp.nextafter(steps.first, jnp.inf))
    return jnp.where(index >= count, t1, t0 + (t1 - t0) * (index / count))


def _shorter(h: Array, steps: Steps) -> Array:
    return h if steps.longest is None else jnp.minimum(h, steps.longest)


def judged(
    method: Method, steps: Steps, ts: Float[Array, " nt"], place: Place, trial: Trial
) -> tuple[Bool[Array, ""], Place]:
    """Whether the step is accepted, and where it leaves the simulation (rows apart)."""
    t1, h = ts[-1], place.goal - place.t
    state, at_least = place.state, place.at_least
    if not steps.adaptive:
        keep = jnp.asarray(True)
        goal = _fixed_goal(steps, ts, place.tried + 2)
    else:
        error = jnp.where(jnp.isnan(trial.error), jnp.inf, trial.error)
        reached = jnp.where(jnp.any(jnp.isnan(trial.y)), place.y, trial.y)
        size = jnp.maximum(jnp.abs(place.y), jnp.abs(reached))
        miss = jnp.sqrt(jnp.mean((error / (steps.atol + size * steps.rtol)) ** 2))
        keep = (miss < 1.0) | at_least
        low = jnp.where(keep, 1.0, _LEAST)
        high = jnp.where(keep, _MOST, _SAFETY)
        factor = jnp.clip(_SAFETY * (1.0 / miss) ** (1.0 / method.error_order), low, high)
        longer = _shorter(h * factor, steps)
        least = _least(ts)
        state = jnp.where(longer < least, TOO_SMALL, state)
        longer = jnp.where(at_least & (factor == 1.0), least, longer)
        at_least = longer <= least
        goal = jnp.where(keep, place.goal, place.t) + jnp.maximum(longer, least)
    t = jnp.minimum(jnp.where(keep, place.goal, place.t), t1)
    floor = t1 - 100 * jnp.abs(t1 - jnp.nextafter(t1, -jnp.inf))
    goal = jnp.where(goal > floor, jnp.where(keep, t1, t + 0.5 * (t1 - t)), goal)
    return keep, Place(
        t=t,
        goal=goal,
        y=jnp.where(keep, trial.y, place.y),
        slope=jnp.where(keep, trial.slopes[-1], place.slope),
        at_least=at_least,
        tried=place.tried + 1,
        accepted=place.accepted + jnp.where(keep, 1, 0),
        row=place.row,
        state=jnp.where((state == RUNNING) & (t >= t1), DONE, state),
    )


def going(steps: Steps, place: Place) -> Bool[Array, ""]:
    return (place.state == RUNNING) & (place.tried < steps.most)


def chosen(which: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), new, old)


def _put(rows: Array, index: Array, row: Array) -> Array:
    """`rows` with one replaced. Unlike `.at[].set`, without kernels that look at the index."""
    return jax.lax.dynamic_update_index_in_dim(rows, row, index, 0)


def save(
    method: Method,
    ts: Float[Array, " nt"],
    rows: Float[Array, "nt ny"],
    keep: Bool[Array, ""],
    place: Place,
    trial: Trial,
) -> tuple[Array, Array]:
    """The rows within an accepted step, and the next one to come."""
    count = ts.shape[0]

    def inside(row: Array) -> Array:
        due = ts.at[jnp.minimum(row, count - 1)].get(mode="promise_in_bounds")
        return keep & (row < count) & (due <= place.goal)

    def more(state: tuple[Array, Array]) -> Array:
        return eqxi.unvmap_any(inside(state[1]))

    def write(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rows, row = state
        due, now = inside(row), jnp.minimum(row, count - 1)
        at, old = (jax.lax.dynamic_index_in_dim(x, now, keepdims=False) for x in (ts, rows))
        new = method.between(at, place.t, place.goal, place.y, trial)
        return _put(rows, now, jnp.where(due, new, old)), row + jnp.where(due, 1, 0)

    return jax.lax.while_loop(more, write, (rows, place.row))


def run(
    method: Method,
    steps: Steps,
    ts: Float[Array, " nt"],
    first: Place,
    marks: Any = None,
    mark: Callable[[Any, Bool[Array, ""], Place], Any] = lambda marks, going, place: marks,
) -> tuple[Place, Float[Array, "nt ny"], Any]:
    """Until the end: the last place, the rows (infinite where not reached), and `marks`,
    which `mark` has seen every place."""
    rows = jnp.full((ts.shape[0], *first.y.shape), jnp.inf, dtype=first.y.dtype)
    rows = rows.at[0].set(first.y)

    def more(state: Any) -> Array:
        return eqxi.unvmap_any(going(steps, state[0]))

    def advance(state: Any) -> Any:
        place, rows, marks = state
        active = going(steps, place)
        marks = mark(marks, active, place)
        trial = method.trial(place.t, place.goal, place.y, place.slope)
        keep, new = judged(method, steps, ts, place, trial)
        rows, row = save(method, ts, rows, keep & active, place, trial)
        return chosen(active, new._replace(row=row), place), rows, marks

    return jax.lax.while_loop(more, advance, (first, rows, marks))
