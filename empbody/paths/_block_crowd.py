"""Contacts of a block of poses where several surfaces meet on a stretch, list after list.

The same as `_crowd` and `_rounds` do for all lanes at once.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..native import refilled, side_by_side
from ._block import SAME, Block, Found, Slot, contacts_alone, nothing
from ._block_meetings import TRIES, Meeting, Mixture, Task, meetings, mixtures, tasks_of
from ._block_seats import Line, holding, joining, trying
from ._crowd import seats_of
from ._geodesic import Tried
from ._given import Given
from ._keeping import keeping
from ._plan import Plan
from ._remainder import Left
from ._rounds import Problem, Row, Settling, rows_of, solve_contacts
from ._surfaces import Contact
from ._tables import Index, Poses, entry, known, put, put_entry, take
from ._vectors import length


def block_contacts(plan: Plan, slots: Slot, count: Index) -> Float[Array, "13 ns poses"]:
    """Of all slots (last axis but one of each entry) at all poses: rows of contacts, then
    whether it is the second way."""
    poses = Poses(max(x.shape[-1] for x in slots), count)

    def fetch(k: Index, pose: Index) -> Slot:
        return Slot(*(take(x, k, pose) for x in slots))

    block = Block(plan, poses, fetch, slots.begin.dtype)
    found = contacts(block)

    def whole(k: Index, pose: Index, out: Array) -> Array:
        on, second = take(found.on, k, pose), take(found.second, k, pose)
        rows = take(found.rows, k, pose)
        # What was not looked at has never been written.
        rows = jnp.where((on > 0.5)[None], rows, nothing(block.dtype)[:, None])
        return put(out, k, pose, jnp.concatenate([on[None], rows[1:], second[None]]))

    empty = lax.empty((Row.count + 1, block.count, poses.size), block.dtype)
    return poses.each_of(0, block.count, whole, empty)


def contacts(block: Block) -> Found:
    """Contacts of all slots."""
    found = contacts_alone(block)
    return _together(block, found) if block.plan.crowded else found


def _together(block: Block, found: Found) -> Found:
    """Crowded stretches: the surface that makes the string longest bears it, others join."""
    poses, dtype, nobody = block.poses, block.dtype, block.count
    seats = seats_of(block.plan)
    number, width = seats.shape
    room = number * poses.size
    none = jnp.zeros((), jnp.int32)

    def bear(r: Index, pose: Index, tables: tuple) -> tuple:
        on, bearers = tables
        slots = [known(seats[:, s], r) for s in range(width)]
        touches = [
            (take(found.on, jnp.maximum(slot, 0), pose)[0] > 0.5) & (slot >= 0) for slot in slots
        ]
        bearer, most = none - 1, jnp.full((), -0.5, dtype)
        for slot, there in zip(slots, touches, strict=True):
            long = take(found.rows, jnp.maximum(slot, 0), pose, Row.long)[0]
            better = there & (long > most)
            bearer, most = jnp.where(better, slot, bearer), jnp.where(better, long, most)
        # Only the longest stays; those that join are put in again.
        for slot, there in zip(slots, touches, strict=True):
            place = jnp.where(slot >= 0, slot, nobody)
            on = put(on, place, pose, there & (slot == bearer))
        return on, put(bearers, r, pose, bearer)

    bearers = lax.empty((number, poses.size), jnp.int32)
    on, bearers = poses.each_of(0, number, bear, (found.on, bearers))

    def note(r: Index, pose: Index, lists: tuple) -> tuple:
        longest = take(bearers, r, pose)[0]
        line = [none - 1, longest, none - 1, none, none, none, pose, r, longest, none]

        def enter(lists: tuple) -> tuple:
            borne, m = lists
            return put_entry(borne, m, jnp.stack(line)), m + 1

        return lax.cond(longest >= 0, enter, lambda lists: lists, lists)

    borne = lax.empty((Line.count, room + 1), jnp.int32)
    borne, m = poses.in_turn(0, number, note, (borne, none))
    borne, holds = holding(block, found, seats, borne, m)
    keeps = keeping(block)
    borne, depths = joining(block, found, seats, borne, m, holds, keeps)
    borne = trying(block, found, borne, m, depths)
    second, rows = found.second, found.rows
    met, n = meetings(block, borne, m)
    for mixture in mixtures(block.plan, block.sided):
        on, second, rows = _balanced(block, met, n, mixture, keeps, (on, second, rows))
    return Found(on, second, rows, found.share)


def _balanced(
    block: Block,
    met: Array,
    n: Index,
    mixture: Mixture,
    keeps: Array,
    tables: tuple[Array, Array, Array],
) -> tuple[Array, Array, Array]:
    """Contacts with those that meet solved together."""
    _, second, rows = tables
    nobody, seats = block.count, mixture.seats
    tasks, n = tasks_of(mixture, met, n)

    def end(t: Index, state: tuple[Problem, Settling], answers: Array) -> Array:
        problem, settling = state
        slots = entry(met, entry(tasks, t)[Task.meeting])[:seats, None]
        rows = rows_of(problem.seats, slots, settling.found(problem), settling.whole)
        rows = jnp.concatenate([rows, problem.second[None].astype(rows.dtype)])
        return put_entry(answers, t, rows)

    answers = refilled(
        n,
        lambda t: _joined(block, rows, second, keeps, met, entry(tasks, t), mixture),
        lambda state: state[1].goes_on(),
        lambda state: (state[0], state[1].again(state[0], _one_by_one, mixture.free)),
        end,
        lax.empty((Row.count + 1, seats, tasks.shape[1]), block.dtype),
    )

    def seat(t: Index, tables: tuple) -> tuple:
        on, second, rows = tables
        which, _, own, more = entry(tasks, t)
        meeting = entry(met, which)
        row, pose, longest = meeting[:seats], meeting[Meeting.pose], meeting[Meeting.longest]
        columns = entry(answers, t)
        if mixture.tries:
            columns = lax.cond(more > 0, lambda: _shortest(answers, t, more), lambda: columns)
        bearer = jnp.where(own > 0, row[1], row[0])
        settled = jnp.where(own > 0, columns[Row.converged, 1], columns[Row.converged, 0]) > 0.5
        # Where no balance is found the longest holds the string alone, whoever was to bear it.
        left_out = [(slot == longest) & (columns[Row.on, n] < 0.5) for n, slot in enumerate(row)]
        alone = (bearer != longest) & (functools.reduce(jnp.logical_or, left_out) | ~settled)
        for number, slot in enumerate(row):
            place = jnp.where((slot >= 0) & (more >= 0), slot, nobody)
            column = columns[:, number]
            before = take(rows, place, pose)[:, 0]
            unsure = jnp.where(jnp.arange(Row.count) == Row.converged, 0.0, before)
            touches = jnp.where(alone, take(on, place, pose)[0], column[Row.on])
            turned = jnp.where(alone, take(second, place, pose)[0], column[Row.count])
            on = put(on, place, pose, touches)
            rows = put(rows, place, pose, jnp.where(alone, unsure, column[: Row.count]))
            second = put(second, place, pose, turned)
        return on, second, rows

    return side_by_side(n, seat, tables)


def _shortest(answers: Array, t: Index, more: Index) -> Array:
    """The best of some tries: the shortest string."""
    best = entry(answers, t)
    for k in range(1, TRIES):
        new = entry(answers, jnp.where(more >= k, t + k, t))
        settled, known = (jnp.all(x[Row.converged] > 0.5) for x in (new, best))
        shorter = new[Row.long, 0] < best[Row.long, 0] - SAME
        best = jnp.where(settled & (~known | shorter), new, best)
    return best


def _joined(
    block: Block,
    rows: Array,
    second: Array,
    keeps: Array,
    met: Array,
    task: Int[Array, " 4"],
    mixture: Mixture,
) -> tuple[Problem, Settling]:
    """Two or three surfaces on one stretch, in the string's order, before they are solved
    together."""
    count = mixture.seats
    own, meeting = task[Task.seat], entry(met, task[Task.meeting])
    row, bits, pose = meeting[:count], meeting[Meeting.bits], meeting[Meeting.pose]

    def seat(_: None, slot: Array) -> tuple[None, tuple[Given, Array]]:
        slot = jnp.maximum(slot, 0)
        given = block.given(slot, pose, mixture.kinds).given
        return None, (given, given.kept & (take(keeps, slot, pose) > 0.5))

    _, (seats, kept) = lax.scan(seat, None, row)
    seats = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -2), seats)
    bearer = jnp.where(own > 0, row[1], row[0])
    turned = take(second, bearer, pose)[0] > 0.5
    holds = (bits & jnp.asarray([1, 2, 4][:count], jnp.int32)) > 0
    here = jnp.arange(count) == own
    way = jnp.where(here, turned, holds)[:, None] | kept
    holds = (holds & ~here)[:, None]
    kept = kept & ~holds
    wanted = seats.usable & (row >= 0)[:, None]
    tried = Tried.nothing(wanted, block.dtype)
    alone = take(rows, bearer, pose)[: Row.long]
    ends = seats.begins[:, 0], seats.ends[:, 0]
    tries = (task[Task.back] & jnp.asarray([1, 2, 4][:count], jnp.int32))[:, None] > 0
    left = seats.left(way.astype(jnp.int32))
    state = way, holds, kept, tries, wanted, True
    problem = Problem(seats, left, *state, alone, own[None, None], *ends)
    if mixture.free or mixture.turns:
        # Few have a choice of ways.
        turns = jnp.any(seats.surfaces.firm & wanted) | jnp.any(tries)
        problem = lax.cond(turns, problem.trying, lambda _: problem, tries)
    return problem, Settling.begun(problem, tried)


def _one_by_one(
    seats: Given,
    begins: Array,
    ends: Array,
    left: Left,
    wanted: Array,
    tried: Tried,
    reach: Array | None,
) -> tuple[Contact, Tried]:
    """`solve_contacts` for one seat after the other, where wanted; each comes from where the
    one before it has just been found to go, but not farther away than that may move it."""
    free = reach is not None
    reach = reach if free else jnp.full(wanted.shape, jnp.inf, begins.dtype)

    def one(before: tuple, seat: tuple) -> tuple[tuple, tuple[Contact, Tried]]:
        met, from_, may = before
        given, begins, ends, left, wanted, tried, reach = seat
        moved = from_ - begins
        if free:
            far = length(moved)
            moved = jnp.where(far > may, may / jnp.where(far > may, far, 1.0), 1.0)[None] * moved
        begins = jnp.where(met, begins + moved, begins)

        def solve() -> tuple[Contact, Tried]:
            return solve_contacts(given, begins, ends, left, wanted, tried, hurried=True)

        def skip() -> tuple[Contact, Tried]:
            none, no = jnp.zeros((3, *wanted.shape), begins.dtype), jnp.zeros_like(wanted)
            return Contact(no, none, none, none[0], ~no), tried

        found, tried = lax.cond(wanted[0], solve, skip)
        after = met | found.on, jnp.where(found.on, found.q, from_), jnp.where(found.on, reach, may)
        return after, (found, tried)

    given = (seats, begins, ends, left, wanted, tried, reach)
    given = jax.tree.map(lambda x: jnp.moveaxis(x, -2, 0), given)
    nowhere, no_limit = jnp.zeros((3, 1), begins.dtype), jnp.full((1,), jnp.inf, begins.dtype)
    start = jnp.zeros((1,), bool), nowhere, no_limit
    _, (found, tried) = lax.scan(one, start, given)
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -2), (found, tried))
