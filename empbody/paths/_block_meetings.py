"""Crowded stretches of a block of poses: which strings bear on several surfaces, and which of
those are solved side by side.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int

from ..native import side_by_side
from ._block import Block, Kinds
from ._block_seats import Line, may_try
from ._crowd import without_third
from ._plan import Plan
from ._tables import Index, counted, entry, known, put_entry, take

TRIES = 6
"""Strings at most of which the shortest is taken."""
_COSTLY = ("ellipsoid", "torus")


class Mixture(NamedTuple):
    """Strings that are solved side by side."""

    kinds: Kinds
    """Kinds of surfaces that occur."""
    number: int
    """By which it is known: 0 without costly kinds, then one for each of them, last among
    the kinds of the string; and one more for strings over three surfaces."""
    seats: int
    free: bool
    """Whether the string's own length may say where it lies, on some stretch."""
    turns: bool
    """Whether there are cylinders with two ways."""
    tries: bool
    """Whether strings may be begun the other way round as well."""


_THREE = len(_COSTLY) + 1


def mixtures(plan: Plan, sided: np.ndarray) -> list[Mixture]:
    """The costly kinds are kept apart: who has none of them need not wait for them. So are
    strings over three surfaces, which are rare."""
    every = tuple(dict.fromkeys(plan.kinds))
    kinds = np.asarray(plan.kinds)

    def mixture(known: Kinds, number: int, seats: int) -> Mixture:
        groups = [
            list(group)
            for group in plan.crowded
            if len(group) >= seats and (number in (0, _THREE) or known[-1] in kinds[list(group)])
        ]
        pins = np.where(sided, kinds != "cylinder", kinds == "torus")
        free = any(not pins[group].any() for group in groups)
        turns = any((~sided[group] & (kinds[group] == "cylinder")).any() for group in groups)
        tries = seats == 2 and any(may_try(plan, sided, tuple(group)) for group in groups)
        return Mixture(known, number, seats, free or tries, turns, tries)

    cheap = tuple(kind for kind in every if kind not in _COSTLY)
    out = [mixture(cheap, 0, 2)] if cheap else []
    for number, kind in enumerate(_COSTLY, 1):
        if kind in every:
            out.append(mixture((*(out[-1].kinds if out else ()), kind), number, 2))
    if any(len(group) > 2 for group in plan.crowded):
        out.append(mixture(every, _THREE, 3))
    return out


class Meeting:
    """Rows of the list of strings over several surfaces: first these, in the string's order (the
    last -1 if there are two); which of them hold it, as bits; pose; seat of the bearer; who
    makes it longest; who is worth a try the other way round (as in `Line`); and the mixture."""

    bits, pose, seat, longest, tries, mixture, count = range(3, 10)


def meetings(block: Block, borne: Array, m: Index) -> tuple[Int[Array, "9 room"], Index]:
    """Those of the stretches that are borne where several surfaces bear the string."""
    none, room = jnp.zeros((), jnp.int32), borne.shape[1]
    costs = np.array([_COSTLY.index(k) + 1 if k in _COSTLY else 0 for k in block.plan.kinds])

    def look(line: Index, found: Array) -> Array:
        own = entry(borne, line)
        bearer, longest = own[Line.bearer], own[Line.longest]
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
        dearest = none
        for slot in (ahead, bearer, behind):
            cost = known(costs, jnp.maximum(slot, 0))
            dearest = jnp.where(slot >= 0, jnp.maximum(dearest, cost), dearest)
        some, all_ = (ahead >= 0) | (behind >= 0), (ahead >= 0) & (behind >= 0)
        mixture = jnp.where(all_, _THREE, jnp.where(some, dearest, -1))
        rest = jnp.stack([own[Line.pose], has, longest, own[Line.tries], mixture])
        return put_entry(found, line, jnp.concatenate([row, rest]))

    found = side_by_side(m, look, lax.empty((Meeting.count, room), jnp.int32))

    def gather(line: Index, lists: tuple) -> tuple:
        some, n = lists
        there = take(found, none + Meeting.mixture, line)[0] >= 0
        return lax.cond(
            there, lambda: (put_entry(some, n, entry(found, line)), n + 1), lambda: (some, n)
        )

    return counted(0, m, gather, (lax.empty((Meeting.count, room), jnp.int32), none))


class Task:
    """Rows of the list of strings that are solved: which of the meetings, seats that are begun
    the other way round, as bits; the seat from which it begins; and how many such tries of the
    same come after it, -1 for those."""

    meeting, back, seat, more, count = range(5)


def tasks_of(mixture: Mixture, met: Array, n: Index) -> tuple[Int[Array, "4 room"], Index]:
    """The strings of one mixture."""
    none = jnp.zeros((), jnp.int32)

    def note(k: Index, lists: tuple) -> tuple:
        tasks, count = lists
        own = entry(met, k)
        has, tries = own[Meeting.seat], own[Meeting.tries]

        def once() -> tuple:
            return put_entry(tasks, count, jnp.stack([k, none, has, none])), count + 1

        def several() -> tuple:
            worth = [((tries & way) == way).astype(jnp.int32) for way in _WORTH]
            entered, at, more = tasks, count, sum(worth, none)
            for number, (back, enters) in enumerate(zip(_BACK, (1, *worth), strict=True)):
                # The bearer's bit comes first, whatever its seat.
                turned = jnp.where(has > 0, (back & 1) * 2 + back // 2, back)
                seat = has if number < _FROM_BEARER else 1 - has
                task = [k, turned, seat, none - 1 if number else more]
                entered = put_entry(entered, at, jnp.stack(task))
                at = at + enters
            return entered, at

        def enter() -> tuple:
            return lax.cond(tries > 0, several, once) if mixture.tries else once()

        return lax.cond(own[Meeting.mixture] == mixture.number, enter, lambda: lists)

    room = (TRIES if mixture.tries else 1) * met.shape[1]
    return counted(0, n, note, (lax.empty((Task.count, room), jnp.int32), none))


_WORTH, _BACK, _FROM_BEARER = (1, 2, 3, 4, 4), (0, 1, 2, 3, 0, 2), 4
"""Bits of `Line.tries` that each further try needs, who is the other way round in each of all,
and how many of them begin with the bearer."""
