"""Contacts of picked slots, block by block: each alone, or those of a stretch together.

Both are the same work, rounds of contacts on the strings that are left by others, of which
those that are alone need one. So it stands here once and is compiled once.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._compact import by_blocks
from ._geodesic import Tried
from ._given import Given
from ._remainder import Left
from ._surfaces import Contact, Kernels, ValuesOnly, choose, string_length
from ._vectors import dot

_ROUNDS = 40
_STILL = 1e-8
"""Movement of the tangent points in a round (m) below which they have settled."""
_LEAP = 4.0
"""How many times the last movement the next one may be."""
_CAREFUL, _PART = 15, 0.2
"""Where a surface holds the string from inside another (`_held`), so many rounds go only so
far: whole ones overshoot at first, and the string is lost through the surface that it left."""


class Table(NamedTuple):
    """Slots to solve, a column for what is solved together."""

    which: Int[Array, "seats room"]
    """(slot · 2 + way) · lanes + lane, with way 1 for the second; -1 for an empty seat."""
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
    results: Float[Array, "12 seats room"],
    block: int,
) -> Float[Array, "12 seats room"]:
    """Contacts in the ground frame of all columns; values only. `alone` holds those of slots
    that are alone; it is needed for linked ones."""
    lanes = alone.shape[-1]

    def step(which: Array, at: Array, results: Array) -> Array:
        there = which >= 0
        which = jnp.maximum(which, 0)
        slot, second, lane = which // (2 * lanes), which // lanes % 2 == 1, which % lanes
        seats = pick(slot, lane)
        wanted = seats.usable & there
        left = seats.left(second)
        if slot.shape[0] == 1:
            tried = Tried.nothing(wanted, seats.begins.dtype)
            found, _ = solve_contacts(seats, seats.begins, seats.ends, left, wanted, tried)
        else:
            rows = alone.at[: Row.long, slot[1], lane[1]].get(mode="promise_in_bounds")
            tried = Tried.nothing(wanted, seats.begins.dtype)
            ends = seats.begins[:, 1], seats.ends[:, 1]
            problem = Problem(seats, left, wanted, table.linked, rows, 1, *ends)
            found = settle(problem, solve_contacts, tried)
        rows = rows_of(seats, slot, found)
        return jax.lax.dynamic_update_slice_in_dim(results, rows, at, -1)

    return by_blocks(step, table.which, table.total, block, results)


def rows_of(seats: Given, slot: Array, found: Contact) -> Array:
    long = string_length(seats.begins, found.p, found.arc, found.q, seats.ends)
    none = jnp.full_like(slot[0], -1)
    came, went = [none], [none]
    for k in range(slot.shape[0] - 1):
        came.append(jnp.where(found.on[k], slot[k], came[-1]))
        went.append(jnp.where(found.on[-1 - k], slot[-1 - k], went[-1]))
    parts = [found.on, found.converged, found.arc, *found.p, *found.q, long]
    parts = [*parts, jnp.stack(came), jnp.stack(went[::-1])]
    return jnp.stack([x.astype(long.dtype) for x in parts])


def solve_contacts(
    seats: Given,
    begins: Array,
    ends: Array,
    left: Left,
    wanted: Array,
    tried: Tried,
    hurried: bool = False,
) -> tuple[Contact, Tried]:
    """Contacts in the ground frame of strings from `begins` to `ends`."""
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


Solver = Callable[[Given, Array, Array, Left, Array, Tried], tuple[Contact, Tried]]


class Problem(NamedTuple):
    """Two or three seats on one stretch, in the string's order, or as many strings of their
    own."""

    seats: Given
    left: Left
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

    def held(self) -> Bool[Array, "*batch"]:
        """Whether another one than the bearer holds the string (see `_held`)."""
        turned = jnp.any(self.left.turn != 0.0, axis=0) & ~self.bears
        return jnp.any(turned, axis=0) & self.linked

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
    starts from the mixture of the last three that should move least (Anderson's method).
    Without links one round is enough.
    """

    rounds: Int[Array, ""]
    moving: Bool[Array, "*batch"]
    guess: Float[Array, "6 seats *batch"]
    now: Contact
    history: tuple
    tried: Tried

    @staticmethod
    def begun(problem: Problem, tried: Tried) -> "Settling":
        start = problem.alone()
        zero = jnp.zeros((6, *problem.wanted.shape), problem.bearer.dtype)
        past = (zero, zero, zero[0, 0])
        guess = jnp.concatenate([start.p, start.q])
        moving = jnp.ones_like(problem.wanted[0])
        return Settling(jnp.zeros((), int), moving, guess, start, (past, past), tried)

    def goes_on(self) -> Bool[Array, ""]:
        return (self.rounds < _ROUNDS) & jnp.any(self.moving)

    def again(self, problem: Problem, solve: Solver) -> "Settling":
        """One round more."""
        count, moving, guess, now, history, tried = self
        seats, left, wanted, linked, *_ = problem
        still = max(_STILL, 10.0 * float(jnp.finfo(guess.dtype).eps))
        ends = problem.begin, problem.end
        begins, ends = neighbours(now.on, guess[:3], guess[3:], *ends)
        begins = jnp.where(linked, begins, seats.begins)
        ends = jnp.where(linked, ends, seats.ends)
        new, tried = solve(seats, begins, ends, left, wanted, tried)
        # What has settled stays, so that it does not depend on who else is in the block.
        new = choose(moving[None], new, now)
        both = jnp.concatenate([new.p, new.q])
        shift = both - guess
        shift = jnp.where(new.on[None], shift, 0.0)
        same = jnp.all(new.on == now.on, axis=0)
        far = jnp.max(jnp.abs(shift), axis=(0, 1)) > still
        # Strings that are only on their way to a solution may move little.
        far = far | jnp.any(new.on & ~new.converged, axis=0)
        moved = moving & (far | ~same) & linked
        # A change of contacts makes a new problem: what came before says nothing.
        history = jax.tree.map(
            lambda x: jnp.where(jnp.broadcast_to(same, x.shape), x, 0.0), history
        )
        best = _mixed(both, shift, history)
        # Far leaps end on other sides of surfaces.
        leap, reach = (jnp.max(jnp.abs(x), axis=(0, 1)) for x in (best - both, shift))
        usable = same & (count > 0) & (leap < _LEAP * reach)
        mixed = jnp.where(usable[None, None], best, both)
        part = (problem.held() & (count < _CAREFUL))[None] & new.on & now.on
        mixed = jnp.where(part[None], guess + _PART * shift, mixed)
        older, last = history[1], (both, shift, same.astype(both.dtype))
        return Settling(count + 1, moved, mixed, new, (older, last), tried)

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
    tiny = 1e-14 * (a11 + a22) + 1e-60
    a11, a22 = a11 + tiny, a22 + tiny
    det = a11 * a22 - a12 * a12
    flat = det < 1e-10 * a11 * a22
    det = jnp.where(flat, 1.0, det)
    x1 = jnp.where(flat, b1 / a11, (a22 * b1 - a12 * b2) / det)[None, None]
    x2 = jnp.where(flat, 0.0, (a11 * b2 - a12 * b1) / det)[None, None]
    return value - x1 * known1 * (value - v1) - x2 * known2 * (value - v2)
