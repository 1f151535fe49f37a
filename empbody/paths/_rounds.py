"""Contacts of picked slots, block by block: each alone, or those of a stretch together.

Both are the same work, rounds of contacts on the strings that are left by others, of which
those that are alone need one. So it stands here once and is compiled once.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._circle import plane_normal
from ._compact import by_blocks
from ._geodesic import Tried
from ._given import KEPT, SECOND, WAYS, Given
from ._remainder import Left, apart
from ._surfaces import Contact, Kernels, ValuesOnly, choose, string_length
from ._vectors import dot, length

_ROUNDS = 40
_STILL = 1e-8
"""Movement of the tangent points in a round (m) below which they have settled."""
_LEAP, _LEAST = 4.0, 0.3
"""How many times the last movement a leap may be where a side holds the string, and else what
part of the smaller surface."""
_STRIDE = 0.5
"""How far a string over a ball may move in a round, in radii, when it is not the first."""
_NOISE = 1e-8
"""Lengths may differ by as much because strings within rounds are only roughly right (m)."""
_AT_FIRST = 3
"""Rounds in which a ball is tried the other way round; afterwards it is as it comes."""
_CAREFUL, _PART = 15, 0.2
"""Where a surface holds the string from inside another (`_held`), so many rounds go only so
far: whole ones overshoot at first, and the string is lost through the surface that it left."""


class Table(NamedTuple):
    """Slots to solve, a column for what is solved together."""

    which: Int[Array, "seats room"]
    """(slot · WAYS + way) · lanes + lane; -1 for an empty seat."""
    total: Int[Array, ""]
    """Columns that there are; the rest is room."""
    linked: Bool[Array, ""]
    """Whether the seats of a column are surfaces on one stretch, in the string's order, with
    the middle one bearing it; otherwise each is a string of its own."""


class Row:
    """Rows of the results."""

    on, converged, arc, p, q = 0, 1, 2, slice(3, 6), slice(6, 9)
    long, came, went, count = 9, 10, 11, 12


def solve_table(
    pick: Callable[[Array, Array], Given],
    table: Table,
    alone: Float[Array, "12 ns lanes"],
    results: Float[Array, "13 seats room"],
    block: int,
) -> Float[Array, "13 seats room"]:
    """Contacts in the ground frame of all columns, values only, and whether they are of the
    second way. `alone` holds those of slots that are alone; it is needed for linked ones."""
    lanes = alone.shape[-1]

    def step(which: Array, at: Array, results: Array) -> Array:
        there = which >= 0
        which = jnp.maximum(which, 0)
        slot, way, lane = which // (WAYS * lanes), which // lanes % WAYS, which % lanes
        second = way == SECOND
        seats = pick(slot, lane)
        wanted = seats.usable & there
        holds, kept = second & table.linked, (way == KEPT) & table.linked
        second = second | kept
        left = seats.left(jnp.where(second, SECOND, way))
        if slot.shape[0] == 1:
            tried = Tried.nothing(wanted, seats.begins.dtype)
            found, _ = solve_contacts(seats, seats.begins, seats.ends, left, wanted, tried)
        else:
            rows = alone.at[: Row.long, slot[1], lane[1]].get(mode="promise_in_bounds")
            tried = Tried.nothing(wanted, seats.begins.dtype)
            ends = seats.begins[:, 1], seats.ends[:, 1]
            no = jnp.zeros_like(wanted)
            holds = holds.at[1].set(False)
            state = second, holds, kept, no, wanted, table.linked
            problem = Problem(seats, left, *state, rows, 1, *ends)
            problem = problem.trying(no)
            second, found = problem.second, settle(problem, solve_contacts, tried)
        rows = rows_of(seats, slot, found)
        rows = jnp.concatenate([rows, second[None].astype(rows.dtype)])
        return jax.lax.dynamic_update_slice_in_dim(results, rows, at, -1)

    return by_blocks(step, table.which, table.total, block, results)


def rows_of(seats: Given, slot: Array, found: Contact, whole: Array | None = None) -> Array:
    """Rows of the results. The length is that of each seat's string, or the `whole` string's
    over all of them."""
    if whole is None:
        long = string_length(seats.begins, found.p, found.arc, found.q, seats.ends)
    else:
        long = jnp.broadcast_to(whole, found.arc.shape)
    none = jnp.full_like(slot[0], -1)
    came, went = [none], [none]
    for k in range(slot.shape[0] - 1):
        came.append(jnp.where(found.on[k], slot[k], came[-1]))
        went.append(jnp.where(found.on[-1 - k], slot[-1 - k], went[-1]))
    parts = [found.on, found.converged, found.arc, *found.p, *found.q, long]
    parts = [*parts, jnp.stack(came), jnp.stack(went[::-1])]
    return jnp.stack([x.astype(long.dtype) for x in parts])


def preferred(shorter: Array, one: Array, two: Array) -> Bool[Array, "..."]:
    """Of two ways, whether the second is right, which may be the shorter one; but one that was
    not found says nothing."""
    return (two & ~one) | (shorter & (two | ~one))


def solve_contacts(
    seats: Given,
    begins: Array,
    ends: Array,
    left: Left,
    wanted: Array,
    tried: Tried,
    reach: Array | None = None,
    hurried: bool = False,
) -> tuple[Contact, Tried]:
    """Contacts in the ground frame of strings from `begins` to `ends`; all at once, so that none
    comes after another one."""
    kernels = ValuesOnly(tried, hurried)
    return contacts_with(kernels, seats, begins, ends, left, wanted), kernels.tried


def contacts_with(
    kernels: Kernels, seats: Given, begins: Array, ends: Array, left: Left, wanted: Array
) -> Contact:
    surfaces = seats.surfaces
    found = surfaces.contact(surfaces.local(begins), surfaces.local(ends), left, wanted, kernels)
    return found._replace(p=surfaces.world(found.p), q=surfaces.world(found.q))


def neighbours(
    on: Bool[Array, "seats *batch"],
    p: Float[Array, "3 seats *batch"],
    q: Float[Array, "3 seats *batch"],
    begin: Float[Array, "3 *batch"],
    end: Float[Array, "3 *batch"],
) -> tuple[Float[Array, "3 seats *batch"], Float[Array, "3 seats *batch"]]:
    """Where the string comes from and goes to at each of some seats in a row."""
    came, went, last = [begin], [end], on.shape[0] - 1
    for k in range(last):
        came.append(jnp.where(on[k][None], q[:, k], came[-1]))
        went.append(jnp.where(on[last - k][None], p[:, last - k], went[-1]))
    return jnp.stack(came, axis=1), jnp.stack(went[::-1], axis=1)


def whole_length(found: Contact, begin: Array, end: Array) -> Float[Array, "*batch"]:
    """Of a string over some seats in a row."""
    total, last = jnp.zeros_like(begin[0]), begin
    for k in range(found.on.shape[0]):
        on, p, q = found.on[k], found.p[:, k], found.q[:, k]
        total = total + jnp.where(on, length(p - last) + found.arc[k], 0.0)
        last = jnp.where(on[None], q, last)
    return total + length(end - last)


Solver = Callable[[Given, Array, Array, Left, Array, Tried, Array | None], tuple[Contact, Tried]]
"""The last argument is how far seats may move those that come after them at once (m)."""


class Problem(NamedTuple):
    """Two or three seats on one stretch, in the string's order, or as many strings of their
    own."""

    seats: Given
    left: Left
    second: Bool[Array, "seats *batch"]
    """Whether that is of the second way."""
    holds: Bool[Array, "seats *batch"]
    """Whether it holds the string that another one bears (see `_held`)."""
    kept: Bool[Array, "seats *batch"]
    """Whether it keeps the string on its side (see `_keeping`)."""
    tries: Bool[Array, "seats *batch"]
    """Whether a way is only tried."""
    wanted: Bool[Array, "seats *batch"]
    linked: Bool[Array, ""] | bool
    bearer: Float[Array, "9 *batch"]
    """Rows of the one that bears the string, alone."""
    seat: int | Int[Array, "1 *batch"]
    """Where that one is."""
    begin: Float[Array, "3 *batch"]
    """Ends of the stretch."""
    end: Float[Array, "3 *batch"]

    @property
    def bears(self) -> Bool[Array, "seats *#batch"]:
        numbers = jnp.arange(self.wanted.shape[0]).reshape(-1, *([1] * (self.wanted.ndim - 1)))
        return (numbers == self.seat) & self.linked

    def alone(self) -> Contact:
        """The string over the bearer alone, at its seat."""
        wide = jnp.broadcast_to(self.bearer[:, None], (self.bearer.shape[0], *self.wanted.shape))
        on = jnp.broadcast_to(self.bears, self.wanted.shape)
        return Contact(on, wide[Row.p], wide[Row.q], wide[Row.arc], on)

    @property
    def _sided(self) -> Bool[Array, "seats *batch"]:
        side = self.seats.surfaces.side
        return (dot(side, side) > 0.0) & self.second & self.linked

    def held(self) -> Bool[Array, "*batch"]:
        """Whether another one than the bearer holds the string (see `_held`)."""
        return jnp.any(self.holds, axis=0)

    def pinned(self) -> Bool[Array, "*batch"]:
        """Whether a side or a torus holds the string, so that it need not be shortest; one that is
        kept on the side of a cylinder is the shortest of those."""
        return jnp.any(
            (self._sided & ~self.kept) | (self.seats.surfaces.torus & self.wanted), axis=0
        )

    def trying(self, tries: Bool[Array, "seats *batch"]) -> "Problem":
        """With some seats the other way round than the string would take them: which way is
        that of the shortest string, the length over one surface alone does not tell."""
        surfaces, left, given = self.seats.surfaces, self.left, self.seats

        def normal(begins: Array, ends: Array) -> Array:
            a, b = (surfaces.round(surfaces.local(x)) for x in (begins, ends))
            return plane_normal(*apart(a, b))

        straight = normal(given.begins, given.ends)
        # The bearer first: the others come upon the string as it leaves it.
        back = self.bears & tries
        turn = jnp.where(self.second ^ tries, -1.0, 1.0)[None] * straight
        ends = surfaces.local(given.begins), surfaces.local(given.ends)
        rough = surfaces.roughly(*ends, left._replace(turn=turn))
        start = self.alone()
        p, q = (
            jnp.where(back[None], surfaces.world(x), y)
            for x, y in zip(rough, (start.p, start.q), strict=True)
        )
        here = normal(*neighbours(start.on, p, q, self.begin, self.end))
        second = jnp.where(self.bears, self.second, dot(straight, here) < 0.0) ^ tries
        turn = jnp.where(second, -1.0, 1.0)[None] * straight
        turned = (surfaces.firm | tries) & self.linked
        p, q = (jnp.sum(jnp.where(self.bears[None], x, 0.0), axis=1) for x in (p, q))
        return self._replace(
            bearer=jnp.concatenate([self.bearer[: Row.arc + 1], p, q]),
            left=left._replace(turn=jnp.where(turned[None], turn, left.turn)),
            second=jnp.where(turned, second & ~self.slips, self.second),
            tries=tries,
        )

    @property
    def slips(self) -> Bool[Array, "seats *batch"]:
        """From a ball a string slips by itself unless others hold it."""
        return ~(self.seats.surfaces.cylinder | self.seats.surfaces.ellipsoid)

    def left_now(self, rounds: Int[Array, ""]) -> Left:
        free = self.tries & self.slips & (rounds >= _AT_FIRST)
        return self.left._replace(turn=jnp.where(free[None], 0.0, self.left.turn))

    def pierced(self, found: Contact) -> Bool[Array, "*batch"]:
        """Whether a surface is only left alone because the string ends inside it."""
        surfaces, left = self.seats.surfaces, self.left
        inside = jnp.zeros_like(self.wanted)
        for point in neighbours(found.on, found.p, found.q, self.begin, self.end):
            local = surfaces.round(surfaces.local(point)) - left.shift
            inside = inside | (dot(local, local) < (1.0 - 1e-6) * left.scale**2)
        return jnp.any(inside & self.wanted & ~found.on & ~surfaces.torus, axis=0)


class Settling(NamedTuple):
    """Rounds until nothing moves: all contacts anew, each on the string that others leave.

    Rounds alone would converge linearly, slowly where surfaces are close; so the next one
    starts from the mixture of the last three that should move least (Anderson's method). That
    finds saddles as well, from which a string would slip; but each round shortens the string
    unless a side or a torus pins it, so leaps that make it longer are taken back.
    Without links one round is enough.
    """

    rounds: Int[Array, ""]
    moving: Bool[Array, "*batch"]
    guess: Float[Array, "6 seats *batch"]
    now: Contact
    history: tuple
    whole: Float[Array, "*batch"]
    """Length of the string (m)."""
    leapt: Bool[Array, "*batch"]
    """Whether the guess is another one than the last round's outcome."""
    tried: Tried

    @staticmethod
    def begun(problem: Problem, tried: Tried) -> "Settling":
        start = problem.alone()
        zero = jnp.zeros((6, *problem.wanted.shape), problem.bearer.dtype)
        past = (zero, zero, zero[0, 0])
        guess = jnp.concatenate([start.p, start.q])
        moving = jnp.ones_like(problem.wanted[0])
        whole = (past, past), zero[0, 0]
        return Settling(jnp.zeros((), int), moving, guess, start, *whole, ~moving, tried)

    def goes_on(self) -> Bool[Array, ""]:
        return (self.rounds < _ROUNDS) & jnp.any(self.moving)

    def again(self, problem: Problem, solve: Solver, some_free: bool = True) -> "Settling":
        """One round more. `some_free`: not all problems are pinned."""
        count, moving, guess, now, history, before, leapt, tried = self
        seats, wanted, linked = problem.seats, problem.wanted, problem.linked
        left = problem.left_now(count)
        still = max(_STILL, 10.0 * float(jnp.finfo(guess.dtype).eps))
        ends = problem.begin, problem.end
        begins, ends = neighbours(now.on, guess[:3], guess[3:], *ends)
        begins = jnp.where(linked, begins, seats.begins)
        ends = jnp.where(linked, ends, seats.ends)
        free, size = ~problem.pinned(), seats.surfaces.size[0]
        at_most = None
        if some_free:
            # A string that was let go must not swing round a ball past what is in its way.
            swings = ~seats.surfaces.cylinder & free[None] & (count > 0) & now.on
            at_most = jnp.where(swings, _STRIDE * size, jnp.inf)
        new, tried = solve(seats, begins, ends, left, wanted, tried, at_most)
        # What has settled stays, so that it does not depend on who else is in the block.
        new = choose(moving[None], new, now)
        both = jnp.concatenate([new.p, new.q])
        shift = both - guess
        shift = jnp.where(new.on[None], shift, 0.0)
        same = jnp.all(new.on == now.on, axis=0)
        moves = jnp.max(jnp.abs(shift), axis=0)
        reach = jnp.max(moves, axis=0)
        # Strings that are only on their way to a solution may move little.
        far = (reach > still) | jnp.any(new.on & ~new.converged, axis=0)
        # Nor is a string settled that is still forced round the long way.
        forced = (count < _AT_FIRST) & jnp.any(problem.tries & problem.slips, axis=0)
        moved = moving & (far | ~same | forced) & linked
        if "ellipsoid" in seats.surfaces.has:
            tried = tried.loosely(seats.surfaces.ellipsoid & ~free[None])

        whole, worse = before, jnp.zeros_like(same)
        if some_free:
            # Where no side holds the string a round makes it shorter. A leap may not: then it
            # is taken back.
            whole = whole_length(new, problem.begin, problem.end)
            worse = free & leapt & (~same | (far & (whole > before + _NOISE)))
            whole = jnp.where(worse, before, whole)
        # A change of contacts makes a new problem: what came before says nothing.
        past = jax.tree.map(
            lambda x: jnp.where(jnp.broadcast_to(same & ~worse, x.shape), x, 0.0), history
        )
        ahead = _mixed(both, shift, past) - both
        leap = jnp.max(jnp.abs(ahead), axis=(0, 1))
        part = jnp.where(leap < _LEAP * reach, 1.0, 0.0)
        if some_free:
            # Far leaps end on other sides of surfaces.
            limit = _LEAST * jnp.min(size, axis=0)
            some = jnp.where(leap > limit, limit / jnp.where(leap > 0.0, leap, 1.0), 1.0)
            # Back to where the rounds come from is a saddle: the other way, then.
            away = (leap > reach) & (jnp.sum(ahead * shift, axis=(0, 1)) < 0.0)
            part = jnp.where(free, jnp.where(away, -some, some), part)
        part = jnp.where(same & (count > 0), part, 0.0)
        mixed = both + part[None, None] * ahead
        slow = (problem.held() & (count < _CAREFUL))[None] & new.on & now.on
        mixed = jnp.where(slow[None], guess + _PART * shift, mixed)
        if some_free:
            # Nor may the next round begin beyond that.
            swing = jnp.where(seats.surfaces.cylinder, 0.0, moves / size)
            swing = jnp.max(swing, axis=0)
            wide = free & (count > 0) & (swing > _STRIDE)
            less = (_STRIDE / jnp.where(wide, swing, 1.0))[None, None] * shift
            mixed = jnp.where(wide[None, None], guess + less, mixed)
            mixed = jnp.where(worse[None, None], history[1][0], mixed)
            leapt = (part * leap != 0.0) & ~worse & ~wide
        last = jnp.where(worse[None, None], history[1][0], both), shift
        last = (*last, (same & ~worse).astype(both.dtype))
        return Settling(
            count + 1,
            moved | (moving & worse),
            mixed,
            choose(worse[None], now, new),
            (past[1], last),
            whole,
            leapt,
            tried,
        )

    def found(self, problem: Problem) -> Contact:
        """Where no balance is found the bearer holds the string alone."""
        lost = (self.moving | (problem.held() & problem.pierced(self.now)))[None]
        found = choose(lost, problem.alone(), self.now)
        return found._replace(converged=found.converged & ~lost)


def settle(problem: Problem, solve: Solver, tried: Tried) -> Contact:
    state = jax.lax.while_loop(
        Settling.goes_on,
        lambda state: state.again(problem, solve),
        Settling.begun(problem, tried),
    )
    return state.found(problem)


def _mixed(value: Array, shift: Array, history: tuple) -> Array:
    """Anderson's mixture of a new value with two old ones: shifts combine to the least."""

    def sums(x: Array, y: Array) -> Array:
        return jnp.sum(x * y, axis=(0, 1))

    (v1, s1, known1), (v2, s2, known2) = history[1], history[0]
    known1, known2 = known1[None, None], (known1 * known2)[None, None]
    d1, d2 = (shift - s1) * known1, (shift - s2) * known2
    a11, a12, a22 = sums(d1, d1), sums(d1, d2), sums(d2, d2)
    b1, b2 = sums(d1, shift), sums(d2, shift)
    tiny = 1e-14 * (a11 + a22) + float(jnp.finfo(value.dtype).tiny)
    a11, a22 = a11 + tiny, a22 + tiny
    det = a11 * a22 - a12 * a12
    flat = det <= 1e-10 * a11 * a22
    det = jnp.where(flat, 1.0, det)
    x1 = jnp.where(flat, b1 / a11, (a22 * b1 - a12 * b2) / det)[None, None]
    x2 = jnp.where(flat, 0.0, (a11 * b2 - a12 * b1) / det)[None, None]
    return value - x1 * known1 * (value - v1) - x2 * known2 * (value - v2)
