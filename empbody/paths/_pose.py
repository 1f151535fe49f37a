"""Contacts of all slots, one pose and one slot after the other.

The same as `_contacts`, with the same functions for single surfaces, rounds and squeezing, but
as a program of loops and branches over single strings: made to be turned into machine code
(`empbody.native`), where branches that are not taken cost nothing. XLA would run it slowly.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ._crowd import seats_of
from ._ellipsoid import Tried
from ._given import Given
from ._plan import Plan
from ._remainder import Left
from ._rounds import Row, rows_of, settle, solve_contacts
from ._surfaces import Contact, Surfaces

SAME = 1e-9
"""Strings that differ by less (m) are the same one."""
SECOND, _USABLE, SHARE, _COLUMNS = 12, 13, 14, 15
"""Rows after those of `Row`."""


class Slot(NamedTuple):
    """One slot at one pose, as a batch of one."""

    centre: Float[Array, "3 1"]
    rotation: Float[Array, "3 3 1"]
    size: Float[Array, "3 1"]
    """As in `Surfaces`, and so is `half`."""
    half: Float[Array, " 1"]
    begin: Float[Array, "3 1"]
    end: Float[Array, "3 1"]
    exists: Bool[Array, " 1"]


Fetch = Callable[[Int[Array, ""]], Slot]


class Pose:
    """The slots of one pose."""

    def __init__(self, plan: Plan, has: tuple[str, ...], fetch: Fetch) -> None:
        self.plan, self.has, self.fetch = plan, has, fetch
        kinds = np.asarray(plan.kinds)
        self._kinds = [kinds == kind for kind in ("cylinder", "ellipsoid", "torus")]
        which = [slot.surface for slot in plan.slots]
        self._side = plan.sides[:, which] * (kinds != "torus")
        self._sunk = np.asarray([slot.sunk for slot in plan.slots]).T
        self.seats = seats_of(plan) if plan.crowded else np.zeros((0, 1), int)

    def slot(self, k: Int[Array, ""]) -> tuple[Surfaces, Slot]:
        slot = self.fetch(k)
        cylinder, ellipsoid, torus = (at(x, k) for x in self._kinds)
        surfaces = Surfaces(
            centre=slot.centre,
            rotation=slot.rotation,
            size=slot.size,
            half=slot.half,
            side=at(self._side.astype(slot.begin.dtype), k),
            cylinder=cylinder,
            ellipsoid=ellipsoid,
            torus=torus,
            has=self.has,
        )
        return surfaces, slot

    def given(self, k: Int[Array, ""]) -> "_One":
        surfaces, slot = self.slot(k)
        a, b = surfaces.local(slot.begin), surfaces.local(slot.end)
        usable = slot.exists
        for sunk, x in zip(self._sunk, (a, b), strict=True):
            usable = usable & ~(at(sunk, k) & surfaces.inside(x))
        plain, other, second, unsure = surfaces.options(a, b)
        given = Given(surfaces, slot.begin, slot.end, usable, plain.scale, other)
        touch = surfaces.touch(a, b, plain)
        return _One(given, jnp.stack([usable & touch, usable & second])[:, 0], unsure[0])


def at(x: Array | np.ndarray, k: Int[Array, ""]) -> Array:
    """One member of the last axis, as a batch of one."""
    return lax.dynamic_slice_in_dim(jnp.asarray(x), k, 1, -1)


class _One(NamedTuple):
    given: Given
    wanted: Bool[Array, " 2"]
    """Which of its two ways are worth a try."""
    unsure: Bool[Array, ""]


def pose_contacts(plan: Plan, slots: Slot) -> Float[Array, "13 ns"]:
    """Of all slots at one pose, last axis of each entry: rows of contacts, then whether it is
    the second way."""
    pose = Pose(plan, plan.has, lambda k: jax.tree.map(lambda x: at(x, k), slots))
    return lax.slice_in_dim(contact_table(pose, slots.begin.dtype), 0, SECOND + 1)


def contact_table(pose: Pose, dtype: jnp.dtype) -> Float[Array, "columns ns"]:
    """Rows of contacts of all slots, and more."""
    count = len(pose.plan.slots)

    def alone(k: Array, table: Array) -> Array:
        return _put(table, _alone(pose.given(k)), k)

    table = lax.fori_loop(0, count, alone, jnp.zeros((_COLUMNS, count), dtype))
    if len(pose.seats) == 0:
        return table
    return lax.fori_loop(0, len(pose.seats), lambda row, table: _together(pose, table, row), table)


def _put(table: Array, column: Float[Array, " columns"], k: Int[Array, ""]) -> Array:
    return lax.dynamic_update_slice(table, column[:, None], (jnp.zeros_like(k), k))


def column(table: Array, k: Int[Array, ""]) -> Float[Array, " columns"]:
    return lax.dynamic_slice(table, (jnp.zeros_like(k), k), (table.shape[0], 1))[:, 0]


def _nothing(wanted: Array, dtype: jnp.dtype) -> Contact:
    none, no = jnp.zeros((3, *wanted.shape), dtype), jnp.zeros_like(wanted)
    return Contact(no, none, none, none[0], ~no)


def _alone(one: _One) -> Float[Array, " columns"]:
    """The contact of one slot with nothing but its own surface in the way, in the better of two
    ways."""
    given, wanted, unsure = one
    dtype = given.begins.dtype
    usable, share = given.usable[0].astype(dtype), given.share[0]
    margin = max(SAME, 10.0 * float(jnp.finfo(dtype).eps))
    here = jnp.ones((1,), bool)

    def solve(way: Array) -> Array:
        left = given.left((way == 1)[None])
        tried = Tried.nothing(here, dtype)
        found, _ = solve_contacts(given, given.begins, given.ends, left, here, tried)
        slot = jnp.full((1, 1), -1, jnp.int32)
        lifted = jax.tree.map(lambda x: x[..., None, :], found)
        return rows_of(_lifted(given), slot, lifted)[:, 0, 0]

    nothing = np.zeros(Row.count)
    nothing[[Row.converged, Row.came, Row.went]] = 1.0, -1.0, -1.0
    none = jnp.asarray(nothing, dtype)

    def both(loop: tuple) -> tuple:
        way, first, _ = loop
        this = lax.cond(wanted[way], solve, lambda _: none, way)
        return way + 1, jnp.where(way == 0, this, first), this

    def some() -> Array:
        zero = jnp.zeros((), jnp.int32)
        last = 1 + wanted[1].astype(jnp.int32)
        _, first, other = lax.while_loop(lambda loop: loop[0] < last, both, (zero, none, none))
        second = wanted[1] & (other[Row.on] > 0.5)
        shorter = (other[Row.long] < first[Row.long] - margin) & (first[Row.on] > 0.5)
        better = second & jnp.where(unsure, shorter, ~shorter)
        on = (first[Row.on] > 0.5) | (second & ~unsure)
        rows = jnp.where(better, other, first).at[Row.on].set(on.astype(dtype))
        return jnp.concatenate([rows, better.astype(dtype)[None]])

    def no() -> Array:
        return jnp.concatenate([none, jnp.zeros((1,), dtype)])

    rows = lax.cond(wanted[0] | wanted[1], some, no)
    return jnp.concatenate([rows, usable[None], share[None]])


def _lifted(given: Given) -> Given:
    """With an axis for seats before the batch."""
    return jax.tree.map(lambda x: x[..., None, :], given)


def _together(pose: Pose, table: Array, row: Int[Array, ""]) -> Array:
    """One crowded stretch: the one that makes the string longest bears it, others join."""
    seats = lax.dynamic_index_in_dim(jnp.asarray(pose.seats, jnp.int32), row, 0, False)
    width = pose.seats.shape[1]
    dtype = table.dtype

    def seat(k: Array) -> Array:
        return lax.dynamic_index_in_dim(seats, k, 0, False)

    def longer(k: Array, best: tuple) -> tuple:
        slot = seat(k)
        rows = column(table, jnp.maximum(slot, 0))
        long = jnp.where(rows[Row.on] > 0.5, rows[Row.long], -1.0)
        better = (slot >= 0) & (long > best[1])
        return jnp.where(better, slot, best[0]), jnp.where(better, long, best[1])

    nobody = jnp.full((), -1, jnp.int32)
    bearer, _ = lax.fori_loop(0, width, longer, (nobody, jnp.full((), -0.5, dtype)))

    def borne(table: Array) -> Array:
        contact = column(table, bearer)
        p, q = contact[Row.p, None, None], contact[Row.q, None, None]

        def joins(k: Array, best: tuple) -> tuple:
            slot = seat(k)
            here = jnp.maximum(slot, 0)
            rows = column(table, here)

            def excess() -> Array:
                given = pose.given(here).given
                a, b = given.begins[:, None], given.ends[:, None]
                pieces = jnp.concatenate([a, q], axis=1), jnp.concatenate([p, b], axis=1)
                return given.surfaces.excess(*pieces, given.share)[:, 0]

            usable = (slot >= 0) & (slot != bearer) & (rows[_USABLE] > 0.5)
            early, late = lax.cond(usable, excess, lambda: -jnp.ones((2,), dtype))
            # A surface that both pieces run into joins where they do so more.
            depth = jnp.stack(
                [jnp.where(early < late, -1.0, early), jnp.where(early < late, late, -1.0)]
            )
            more = depth > best[1]
            return jnp.where(more, slot, best[0]), jnp.where(more, depth, best[1])

        none = jnp.full((2,), -1, jnp.int32)
        joined, _ = lax.fori_loop(0, width, joins, (none, jnp.zeros((2,), dtype)))

        def leave(k: Array, table: Array) -> Array:
            """Only the bearer stays; those that join are put in again."""
            slot = seat(k)
            goes = (slot >= 0) & (slot != bearer)
            here = jnp.maximum(slot, 0)
            on = lax.dynamic_slice(table, (jnp.zeros_like(here), here), (1, 1))
            new = jnp.where(goes, 0.0, on)
            return lax.dynamic_update_slice(table, new, (jnp.zeros_like(here), here))

        table = lax.fori_loop(0, width, leave, table)
        row = jnp.stack([joined[0], bearer, joined[1]])
        return lax.cond(
            jnp.any(joined >= 0),
            lambda table: _joined(pose, table, row),
            lambda table: table,
            table,
        )

    return lax.cond(bearer >= 0, borne, lambda table: table, table)


def _joined(pose: Pose, table: Array, row: Int[Array, " 3"]) -> Array:
    """Three seats on one stretch, the bearer in the middle, solved together."""
    dtype = table.dtype

    def seat(_: None, slot: Array) -> tuple[None, Given]:
        return None, pose.given(jnp.maximum(slot, 0)).given

    _, seats = lax.scan(seat, None, row)
    seats = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -2), seats)
    contact = column(table, row[1])
    turned = contact[SECOND] > 0.5
    second = (jnp.stack([turned & False, turned, turned & False]))[:, None]
    wanted = seats.usable & (row >= 0)[:, None]
    tried = Tried(Tried.nothing(wanted, dtype).rows, jnp.zeros((3, 1), int), jnp.zeros((3, 1), int))
    bearer = contact[: Row.long, None]
    found = settle(seats, seats.left(second), wanted, True, bearer, _one_by_one, tried)
    rows = rows_of(seats, row[:, None], found)[..., 0]
    more = jnp.stack([second[:, 0].astype(dtype), wanted[:, 0].astype(dtype), seats.share[:, 0]])
    columns = jnp.concatenate([rows, more])

    def put(table: Array, seat: tuple[Array, Array]) -> tuple[Array, None]:
        slot, rows = seat
        here = jnp.maximum(slot, 0)
        rows = jnp.where(slot >= 0, rows, column(table, here))
        return _put(table, rows, here), None

    return lax.scan(put, table, (row, columns.T))[0]


def _one_by_one(
    seats: Given, begins: Array, ends: Array, left: Left, wanted: Array, tried: Tried
) -> tuple[Contact, Tried]:
    """`solve_contacts` for one seat after the other, where wanted; each comes from where the
    one before it has just been found to go."""

    def one(before: tuple, seat: tuple) -> tuple[tuple, tuple[Contact, Tried]]:
        met, from_ = before
        given, begins, ends, left, wanted, tried = seat
        tried = Tried(tried.rows, tried.times[0], tried.enough[0])
        begins = jnp.where(met, from_, begins)

        def solve() -> tuple[Contact, Tried]:
            found, known = solve_contacts(given, begins, ends, left, wanted, tried)
            return found, Tried(known.rows, known.times[None], known.enough[None])

        def skip() -> tuple[Contact, Tried]:
            return _nothing(wanted, begins.dtype), Tried(
                tried.rows, tried.times[None], tried.enough[None]
            )

        found, tried = lax.cond(wanted[0], solve, skip)
        return (met | found.on, jnp.where(found.on, found.q, from_)), (found, tried)

    given = (seats, begins, ends, left, wanted, tried)
    given = jax.tree.map(lambda x: jnp.moveaxis(x, -2, 0), given)
    start = (jnp.zeros((1,), bool), jnp.zeros((3, 1), begins.dtype))
    _, (found, tried) = lax.scan(one, start, given)
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -2), (found, tried))
