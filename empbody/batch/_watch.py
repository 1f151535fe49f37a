"""Events of runs that are stepped in lanes: when they fire, and where exactly.

What a step must fulfil to fire an event, and which of several counts, is as in
`diffrax.diffeqsolve`, so that a batch stops where single simulations do.
"""

from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool, Float, PyTree

from ..simulation._rates import Args


class Watch(eqx.Module):
    """The conditions of one run after its last step."""

    values: list[Array]
    fired: list[Bool[Array, ""]]
    """Which condition stopped the run; at most one."""
    before: Float[Array, ""]
    """Start of the last step (s)."""
    after: Float[Array, ""]
    """End of the last step (s)."""
    info: PyTree[Array]
    """What the solver's interpolant over the last step needs."""


def first_watch(event: diffrax.Event, t: Array, y: Array, args: Args, info: Any) -> Watch:
    """Before the first step, when only a boolean condition can have fired."""
    values = [jnp.asarray(condition(t, y, args)) for condition in event.cond_fn]
    fired = [value if value.dtype == bool else jnp.asarray(False) for value in values]
    return Watch(values, _one_of(fired), t, t, info)


def next_watch(
    event: diffrax.Event, old: Watch, t: Array, y: Array, args: Args, step: Any, info: Any
) -> Watch:
    """After a step from step[0] to step[1] that ended in the state y at t."""
    values = [jnp.asarray(condition(t, y, args)) for condition in event.cond_fn]
    fired = []
    for was, now, upwards in zip(old.values, values, event.direction, strict=True):
        if now.dtype == bool:
            fired.append(now)
        elif upwards is None:
            fired.append(jnp.sign(was) != jnp.sign(now))
        elif upwards:
            fired.append((jnp.sign(was) <= 0) & (jnp.sign(now) > 0))
        else:
            fired.append((jnp.sign(was) > 0) & (jnp.sign(now) <= 0))
    return Watch(values, _one_of(fired), step[0], step[1], info)


def anything(watch: Watch) -> Bool[Array, ""]:
    return jnp.any(jnp.stack(watch.fired))


def locate(
    event: diffrax.Event,
    solver: diffrax.AbstractSolver,
    watch: Watch,
    t: Array,
    y: Array,
    args: Args,
) -> tuple[Array, Array, diffrax.RESULTS]:
    """Time and state at which the run ended: the crossing, or t and y where there was none."""
    finder: Any = event.root_finder
    path = solver.interpolation_cls(t0=watch.before, t1=watch.after, **watch.info)
    happened = anything(watch)

    def crossing(time: Array, _: Any) -> list[Array]:
        state = path.evaluate(time)
        out = []
        for condition, fired in zip(event.cond_fn, watch.fired, strict=True):
            value = jnp.asarray(condition(time, state, args))
            value = watch.after - time if value.dtype == bool else value
            out.append(jnp.where(happened, jnp.where(fired, value, 0.0), watch.after - time))
        return out

    found = optx.root_find(
        crossing,
        finder,
        y0=watch.after,
        options={"lower": watch.before, "upper": watch.after},
        throw=False,
    )
    # A condition that holds at the very start leaves no step to look into.
    inside = happened & (watch.after > watch.before)
    when = jnp.where(inside, found.value, t)
    state = jnp.where(inside, path.evaluate(found.value), y)
    fine = ~inside | (found.result == optx.RESULTS.successful)
    good = diffrax.RESULTS.event_occurred
    return when, state, diffrax.RESULTS.where(fine, good, diffrax.RESULTS.promote(found.result))


def _one_of(fired: list[Array]) -> list[Bool[Array, ""]]:
    """The first that fired, alone."""
    earlier, out = jnp.asarray(False), []
    for one in fired:
        out.append(one & ~earlier)
        earlier = earlier | one
    return out
