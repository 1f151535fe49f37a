"""Contacts of a block of poses where several surfaces meet on a stretch, list after list.

The same as `_crowd` and `_rounds` do for all lanes at once.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from ..native import refilled, side_by_side
from ._block import SAME, Block, Found, Kinds, Slot, contacts_alone, nothing
from ._block_seats import Line, holding, joining, trying
from ._crowd import seats_of, without_third
from ._geodesic import Tried
from ._given import Given
from ._plan import Plan
from ._remainder import Left
from ._rounds import Problem, Row, Settling, rows_of, solve_contacts
from ._surfaces import Contact
from ._tables import Index, Poses, counted, entry, known, put, put_entry, take


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
    borne, depths = joining(block, found, seats, borne, m, holds)
    borne = trying(block, found, seats, borne, m, depths)
    second, rows = found.second, found.rows
    for mixture in _mixtures(block.plan, block.sided):
        listed = _meetings(block, borne, m, mixture)
        on, second, rows = _balanced(block, *listed, mixture, (on, second, rows))
    return Found(on, second, rows, found.share)


class _Mixture(NamedTuple):
    """Strings that are solved side by side."""

    kinds: Kinds
    """Kinds of surfaces that occur."""
    one_of: Kinds
    """Those of which there must be one; any, if none is named."""
    seats: int
    free: bool
    """Whether nothing but the string's own length may say where it lies, on some stretch."""
    turns: bool
    """Whether there are cylinders with two ways."""


def _mixtures(plan: Plan, sided: np.ndarray) -> list[_Mixture]:
    """The costly kinds are kept apart: who has none of them need not wait for them. So are
    strings over three surfaces, which are rare."""
    every = tuple(dict.fromkeys(plan.kinds))
    kinds = np.asarray(plan.kinds)

    def mixture(known: Kinds, one_of: Kinds, seats: int) -> _Mixture:
        groups = [
            list(group)
            for group in plan.crowded
            if len(group) >= seats and (not one_of or np.isin(kinds[list(group)], one_of).any())
        ]
        free = any(not (sided[group] | (kinds[group] == "torus")).any() for group in groups)
        turns = any((~sided[group] & (kinds[group] == "cylinder")).any() for group in groups)
        return _Mixture(known, one_of, seats, free, turns)

    cheap = tuple(kind for kind in every if kind in ("cylinder", "sphere"))
    out = [mixture(cheap, (), 2)] if cheap else []
    for kind in ("ellipsoid", "torus"):
        if kind in every:
            out.append(mixture((*(out[-1].kinds if out else ()), kind), (kind,), 2))
    if any(len(group) > 2 for group in plan.crowded):
        out.append(mixture(every, (), 3))
    return out


def _meetings(block: Block, borne: Array, m: Index, mixture: _Mixture) -> tuple[Array, Index]:
    """Stretches that several surfaces bear, of one mixture: slots, in the string's order; which
    of them hold it, as bits; pose; seat of the bearer; the longest; seats that are begun the
    other way round, as bits; and how many such tries of the same come after it, -1 for those."""
    kinds, one_of, seats = mixture[:3]
    named = np.array(block.plan.kinds)
    inside, needed = np.isin(named, kinds), np.isin(named, one_of)
    none = jnp.zeros((), jnp.int32)

    def note(line: Index, lists: tuple) -> tuple:
        joined, count = lists
        own = entry(borne, line)
        bearer, pose, longest = own[Line.bearer], own[Line.pose], own[Line.longest]
        pair, ways = without_third(
            jnp.stack([own[Line.ahead], own[Line.behind]]),
            jnp.stack([own[Line.early], own[Line.late]]),
            bearer == longest,
        )
        ahead, behind = pair
        early, late = (ways != 0).astype(jnp.int32)
        # Strings over two surfaces take the first two seats.
        has = (ahead >= 0).astype(jnp.int32)
        three = jnp.stack([ahead, bearer, behind, early + 4 * late])
        two = jnp.stack([bearer, behind, none - 1, 2 * late])
        row = jnp.where(has > 0, three, two)
        both = (ahead >= 0) & (behind >= 0)
        here = both if seats == 3 else ((ahead >= 0) | (behind >= 0)) & ~both
        slots = [ahead, bearer, behind]
        for slot in slots:
            here = here & ((slot < 0) | (known(inside, jnp.maximum(slot, 0)) > 0))
        if one_of:
            some = [(slot >= 0) & (known(needed, jnp.maximum(slot, 0)) > 0) for slot in slots]
            here = here & (some[0] | some[1] | some[2])
        tries = own[Line.tries]
        worth = [((tries & way) == way) & (tries > 0) & here for way in (1, 2, 3, 4, 4)]
        more = sum(x.astype(jnp.int32) for x in worth)
        for way, enters in enumerate((here, *worth)):
            back = (0, 1, 2, 3, 0, 2)[way]
            back = jnp.where(has > 0, (back & 1) * 2 + back // 2, back)
            starts = has if way < 4 else 1 - has
            rest = jnp.stack([pose, starts, longest, back, more if way == 0 else none - 1])
            joined = put_entry(joined, count, jnp.concatenate([row, rest]))
            count = count + enters
            if not mixture.free or seats == 3:
                break
        return joined, count

    width = _TRIES if mixture.free and seats == 2 else 1
    room = width * borne.shape[1]
    return counted(0, m, note, (lax.empty((_JOINED, room), jnp.int32), none))


_JOINED, _TRIES = 9, 6
"""Rows of that list, and strings at most of which the shortest is taken."""


def _balanced(
    block: Block, joined: Array, n: Index, mixture: _Mixture, tables: tuple[Array, Array, Array]
) -> tuple[Array, Array, Array]:
    """Contacts with those that meet solved together."""
    _, second, rows = tables
    nobody, seats = block.count, mixture.seats

    def end(t: Index, state: tuple[Problem, Settling], answers: Array) -> Array:
        problem, settling = state
        slots = entry(joined, t)[:seats, None]
        rows = rows_of(problem.seats, slots, settling.found(problem), True)
        rows = jnp.concatenate([rows, problem.second[None].astype(rows.dtype)])
        return put_entry(answers, t, rows)

    answers = refilled(
        n,
        lambda t: _joined(block, rows, second, entry(joined, t), mixture),
        lambda state: state[1].goes_on(),
        lambda state: (state[0], state[1].again(state[0], _one_by_one, mixture.free)),
        end,
        lax.empty((Row.count + 1, seats, joined.shape[1]), block.dtype),
    )

    def seat(t: Index, tables: tuple) -> tuple:
        on, second, rows = tables
        *row, _, pose, own, longest, _, more = entry(joined, t)
        row = row[:seats]
        columns = entry(answers, t)
        if mixture.free and seats == 2:
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
    for k in range(1, _TRIES):
        new = entry(answers, jnp.where(more >= k, t + k, t))
        settled, known = (jnp.all(x[Row.converged] > 0.5) for x in (new, best))
        shorter = new[Row.long, 0] < best[Row.long, 0] - SAME
        best = jnp.where(settled & (~known | shorter), new, best)
    return best


def _joined(
    block: Block,
    rows: Array,
    second: Array,
    line: Int[Array, " 9"],
    mixture: _Mixture,
) -> tuple[Problem, Settling]:
    """Two or three surfaces on one stretch, in the string's order, before they are solved
    together."""
    count = mixture.seats
    row, bits, pose, own = line[:count], line[3], line[4], line[5]

    def seat(_: None, slot: Array) -> tuple[None, Given]:
        return None, block.given(jnp.maximum(slot, 0), pose, mixture.kinds).given

    _, seats = lax.scan(seat, None, row)
    seats = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -2), seats)
    bearer = jnp.where(own > 0, row[1], row[0])
    turned = take(second, bearer, pose)[0] > 0.5
    holds = (bits & jnp.asarray([1, 2, 4][:count], jnp.int32)) > 0
    way = jnp.where(jnp.arange(count) == own, turned, holds)[:, None]
    wanted = seats.usable & (row >= 0)[:, None]
    tried = Tried.nothing(wanted, block.dtype)
    alone = take(rows, bearer, pose)[: Row.long]
    ends = seats.begins[:, 0], seats.ends[:, 0]
    tries = (line[7] & jnp.asarray([1, 2, 4][:count], jnp.int32))[:, None] > 0
    left = seats.left(way)
    problem = Problem(seats, left, way, tries, wanted, True, alone, own[None, None], *ends)
    if mixture.free or mixture.turns:
        # Few have a choice of ways.
        turns = jnp.any(seats.surfaces.firm & wanted) | jnp.any(tries)
        problem = lax.cond(turns, problem.trying, lambda _: problem, tries)
    return problem, Settling.begun(problem, tried)


def _one_by_one(
    seats: Given, begins: Array, ends: Array, left: Left, wanted: Array, tried: Tried
) -> tuple[Contact, Tried]:
    """`solve_contacts` for one seat after the other, where wanted; each comes from where the
    one before it has just been found to go."""

    def one(before: tuple, seat: tuple) -> tuple[tuple, tuple[Contact, Tried]]:
        met, from_ = before
        given, begins, ends, left, wanted, tried = seat
        begins = jnp.where(met, from_, begins)

        def solve() -> tuple[Contact, Tried]:
            return solve_contacts(given, begins, ends, left, wanted, tried, True)

        def skip() -> tuple[Contact, Tried]:
            none, no = jnp.zeros((3, *wanted.shape), begins.dtype), jnp.zeros_like(wanted)
            return Contact(no, none, none, none[0], ~no), tried

        found, tried = lax.cond(wanted[0], solve, skip)
        return (met | found.on, jnp.where(found.on, found.q, from_)), (found, tried)

    given = (seats, begins, ends, left, wanted, tried)
    given = jax.tree.map(lambda x: jnp.moveaxis(x, -2, 0), given)
    start = (jnp.zeros((1,), bool), jnp.zeros((3, 1), begins.dtype))
    _, (found, tried) = lax.scan(one, start, given)
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -2), (found, tried))
