"""Contacts of all slots at a block of poses, one list of like work after the other.

The same as `_contacts`, with the same functions for single surfaces, rounds and squeezing, but
made to be turned into machine code (`empbody.native`): every slot is tested at every pose; what
may touch is put on a list, kind by kind; and the strings of a list are found side by side in the
processor's vectors, which would be half empty if they were taken pose by pose.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ..native import refilled, side_by_side
from ._ellipsoid import Shooting, solved
from ._geodesic import Geodesic, Tried
from ._given import WAYS, Given
from ._plan import Plan
from ._rounds import Row, contacts_with, preferred, rows_of
from ._surfaces import Surfaces, ValuesOnly, string_length
from ._tables import Index, Poses, entry, known, put, put_entry, take
from ._vectors import turn

_KINDS = ("cylinder", "ellipsoid", "torus")
BLOCK = 64
"""Poses that are worked on together."""
SAME = 1e-9
"""Strings that differ by less (m) are the same one."""
_ANY, _UNSURE = (1 << WAYS) - 1, WAYS
"""Bits: ways that are worth a try; whether the shorter of two is right."""


class Slot(NamedTuple):
    """Slots at some poses; or one at one pose, as a batch of one."""

    centre: Float[Array, "3 *batch"]
    rotation: Float[Array, "3 3 *batch"]
    size: Float[Array, "3 *batch"]
    """As in `Surfaces`, and so is `half`."""
    half: Float[Array, "*batch"]
    begin: Float[Array, "3 *batch"]
    end: Float[Array, "3 *batch"]
    exists: Bool[Array, "*batch"]


Fetch = Callable[[Index, Index], Slot]
Kinds = tuple[str, ...]


class Found(NamedTuple):
    """Contacts of all slots."""

    on: Float[Array, "ns+1 poses"]
    """One if the string touches. The last is for what is nobody's."""
    second: Float[Array, "ns+1 poses"]
    rows: Float[Array, "12 ns+1 poses"]
    """As in `Row`; without contact they mean nothing."""
    share: Float[Array, "ns poses"]
    """What is left of each surface in the first way, if the string may touch it."""


class Block:
    """The slots of a block of poses."""

    def __init__(self, plan: Plan, poses: Poses, fetch: Fetch, dtype: jnp.dtype) -> None:
        self.plan, self.poses, self.fetch, self.dtype = plan, poses, fetch, dtype
        kinds = np.asarray(plan.kinds)
        which = [slot.surface for slot in plan.slots]
        self._side = plan.sides[:, which] * (kinds != "torus")
        self.sided = (self._side != 0).any(axis=0)
        # What is known of a slot beforehand, as bits: one look-up instead of many.
        flags = [*(kinds == kind for kind in _KINDS), *(self._side > 0), *(self._side < 0)]
        flags += list(np.asarray([slot.sunk for slot in plan.slots]).T)
        self._bits = np.sum([flag.astype(int) << k for k, flag in enumerate(flags)], axis=0)

    @property
    def count(self) -> int:
        return len(self.plan.slots)

    def slot(self, k: Index, pose: Index, kinds: Kinds | None = None) -> tuple[Surfaces, Slot]:
        """One slot, of one of some kinds, or of any."""
        slot = self.fetch(k, pose)
        kinds = tuple(dict.fromkeys(self.plan.kinds)) if kinds is None else kinds
        flags = self._flags(k)
        masks = [
            flags[n] if len(kinds) > 1 else jnp.full((1,), kinds == (name,))
            for n, name in enumerate(_KINDS)
        ]
        sides = self._side[:, [kind in kinds for kind in self.plan.kinds]]
        has = (*kinds, "side") if sides.any() else kinds
        side = [flags[3 + n].astype(self.dtype) - flags[6 + n] for n in range(3)]
        surfaces = Surfaces(
            centre=slot.centre,
            rotation=slot.rotation,
            size=slot.size,
            half=slot.half,
            side=jnp.stack(side),
            cylinder=masks[0],
            ellipsoid=masks[1],
            torus=masks[2],
            has=has,
        )
        return surfaces, slot

    def _flags(self, k: Index) -> list[Bool[Array, " 1"]]:
        bits = known(self._bits, k)[None]
        return [(bits & (1 << n)) > 0 for n in range(11)]

    def usable(
        self, k: Index, surfaces: Surfaces, slot: Slot, a: Array, b: Array
    ) -> Bool[Array, " 1"]:
        """Not those whose stretch is fixed inside them at an end; a, b are its ends in the
        surface's frame."""
        usable = slot.exists
        for sunk, x in zip(self._flags(k)[9:], (a, b), strict=True):
            usable = usable & ~(sunk & surfaces.inside(x))
        return usable

    def given(self, k: Index, pose: Index, kinds: Kinds | None = None) -> "_One":
        surfaces, slot = self.slot(k, pose, kinds)
        a, b = surfaces.local(slot.begin), surfaces.local(slot.end)
        usable = self.usable(k, surfaces, slot, a, b)
        plain, other, turned, first, second, unsure, third, kept = surfaces.ways(a, b)
        given = Given(surfaces, slot.begin, slot.end, usable, plain.scale, other, turned, kept)
        touch = first & surfaces.touch(a, b, plain)
        wanted = jnp.stack([usable & x for x in (touch, second, third)])
        return _One(given, wanted[:, 0], unsure[0])


class _One(NamedTuple):
    given: Given
    wanted: Bool[Array, " 3"]
    """Which of its ways are worth a try."""
    unsure: Bool[Array, ""]


def nothing(dtype: jnp.dtype) -> Float[Array, " 12"]:
    nothing = np.zeros(Row.count)
    nothing[[Row.converged, Row.came, Row.went]] = 1.0, -1.0, -1.0
    return jnp.asarray(nothing, dtype)


def contacts_alone(block: Block) -> Found:
    """Contacts of all slots, each with nothing but its own surface in the way."""
    plan, size, dtype = block.plan, block.poses.size, block.dtype
    no = jnp.zeros((block.count + 1, size), dtype)
    found = Found(
        on=no,
        second=no,
        rows=lax.empty((Row.count, block.count + 1, size), dtype),
        share=lax.empty((block.count, size), dtype),
    )
    for kind in dict.fromkeys(plan.kinds):
        first = plan.kinds.index(kind)
        found = _alone(block, kind, first, first + plan.kinds.count(kind), found)
    return found


def _alone(block: Block, kind: str, first: int, last: int, found: Found) -> Found:
    """Contacts of slots of one kind with nothing but their own surface in the way, in the
    better of two ways."""
    poses, dtype = block.poses, block.dtype
    room = (last - first) * poses.size

    def test(k: Index, pose: Index, tables: tuple) -> tuple:
        bits, share = tables
        surfaces, slot = block.slot(k, pose, (kind,))
        by = surfaces.passes_by(surfaces.local(slot.begin), surfaces.local(slot.end))[0]

        def look() -> tuple[Array, Array]:
            one = block.given(k, pose, (kind,))
            flags = [*one.wanted, one.unsure]
            state = sum((flag * (1 << n) for n, flag in enumerate(flags)), jnp.zeros((), int))
            return state.astype(jnp.int32), one.given.share[0]

        no = jnp.zeros((), jnp.int32), jnp.zeros((), dtype)
        state, left = lax.cond(by, lambda: no, look)
        return put(bits, k - first, pose, state), put(share, k, pose, left)

    bits = jnp.zeros((last - first, poses.size), jnp.int32)
    bits, share = poses.each_of(first, last, test, (bits, found.share))

    def note(k: Index, pose: Index, lists: tuple) -> tuple:
        state = take(bits, k - first, pose)[0]
        ways = state & _ANY

        def enter(lists: tuple) -> tuple:
            tasks, touched, n, m = lists
            touched = put_entry(touched, m, jnp.stack([k, pose, n, state]))
            for way in range(WAYS if kind == "ellipsoid" else 2):
                tasks = put_entry(tasks, n, jnp.stack([k, pose, jnp.full_like(k, way)]))
                n = n + ((ways & (1 << way)) > 0)
            return tasks, touched, n, m + 1

        return lax.cond(ways > 0, enter, lambda lists: lists, lists)

    none = jnp.zeros((), jnp.int32)
    lists = lax.empty((3, WAYS * room + 1), jnp.int32), lax.empty((4, room + 1), jnp.int32)
    tasks, touched, n, m = poses.in_turn(first, last, note, (*lists, none, none))

    answers = lax.empty((Row.count, WAYS * room + 1), dtype)
    if kind == "ellipsoid":
        answers = _over_ellipsoids(block, tasks, n, answers)
    else:

        def solve(t: Index, answers: Array) -> Array:
            return put_entry(answers, t, _solved(block, tasks, t, kind))

        answers = side_by_side(n, solve, answers)
    margin = max(SAME, 10.0 * float(jnp.finfo(dtype).eps))

    def choose(t: Index, tables: tuple) -> tuple:
        on, second, rows = tables
        k, pose, task, state = entry(touched, t)
        one, two, three, unsure = ((state & (1 << n)) > 0 for n in range(4))
        none_rows = nothing(dtype)
        one_rows = jnp.where(one, entry(answers, task), none_rows)
        two_rows = lax.cond(two, lambda: entry(answers, task + one), lambda: none_rows)
        if kind == "ellipsoid":
            other = lax.cond(three, lambda: entry(answers, task + one + two), lambda: none_rows)
            one_rows = jnp.where(_instead(one_rows, other, margin), other, one_rows)
        on_one, on_two = one_rows[Row.on] > 0.5, two_rows[Row.on] > 0.5
        shorter = two_rows[Row.long] < one_rows[Row.long] - margin
        found_one, found_two = one_rows[Row.converged] > 0.5, two_rows[Row.converged] > 0.5
        either = on_one & preferred(shorter, found_one, found_two)
        better = on_two & jnp.where(unsure, either, ~(on_one & shorter))
        touches = on_one | (on_two & ~unsure)
        return (
            put(on, k, pose, touches),
            put(second, k, pose, better),
            put(rows, k, pose, jnp.where(better, two_rows, one_rows)),
        )

    on, second, rows = side_by_side(m, choose, (found.on, found.second, found.rows))
    return Found(on, second, rows, share)


def _instead(one: Array, other: Array, margin: float) -> Bool[Array, ""]:
    """Whether the other way round is the shorter one."""
    shorter = other[Row.long] < one[Row.long] - margin
    found, better = one[Row.converged] > 0.5, other[Row.converged] > 0.5
    both = (one[Row.on] > 0.5) & (other[Row.on] > 0.5)
    return both & preferred(shorter, found, better)


def _solved(block: Block, tasks: Array, t: Index, kind: str) -> Float[Array, " 12"]:
    """Rows of one task."""
    k, pose, way = entry(tasks, t)
    given = block.given(k, pose, (kind,)).given
    left, here = given.left(way[None]), jnp.ones((1,), bool)
    kernels = ValuesOnly(Tried.nothing(here, block.dtype))
    got = contacts_with(kernels, given, given.begins, given.ends, left, here)
    lifted = jax.tree.map(lambda x: x[..., None, :], (given, got))
    return rows_of(lifted[0], -jnp.ones((1, 1), int), lifted[1])[:, 0, 0]


class _Recorder:
    """Writes down what is to be solved."""

    def ellipsoid(
        self, a: Array, b: Array, axes: Array, side: Array, on: Array, told: Array
    ) -> Geodesic:
        self.start, self.on, self.problem = a, on, Shooting.problem(a, b, axes, side, on, told)
        return Geodesic(a, b, a[0], a[0], on)

    def torus(self, a: Array, b: Array, tube: Array, ring: Array, on: Array) -> Geodesic:
        raise NotImplementedError


def _over_ellipsoids(block: Block, tasks: Array, n: Index, answers: Array) -> Array:
    """Shots need different numbers of corrections: who is done makes room for the next."""
    room, dtype = answers.shape[1], block.dtype

    def record(t: Index, problems: Array) -> Array:
        k, pose, way = entry(tasks, t)
        given = block.given(k, pose, ("ellipsoid",)).given
        surfaces, begin, end = given.surfaces, given.begins, given.ends
        recorder, here = _Recorder(), jnp.ones((1,), bool)
        contacts_with(recorder, given, begin, end, given.left(way[None]), here)
        # Where the problem is: the middle of what is left of the surface, turned.
        middle = surfaces.world(surfaces.local(begin) - recorder.start)
        turned, on = surfaces.rotation.reshape(9, 1), recorder.on[None].astype(dtype)
        parts = [recorder.problem, on, middle, turned, begin, end]
        return put_entry(problems, t, jnp.concatenate(parts))

    problems = side_by_side(n, record, lax.empty((33, room), dtype))
    solutions = refilled(
        n,
        lambda t: Shooting.begun(entry(problems, t)[:14, None]),
        Shooting.goes_on,
        Shooting.again,
        lambda t, state, solutions: put_entry(solutions, t, state.best()),
        lax.empty((13, room), dtype),
    )

    def finish(t: Index, answers: Array) -> Array:
        problem = entry(problems, t)[:, None]
        on, middle, turned = problem[14] > 0.5, problem[15:18], problem[18:27].reshape(3, 3, 1)
        found = solved(problem[:14], entry(solutions, t)[:, None], on)
        p, q = turn(turned, found.p) + middle, turn(turned, found.q) + middle
        long = string_length(problem[27:30], p, found.arc, q, problem[30:])
        state = jnp.stack([on, found.converged]).astype(dtype)
        nobody = -jnp.ones((2, 1), dtype)
        rows = jnp.concatenate([state, found.arc[None], p, q, long[None], nobody])
        return put_entry(answers, t, rows)

    return side_by_side(n, finish, answers)
