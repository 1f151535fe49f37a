"""`optimise_tracking`: gains, torques or excitations found by descent through the simulation."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from ..model import Model
from ..simulation import Solution
from ..simulation._inputs import state_vector, times
from ._free import AbstractFree, as_free
from ._reference import AbstractReference, as_reference
from ._track import along, check_range, check_times

_RATES = {"gains": 0.1, "torques": 0.05, "excitations": 0.1}


class OptimisedTracking(eqx.Module):
    """What was found, with the way there. With several searches at once, they come first."""

    values: Float[Array, "..."]
    """The best gains (1/s), torques (N m or N) or excitations."""
    knots: Float[Array, " nk"]
    """Times of torques or excitations (s); straight lines between."""
    loss: Float[Array, "*batch"]
    """Least loss."""
    history: Float[Array, "*batch steps"]
    """Loss before every step."""
    q: Float[Array, "*batch nt nq"]
    """Motion of the best."""
    qd: Float[Array, "*batch nt nq"]
    errors: Float[Array, "*batch nt nq"]
    """q - q_des of the best (rad or m)."""
    ts: Float[Array, " nt"]
    reason: str = eqx.field(static=True)
    """Why it stopped."""


class _Task(eqx.Module):
    free: AbstractFree
    ts: Float[Array, " nt"]
    weights: tuple[Float[Array, " nq"], Float[Array, " nq"], Float[Array, ""]]
    offset: tuple[Array | None, Array | None]
    options: dict[str, Any]

    def motion(self, z: Array, reference: AbstractReference) -> Solution:
        first = reference(self.ts[0])
        q0, qd0 = self.offset
        start = (first.q if q0 is None else q0, first.qd if qd0 is None else qd0)
        return self.free.run(z, reference, start, self.ts, self.options)

    def loss(self, z: Array, reference: AbstractReference) -> Float[Array, ""]:
        found, desired = self.motion(z, reference), jax.vmap(reference)(self.ts)
        places, rates, effort = self.weights
        off = jnp.mean(jnp.sum(places[None] * (found.q - desired.q) ** 2, axis=1))
        late = jnp.mean(jnp.sum(rates[None] * (found.qd - desired.qd) ** 2, axis=1))
        return off + late + effort * self.free.effort(z)


def optimise_tracking(
    model: Model,
    reference: Any,
    ts: Any,
    free: str,
    *,
    start: Any = None,
    knots: int | Any = 11,
    plant: Model | None = None,
    q0: Any = None,
    qd0: Any = None,
    position_weight: Any = 1.0,
    rate_weight: Any = 0.0,
    effort_weight: Any = 0.0,
    optimiser: str | optax.GradientTransformation = "adam",
    learning_rate: float | None = None,
    steps: int = 200,
    patience: int = 50,
    least_gain: float = 1e-4,
    target: float = 0.0,
    progress: Callable[[int, int, float], None] | None = None,
    solver: str = "tsit5",
    rtol: float = 1e-6,
    atol: float = 1e-6,
    max_steps: int = 4096,
    **options: Any,
) -> OptimisedTracking:
    """Vary gains, torques or muscle excitations until a simulation follows a reference.

    The loss is the mean over `ts` of Σ w (q - q_des)² + Σ w' (q̇ - q̇_des)², plus
    `effort_weight` times the mean square of what is free (torques over their unit). Its gradient
    goes through the simulation; Optax makes the steps.

    **Arguments:**

    - `reference`, `ts`: as for `track`; a sequence of references of one kind is searched for
      one by one, all at once.
    - `free`: "gains" of computed torque, "torques" on the coordinates or "excitations" of the
      muscles, the latter two as values at knots with straight lines between.
    - `start`: values to begin with: (nq,), (nk, nq) or (nk, nm); with one more axis in front,
      as many searches at once. If absent: gains of 10/s, the torques of inverse dynamics, or
      excitations of 0.1.
    - `knots`: how many, evenly from the first to the last of ts, or their times.
    - `plant`: what moves, if not the model that references and controllers are made for.
    - `q0`, `qd0`: start of the motion; the reference's own if absent.
    - `position_weight`, `rate_weight`: one number or one per coordinate.
    - `optimiser`: "adam" (with a learning rate that falls to a tenth), "lbfgs", or any Optax
      optimiser.
    - `patience`, `least_gain`: stop when no search has brought its loss down by this share
      within so many steps. `target`: stop when all are below it.
    - `progress`: called with steps done, steps at most and the least loss.
    - the others as for `eb.simulate`. A motion that fails counts as no progress.
    """
    many = isinstance(reference, Sequence) and not isinstance(reference, str)
    given = list(reference) if many else [reference]
    follow = [as_reference(model, one) for one in given]
    when = times(ts)
    moved = model if plant is None else plant
    for one in follow:
        check_times(one, when)
        check_range(moved, when, along(one, when))
    at = _knot_times(knots, when)
    kind, first = as_free(free, model, moved, at, along(follow[0], at))
    begin = first if start is None else jnp.asarray(start, dtype=float)
    if begin.shape[-first.ndim :] != first.shape or begin.ndim > first.ndim + 1:
        raise ValueError(
            f"start has shape {begin.shape}; {first.shape} is expected for {free}, or one more "
            "axis in front for several searches"
        )
    batched = many or begin.ndim > first.ndim
    stacked = _stack(follow)
    begin = begin if begin.ndim > first.ndim else begin[None]
    size = max(begin.shape[0], len(follow))
    if begin.shape[0] not in (1, size) or len(follow) not in (1, size):
        raise ValueError(f"{len(follow)} references for {begin.shape[0]} starts")
    begin = jnp.broadcast_to(begin, (size, *begin.shape[1:]))
    if len(follow) < size:
        stacked = jax.tree.map(
            lambda x: jnp.broadcast_to(x, (size, *x.shape[1:])) if eqx.is_array(x) else x, stacked
        )
    task = _Task(
        kind,
        when,
        (
            _weights("position_weight", position_weight, model),
            _weights("rate_weight", rate_weight, model),
            jnp.asarray(effort_weight, dtype=float),
        ),
        (
            None if q0 is None else state_vector("q0", q0, model),
            None if qd0 is None else state_vector("qd0", qd0, model),
        ),
        {"solver": solver, "rtol": rtol, "atol": atol, "max_steps": max_steps, **options}
        | {"throw": False},
    )
    rate = _RATES[free] if learning_rate is None else learning_rate
    search = _optimiser(optimiser, float(rate), steps)
    z = jax.vmap(kind.numbers)(begin)
    best, least, history, reason = _search(
        task, z, stacked, search, steps, patience, least_gain, target, progress
    )
    q, qd, errors = _outcome(task, best, stacked)
    values = jax.vmap(kind.values)(best)
    parts = (values, least, history, q, qd, errors)
    if not batched:
        parts = tuple(x[0] for x in parts)
    values, least, history, q, qd, errors = parts
    return OptimisedTracking(values, at, least, history, q, qd, errors, when, reason)


def _search(
    task: _Task,
    z: Array,
    references: Any,
    search: optax.GradientTransformationExtraArgs,
    steps: int,
    patience: int,
    least_gain: float,
    target: float,
    progress: Callable[[int, int, float], None] | None,
) -> tuple[Array, Array, Array, str]:
    """Best numbers, least losses, history (batch, steps) and why it stopped."""
    state = _strong(jax.vmap(search.init)(z))
    best, least = z, jnp.full(z.shape[0], jnp.inf)
    history, last_gain, mark = [], 0, np.full(z.shape[0], np.inf)
    reason = "all steps were taken"
    for step in range(steps):
        before = z
        z, state, value = _advance(task, references, search, z, state)
        history.append(value)
        gained = value < least
        best = jnp.where(gained.reshape(-1, *(1,) * (z.ndim - 1)), before, best)
        least = jnp.where(gained, value, least)
        if progress is not None:
            progress(step + 1, steps, float(jnp.min(least)))
        now = np.asarray(least)
        if np.any(now < (1.0 - least_gain) * mark):
            last_gain, mark = step, np.minimum(mark, now)
        if np.all(now <= target):
            reason = "the target was reached"
            break
        if step - last_gain >= patience:
            reason = f"no loss fell by {least_gain:g} of itself within {patience} steps"
            break
    return best, least, jnp.stack(history, axis=1), reason


@eqx.filter_jit
def _advance(
    task: _Task,
    references: Any,
    search: optax.GradientTransformationExtraArgs,
    z: Array,
    state: Any,
) -> tuple[Array, Any, Array]:
    """One step of every search, and the losses before it."""
    arrays, rest = eqx.partition(references, eqx.is_array)

    def one(z: Array, state: Any, arrays: Any) -> tuple[Array, Any, Array]:
        def loss(x: Array) -> Array:
            return task.loss(x, eqx.combine(arrays, rest))

        value, slope = jax.value_and_grad(loss)(z)
        sound = jnp.isfinite(value) & jnp.all(jnp.isfinite(slope))
        slope = jnp.where(sound, slope, 0.0)
        change, state = search.update(slope, state, z, value=value, grad=slope, value_fn=loss)
        moved: Any = optax.apply_updates(z, change)
        return jnp.where(jnp.all(jnp.isfinite(moved)), moved, z), state, value

    z, state, value = jax.vmap(one)(z, state, arrays)
    return z, _strong(state), value


def _strong(state: Any) -> Any:
    """Without JAX's weak types, which would make the second step compile again."""
    return jax.tree.map(lambda x: jnp.asarray(x, dtype=x.dtype) if eqx.is_array(x) else x, state)


@eqx.filter_jit
def _outcome(task: _Task, z: Array, references: Any) -> tuple[Array, Array, Array]:
    arrays, rest = eqx.partition(references, eqx.is_array)

    def one(z: Array, arrays: Any) -> tuple[Array, Array, Array]:
        reference = eqx.combine(arrays, rest)
        found = task.motion(z, reference)
        return found.q, found.qd, found.q - jax.vmap(reference)(task.ts).q

    return jax.vmap(one)(z, arrays)


def _optimiser(
    optimiser: str | optax.GradientTransformation, rate: float, steps: int
) -> optax.GradientTransformationExtraArgs:
    if isinstance(optimiser, optax.GradientTransformation):
        return optax.with_extra_args_support(optimiser)
    return _by_name(optimiser, rate, steps)


@functools.cache  # functions made anew would be compiled anew
def _by_name(name: str, rate: float, steps: int) -> optax.GradientTransformationExtraArgs:
    if name == "adam":
        schedule = optax.cosine_decay_schedule(rate, max(steps, 1), alpha=0.1)
        return optax.with_extra_args_support(optax.adam(schedule))
    if name == "lbfgs":
        return optax.lbfgs()
    raise ValueError(f"optimiser is {name!r}; choose 'adam', 'lbfgs' or an Optax optimiser")


def _weights(what: str, value: Any, model: Model) -> Float[Array, " nq"]:
    array = jnp.asarray(value, dtype=float)
    if array.shape not in ((), (model.nq,)):
        raise ValueError(
            f"{what} has shape {array.shape} for {model.nq} coordinates: give one number or one "
            "per coordinate"
        )
    return jnp.broadcast_to(array, (model.nq,))


def _knot_times(knots: int | Any, ts: Float[Array, " nt"]) -> Float[Array, " nk"]:
    if isinstance(knots, int):
        if knots < 2:
            raise ValueError(f"knots = {knots}: at least two are needed")
        return jnp.linspace(ts[0], ts[-1], knots)
    at = jnp.asarray(knots, dtype=float)
    if at.ndim != 1 or at.shape[0] < 2 or np.any(np.diff(np.asarray(at)) <= 0.0):
        raise ValueError("knots: give their number, or at least two times that increase")
    return at


def _stack(references: Sequence[AbstractReference]) -> Any:
    """References of one kind as one, with a leading axis."""
    split = [eqx.partition(one, eqx.is_array) for one in references]
    arrays, rest = zip(*split, strict=True)
    if any(not eqx.tree_equal(other, rest[0]) for other in rest[1:]):
        raise ValueError(
            "references searched for together must differ in numbers only: give callable modules "
            "of one kind, or motions with the same number of rows"
        )
    return eqx.combine(jax.tree.map(lambda *x: jnp.stack(x), *arrays), rest[0])
