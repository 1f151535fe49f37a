"""Stretches with several surfaces: which of them lift the string, together.

Alone on the straight line, each surface would give the string a certain length. The one that
makes it longest bears it. Another one joins ahead of it, and another behind, if the free
piece there runs into it, or if it holds the string from inside (`_held`); then all are solved
together, each seeing the string as the others leave it, until nothing moves. Where surfaces
overlap and none runs into the other's free pieces, the longer string simply wins, so that the
length stays continuous.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ._compact import on_those, work_list
from ._given import KEPT, WAYS, Given
from ._held import Alone, hold
from ._keeping import clear, keepers
from ._plan import Plan
from ._rounds import Row, Table
from ._surfaces import Surfaces, choose

SEATS = 3
TOGETHER = 64
"""Stretches that are solved side by side: all wait for the slowest."""


class Seating(NamedTuple):
    """Who bears each crowded stretch, and who joins."""

    slots: Int[Array, "3 stretches lanes"]
    """Ahead, the bearer, behind; -1 if there is none."""
    longest: Int[Array, "stretches lanes"]
    """Bears it alone if they find no balance."""
    joined: Bool[Array, "stretches lanes"]
    place: Int[Array, "stretches lanes"]
    """Column of those that are joined."""


def joining(
    plan: Plan,
    pick: Callable[[Array, Array], Given],
    rows: Float[Array, "12 ns lanes"],
    second: Bool[Array, "ns lanes"],
    room: int,
    block: int,
) -> tuple[Array, Table, Seating]:
    """From each slot's contact alone: those without the slots that do not bear their stretch,
    and what is to be solved together."""
    seats, lanes = seats_of(plan), rows.shape[-1]
    longest = _longest(seats, rows)
    flat = longest.reshape(-1)
    none = jnp.full((6, flat.shape[0]), -1, jnp.int32)
    numbers = jnp.arange(flat.shape[0], dtype=jnp.int32)
    ahead, bearer, behind, early, own_way, late = on_those(
        lambda which: _joins(seats, keepers(plan), pick, rows, second, flat, which),
        flat >= 0,
        none,
        numbers,
    )
    joined = (ahead >= 0) | (behind >= 0)
    work = work_list(joined, block)
    order = jnp.concatenate([work.order, jnp.zeros(room - work.order.shape[0], jnp.int32)])
    # A side holds the string on the surface that bears it, or in the way of that one.
    lane = order % lanes
    slots = jnp.stack([ahead[order], bearer[order], behind[order]])
    way = jnp.stack([early[order], own_way[order], late[order]])
    which = jnp.where(slots < 0, -1, (WAYS * slots + way) * lanes + lane[None])
    # Only the longest stays; those that join are put in again.
    own = _stretch_of(plan)
    mine = longest[np.maximum(own, 0)] == jnp.arange(len(own))[:, None]
    on = jnp.where(mine | jnp.asarray(own < 0)[:, None], rows[Row.on], 0.0)
    shape = (len(seats), lanes)
    seating = Seating(
        jnp.stack([ahead, bearer, behind]).reshape(SEATS, *shape),
        longest,
        joined.reshape(shape),
        work.place.reshape(shape),
    )
    return rows.at[Row.on].set(on), Table(which, work.total, jnp.ones((), bool)), seating


def seated(
    plan: Plan, rows: Array, second: Array, results: Array, seating: Seating
) -> tuple[Array, Array]:
    """Contacts of all slots, with those that were solved together put in."""
    own = np.maximum(_stretch_of(plan), 0)
    slots, longest = seating.slots[:, own], seating.longest[own]
    me = jnp.arange(len(own))[:, None]
    early, late = slots[0] == me, slots[2] == me
    here = (early | late | (slots[1] == me)) & seating.joined[own]
    seat = jnp.where(early, 0, jnp.where(late, 2, 1))
    place = seating.place[own]
    new = results.at[:, seat, place].get(mode="promise_in_bounds")
    # Where no balance is found the longest holds the string alone, whoever was to bear it.
    state = results.at[:2, :, place].get(mode="promise_in_bounds") > 0.5
    alone = jnp.any((slots == longest[None]) & ~state[Row.on], axis=0) | ~state[Row.converged, 1]
    alone = alone & (slots[1] != longest)
    unsure = rows.at[Row.converged].set(0.0)
    rows = jnp.where(here[None], jnp.where(alone[None], unsure, new[: Row.count]), rows)
    return rows, jnp.where(here & ~alone, new[Row.count] > 0.5, second)


def may_join(
    surfaces: Surfaces, begins: Array, ends: Array, touches: Bool[Array, "*batch"]
) -> Bool[Array, "*batch"]:
    """Whether surfaces may join, which touch the straight stretch or do not.

    What is left of a surface with an end of the stretch inside passes through that end, and the
    string would lie against it to the last; with another one beside it, whose tangent points
    creep inside, there is soon no balance. So it joins only if the straight line meets it.
    """
    begins, ends = surfaces.local(begins), surfaces.local(ends)
    return touches | ~(surfaces.inside(begins) | surfaces.inside(ends))


def holding_depth(hold: Array, longest: Array, dtype: jnp.dtype) -> Float[Array, "2 ..."]:
    """In place of depths, ahead and behind, for seats that hold the string: those that merely
    join come first, but the longest comes before all."""
    rank = jnp.where(longest, _FIRST, _LAST).astype(dtype)
    return jnp.stack([jnp.where(hold < 0, rank, -1.0), jnp.where(hold > 0, rank, -1.0)])


_FIRST, _LAST = 1e3, 1e-12


def without_third(joined: Array, holds: Array, bears: Array) -> tuple[Array, Array]:
    """Seats ahead and behind without those that hold the string of the longest, which `bears`
    it, where another one joins it as well: three often find no balance."""
    three = jnp.all(joined >= 0, axis=0) & bears
    goes = jnp.broadcast_to(three, joined.shape) & (holds != 0)
    return jnp.where(goes, -1, joined), jnp.where(goes, 0, holds)


def seats_of(plan: Plan) -> np.ndarray:
    """(stretches, seats): slots of each crowded stretch, filled up with -1."""
    width = max(len(group) for group in plan.crowded)
    table = np.full((len(plan.crowded), width), -1)
    for row, group in enumerate(plan.crowded):
        table[row, : len(group)] = group
    return table


def _stretch_of(plan: Plan) -> np.ndarray:
    """Crowded stretch of each slot, or -1."""
    table = np.full(len(plan.slots), -1)
    for row, group in enumerate(plan.crowded):
        table[list(group)] = row
    return table


def _longest(seats: np.ndarray, rows: Array) -> Array:
    """(stretches, lanes): the slot that makes the string longest; -1 if none touches."""
    long = jnp.where(rows[Row.on] > 0.5, rows[Row.long], -1.0)
    best = jnp.full((len(seats), long.shape[-1]), -0.5, long.dtype)
    bearer = jnp.full(best.shape, -1, jnp.int32)
    for column in seats.T:
        there = long[np.maximum(column, 0)]
        better = (there > best) & jnp.asarray(column >= 0)[:, None]
        bearer = jnp.where(better, jnp.asarray(column, jnp.int32)[:, None], bearer)
        best = jnp.where(better, there, best)
    return bearer


def _joins(
    seats: np.ndarray,
    keeps_side: np.ndarray,
    pick: Callable[[Array, Array], Given],
    rows: Array,
    second: Array,
    longest: Array,
    which: Array,
) -> Array:
    """(6, items): slots that join ahead of the bearer, the bearer, and behind it, -1 if there
    are none; and their ways: second for those that hold the string, or `KEPT`."""
    lanes = rows.shape[-1]
    row, lane = which // lanes, which % lanes
    slots = jnp.asarray(seats.T, jnp.int32)[:, row]
    wide = jnp.broadcast_to(lane[None], slots.shape)
    there = pick(jnp.maximum(slots, 0), wide)
    bearer, holds = _holding(pick, rows, second, slots, longest[which], there, wide)
    contact = rows.at[:, bearer, lane].get(mode="promise_in_bounds")
    touches = rows.at[Row.on, jnp.maximum(slots, 0), wide].get(mode="promise_in_bounds") > 0.5
    may = may_join(there.surfaces, there.begins, there.ends, touches)
    usable = may & there.usable & (slots >= 0) & (slots != bearer[None])
    # Both free pieces at once: from the start to touch-down, from lift-off to the end.
    shape = there.begins.shape
    p, q = (jnp.broadcast_to(contact[x][:, None], shape) for x in (Row.p, Row.q))
    pieces = jnp.stack([there.begins, q], axis=1), jnp.stack([p, there.ends], axis=1)
    some = [k for k, column in enumerate(seats.T) if np.isin(column, keeps_side).any()]
    kept = there.kept & _clear(there, slots, some) if some else slots < -1
    excess = there.surfaces.excess(*pieces, there.on_its_way(kept))
    excess = jnp.where(usable[None], excess, -1.0)
    instead = holding_depth(holds, slots == longest[which][None], excess.dtype)
    excess = jnp.where((holds == 0)[None], excess, instead)
    early, late = excess[0], excess[1]
    # A surface that both pieces run into joins where they do so more.
    early, late = jnp.where(early < late, -1.0, early), jnp.where(early < late, late, -1.0)
    depth = jnp.stack([early, late])
    most = jnp.zeros_like(depth[:, 0])
    seat, ways = jnp.full(most.shape, -1, jnp.int32), jnp.zeros(most.shape, jnp.int32)
    for k in range(depth.shape[1]):
        more = depth[:, k] > most
        seat, most = jnp.where(more, slots[k][None], seat), jnp.where(more, depth[:, k], most)
        ways = jnp.where(more, jnp.abs(holds[k])[None], ways)
    seat, ways = without_third(seat, ways, bearer == longest[which])

    def keeps(slot: Array) -> Array:
        return jnp.any(kept & (slots == slot[None]), axis=0)

    turned = second.at[bearer, lane].get(mode="promise_in_bounds")
    own = jnp.where(keeps(bearer), KEPT, turned.astype(jnp.int32))
    ways = [jnp.where((w == 0) & keeps(x), KEPT, w) for w, x in zip(ways, seat, strict=True)]
    return jnp.stack([seat[0], bearer, seat[1], ways[0], own, ways[1]])


def _clear(
    seats: Given, slots: Int[Array, "seats items"], some: list[int]
) -> Bool[Array, "seats items"]:
    """Which of some seats are clear of all others on their stretch, if they are cylinders."""

    def of(k: int) -> Surfaces:
        pick = lambda x: x[..., k : k + 1, :] if x.shape[-2] > 1 else x  # noqa: E731
        return jax.tree.map(pick, seats.surfaces)

    def alone(k: int) -> Bool[Array, "1 items"]:
        out = jnp.full_like(slots[:1], k in some, dtype=bool)
        for other in range(slots.shape[0]):
            if other != k and k in some:
                apart = clear(of(k), of(other))
                out = out & (apart | (slots[other : other + 1] < 0))
        return out

    return jnp.concatenate([alone(k) for k in range(slots.shape[0])])


def _holding(
    pick: Callable[[Array, Array], Given],
    rows: Array,
    second: Array,
    slots: Int[Array, "seats items"],
    longest: Int[Array, " items"],
    there: Given,
    lane: Int[Array, "seats items"],
) -> tuple[Int[Array, " items"], Int[Array, "seats items"]]:
    """Who bears each stretch, and which seats hold the string that it bears: 1 behind it, -1
    ahead of it (see `_held`)."""

    def alone(slot: Array) -> Alone:
        own = rows.at[:, slot, lane].get(mode="promise_in_bounds")
        turned = second.at[slot, lane].get(mode="promise_in_bounds")
        return Alone(own[Row.on] > 0.5, turned, own[Row.p], own[Row.q])

    here, first = jnp.maximum(slots, 0), jnp.broadcast_to(longest[None], slots.shape)
    mine, contact, its = pick(first, lane), alone(first), alone(here)
    turned = contact.second
    on, behind = hold(
        choose(turned, mine, there),
        choose(turned, contact, its),
        choose(turned, there, mine),
        choose(turned, its, contact),
    )
    on = on & (slots >= 0) & (slots != first)
    way = jnp.where(behind, 1, -1)
    # Of several that cover the longest, the longest again.
    long = rows.at[Row.long, here, lane].get(mode="promise_in_bounds")
    long = jnp.where(on & turned, long, -1.0)
    best = jnp.argmax(long, axis=0)[None]
    taken = jnp.max(long, axis=0) > -0.5
    bearer = jnp.where(taken, jnp.take_along_axis(slots, best, axis=0)[0], longest)
    own = jnp.where(slots == first, jnp.take_along_axis(way, best, axis=0), 0)
    return bearer, jnp.where(turned, jnp.where(taken[None], own, 0), jnp.where(on, way, 0))
