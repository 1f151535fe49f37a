"""Reverse mode through the plain loop of steps.

Some states along the way are kept; when there are too many, every second one is dropped. The
way back goes from the last to the first, makes the steps in between again, and pulls the
cotangents through one step at a time. So memory does not grow with the number of steps, and
each step is made at most twice.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._lean import Method, Place, Steps, Trial, chosen, judged, run, start

_SLOTS = 128


class Marks(NamedTuple):
    """Places at the beginning of every `stride`-th accepted step."""

    places: Place
    """Each array with a leading axis of slots."""
    stride: Int[Array, ""]


@eqx.filter_custom_vjp
def integrate(
    varied: Any, method: Callable[[Any], Method], steps: Steps, ts: Array
) -> tuple[Place, Array]:
    """The last place and the rows, from `varied` = (y0, slope there, what `method` takes)."""
    y0, slope, numbers = varied
    last, rows, _ = run(method(numbers), steps, ts, start(steps, ts, y0, slope))
    return last, rows


@integrate.def_fwd
def _(perturbed: Any, varied: Any, method: Callable, steps: Steps, ts: Array) -> tuple[Any, Any]:
    del perturbed
    y0, slope, numbers = varied
    first = start(steps, ts, y0, slope)
    slots = min(_SLOTS, steps.most)
    places = jax.tree.map(lambda x: jnp.zeros((slots, *x.shape), dtype=x.dtype), first)
    marks = Marks(places, jnp.asarray(1))
    last, rows, marks = run(method(numbers), steps, ts, first, marks, _mark)
    return (last, rows), (marks, last.accepted)


def _mark(marks: Marks, active: Bool[Array, ""], place: Place) -> Marks:
    """Put a place into its slot, if it has one; thin the slots out when they are full."""
    slots = marks.places.t.shape[0]
    full = active & (place.accepted == slots * marks.stride)

    def thinned(marks: Marks) -> Marks:
        half = jax.tree.map(
            lambda x: jnp.where(full, jnp.concatenate([x[::2], x[1::2]]), x), marks.places
        )
        return Marks(half, jnp.where(full, 2 * marks.stride, marks.stride))

    marks = jax.lax.cond(eqxi.unvmap_any(full), thinned, lambda marks: marks, marks)
    slot = place.accepted // marks.stride
    due = active & (place.accepted % marks.stride == 0)

    def put(kept: Array, new: Array) -> Array:
        return kept.at[slot].set(jnp.where(due, new, kept[slot]))

    return Marks(jax.tree.map(put, marks.places, place), marks.stride)


@integrate.def_bwd
def _(
    residuals: Any,
    cotangents: Any,
    perturbed: Any,
    varied: Any,
    method: Callable,
    steps: Steps,
    ts: Array,
) -> Any:
    marks, accepted = residuals
    of_last, of_rows = cotangents
    y0, slope, numbers = varied
    y_bar, slope_bar = jnp.zeros_like(y0), jnp.zeros_like(slope)
    rows_bar = jnp.zeros((ts.shape[0], *y0.shape), y0.dtype) if of_rows is None else of_rows
    if of_last is not None and of_last.y is not None:
        y_bar = y_bar + of_last.y
    if of_last is not None and of_last.slope is not None:
        slope_bar = slope_bar + of_last.slope
    wanted, held = eqx.partition(numbers, perturbed[2])

    def with_numbers(wanted: Any) -> Method:
        return method(eqx.combine(wanted, held))

    way = _Way(with_numbers, wanted, steps, ts, marks, rows_bar)
    back = _Back(accepted, y_bar, slope_bar, jax.tree.map(jnp.zeros_like, wanted))
    back = way.from_end_to_start(back)
    return back.y_bar + rows_bar[0], back.slope_bar, back.sums


class _Back(NamedTuple):
    """How far the way back has come."""

    left: Int[Array, ""]
    """Accepted steps still to go back over."""
    y_bar: Float[Array, " ny"]
    slope_bar: Float[Array, " ny"]
    """Of the rates at that state: the last stage of the step before."""
    sums: Any
    """Cotangents of the numbers so far."""


class _Way(NamedTuple):
    """What the way back needs to know of the way there."""

    method: Callable[[Any], Method]
    wanted: Any
    steps: Steps
    ts: Float[Array, " nt"]
    marks: Marks
    rows_bar: Float[Array, "nt ny"]

    def from_end_to_start(self, back: _Back) -> _Back:
        slots = self.marks.places.t.shape[0]
        width = 1  # most steps between two marks
        while width * slots < self.steps.most:
            width *= 2
        room = jax.tree.map(
            lambda x: jnp.broadcast_to(x[0], (width, *x.shape[1:])), self.marks.places
        )

        def segment(state: tuple[_Back, Place]) -> tuple[_Back, Place]:
            back, room = state
            slot = jnp.maximum(back.left - 1, 0) // self.marks.stride
            begin = slot * self.marks.stride
            first = jax.tree.map(lambda x: x[slot], self.marks.places)
            room = jax.tree.map(lambda x, new: x.at[0].set(new), room, first)
            if width > 1:
                room = self._again(back, begin, first, room)

            def more(back: _Back) -> Array:
                return eqxi.unvmap_any(back.left > begin)

            def one(back: _Back) -> _Back:
                place = jax.tree.map(lambda x: x[jnp.maximum(back.left - 1 - begin, 0)], room)
                return chosen(back.left > begin, self._pulled(back, place), back)

            return jax.lax.while_loop(more, one, back), room

        def unfinished(state: tuple[_Back, Place]) -> Array:
            return eqxi.unvmap_any(state[0].left > 0)

        return jax.lax.while_loop(unfinished, segment, (back, room))[0]

    def _again(self, back: _Back, begin: Array, first: Place, room: Place) -> Place:
        """The steps from a mark on, made again; `room` holds where each begins.

        The length of an adaptive step is known when it has been accepted, so the last is
        tried too, unless it is the mark's own.
        """
        end = back.left - 1
        if self.steps.adaptive:
            end = jnp.where(self.marks.stride == 1, end, end + 1)
        method = self.method(self.wanted)

        def active(place: Place) -> Array:
            return (place.accepted < end) & (place.tried < self.steps.most)

        def more(state: tuple[Place, Place]) -> Array:
            return eqxi.unvmap_any(active(state[0]))

        def advance(state: tuple[Place, Place]) -> tuple[Place, Place]:
            place, room = state
            trial = method.trial(place.t, place.goal, place.y, place.slope)
            _, new = judged(method, self.steps, self.ts, place, trial)
            new = chosen(active(place), new, place)
            index = jnp.clip(new.accepted - begin, 0, room.t.shape[0] - 1)
            due = active(place) & (new.accepted < back.left)

            def put(kept: Array, value: Array) -> Array:
                return kept.at[index].set(jnp.where(due, value, kept[index]))

            return new, jax.tree.map(put, room, new)

        return jax.lax.while_loop(more, advance, (first, room))[1]

    def _pulled(self, back: _Back, place: Place) -> _Back:
        """Back over one step."""

        def step(y: Array, slope: Array, wanted: Any) -> Trial:
            return self.method(wanted).trial(place.t, place.goal, y, slope)

        trial, pull = jax.vjp(step, place.y, place.slope, self.wanted)
        first = jnp.searchsorted(self.ts, place.t, side="right")
        last = jnp.searchsorted(self.ts, place.goal, side="right")
        method = self.method(self.wanted)

        def more(state: tuple[Array, Array, Trial]) -> Array:
            return eqxi.unvmap_any(state[0] < last)

        def row(state: tuple[Array, Array, Trial]) -> tuple[Array, Array, Trial]:
            index, y_bar, trial_bar = state
            now = jnp.minimum(index, self.ts.shape[0] - 1)

            def between(y: Array, trial: Trial) -> Array:
                return method.between(self.ts[now], place.t, place.goal, y, trial)

            _, pull = jax.vjp(between, place.y, trial)
            new = jax.tree.map(jnp.add, (y_bar, trial_bar), pull(self.rows_bar[now]))
            due = index < last
            return index + jnp.where(due, 1, 0), *chosen(due, new, (y_bar, trial_bar))

        none = jnp.zeros_like(trial.slopes).at[-1].set(back.slope_bar)
        trial_bar = Trial(back.y_bar, jnp.zeros_like(trial.error), none)
        state = (first, jnp.zeros_like(place.y), trial_bar)
        _, y_bar, trial_bar = jax.lax.while_loop(more, row, state)
        of_y, of_slope, of_numbers = pull(trial_bar)
        sums = jax.tree.map(jnp.add, back.sums, of_numbers)
        return _Back(back.left - 1, y_bar + of_y, of_slope, sums)
