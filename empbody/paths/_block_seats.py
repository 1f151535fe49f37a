"""Crowded stretches of a block of poses: who bears each, who joins, and who is worth a try the
other way round. The same as `_crowd` finds for all lanes at once, but for the tries.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from ..native import side_by_side
from ._block import Block, Found
from ._crowd import holding_depth, may_join
from ._held import Alone, hold
from ._keeping import keepers
from ._plan import Plan
from ._remainder import Left
from ._rounds import Row
from ._tables import Index, counted, entry, known, known_of, put, put_entry, take

_CLOSE = 3.0
"""How many times the detour over the other surface a way may be longer to be tried. In a
thousand random sweeps hardly more came out with more."""


class Line:
    """Rows of the list of stretches that are borne: who is ahead, the bearer, who is behind,
    which of the two hold the string (1 or -1, else 0), the pose, the crowded stretch, who
    makes the string longest, and who is worth a try the other way round (1 for the bearer, 2
    for the one that joins)."""

    ahead, bearer, behind, early, _, late, pose, stretch, longest, tries, count = range(11)


def _sizes(seats: np.ndarray) -> np.ndarray:
    """How many seats each stretch has."""
    return (seats >= 0).sum(axis=1)


def holding(
    block: Block, found: Found, seats: np.ndarray, borne: Array, m: Index
) -> tuple[Array, Array]:
    """Who bears each stretch, and which seats hold the string that it bears: 1 behind it, -1
    ahead of it (see `_held`)."""
    width, room = seats.shape[1], borne.shape[1]
    none = jnp.zeros((), jnp.int32)

    def note(line: Index, lists: tuple) -> tuple:
        own = entry(borne, line)
        longest, pose = own[Line.longest], own[Line.pose]
        turned = take(found.second, longest, pose)[0] > 0.5

        def seat(s: Index, lists: tuple) -> tuple:
            tasks, n = lists
            slot = known_of(seats, own[Line.stretch], s)
            touches = take(found.on, slot, pose)[0] > 0.5
            differs = (take(found.second, slot, pose)[0] > 0.5) != turned
            held, cover = jnp.where(turned, longest, slot), jnp.where(turned, slot, longest)
            task = [held, cover, pose, line, s, turned.astype(jnp.int32)]
            tasks = put_entry(tasks, n, jnp.stack(task))
            sided = known(block.sided, held) > 0
            return tasks, n + (touches & differs & sided & (slot != longest))

        return counted(0, known(_sizes(seats), own[Line.stretch]), seat, lists)

    tasks = lax.empty((6, width * room), jnp.int32)
    tasks, n = counted(0, m, note, (tasks, none))

    def alone(slot: Index, pose: Index) -> Alone:
        rows = take(found.rows, slot, pose)
        on, second = take(found.on, slot, pose) > 0.5, take(found.second, slot, pose) > 0.5
        return Alone(on, second, rows[Row.p], rows[Row.q])

    def look(t: Index, ways: Array) -> Array:
        inner, outer, pose, *_ = entry(tasks, t)
        given = [block.given(slot, pose).given for slot in (inner, outer)]
        on, behind = hold(given[0], alone(inner, pose), given[1], alone(outer, pose))
        return put_entry(ways, t, jnp.where(on, jnp.where(behind, 1, -1), 0))

    ways = side_by_side(n, look, lax.empty((1, width * room), jnp.int32))

    def settle(t: Index, tables: tuple) -> tuple:
        borne, holds, most = tables
        _, outer, pose, line, s, turned = entry(tasks, t)
        way, here = entry(ways, t)[0], take(borne, none + Line.longest, line)[0]
        # Of several that cover the longest, the longest again; that one then holds the string.
        covers = (way != 0) & (turned > 0)
        long, best = take(found.rows, outer, pose, Row.long)[0], entry(most, line)
        takes = covers & (long > best)
        borne = put(
            borne,
            none + Line.bearer,
            line,
            jnp.where(takes, outer, take(borne, none + Line.bearer, line)[0]),
        )
        most = put_entry(most, line, jnp.where(takes, long, best))
        for k in range(width):
            slot = known(seats[:, k], take(borne, none + Line.stretch, line)[0])
            seat = jnp.full_like(s, k)
            mine = jnp.where(turned > 0, takes & (slot == here), (way != 0) & (s == k))
            holds = put(holds, line, seat, jnp.where(mine, way, take(holds, line, seat)[0]))
        return borne, holds, most

    most, holds = jnp.full((room,), -1.0, block.dtype), jnp.zeros((room, width), jnp.int32)
    borne, holds, _ = counted(0, n, settle, (borne, holds, most))
    return borne, holds


def joining(
    block: Block,
    found: Found,
    seats: np.ndarray,
    borne: Array,
    m: Index,
    holds: Array,
    keeps: Array,
) -> tuple[Array, Array]:
    """Those that are borne, with who joins; and how much longer that makes the string, ahead
    and behind."""
    dtype, width, room = block.dtype, seats.shape[1], borne.shape[1]
    none = jnp.zeros((), jnp.int32)

    def others(line: Index, lists: tuple) -> tuple:
        own = entry(borne, line)
        bearer, pose = own[Line.bearer], own[Line.pose]

        def seat(s: Index, lists: tuple) -> tuple:
            tasks, n = lists
            slot = known_of(seats, own[Line.stretch], s)
            longest = (slot == own[Line.longest]).astype(jnp.int32)
            task = [slot, pose, bearer, line, take(holds, line, s)[0], longest]
            return put_entry(tasks, n, jnp.stack(task)), n + (slot != bearer)

        return counted(0, known(_sizes(seats), own[Line.stretch]), seat, lists)

    tasks = lax.empty((6, width * room), jnp.int32)
    tasks, n = counted(0, m, others, (tasks, none))

    def meet(t: Index, depths: Array) -> Array:
        k, pose, bearer, _, way, longest = entry(tasks, t)
        surfaces, slot = block.slot(k, pose)
        touch = take(found.rows, bearer, pose)
        p, q = touch[Row.p, None], touch[Row.q, None]
        a, b = surfaces.local(slot.begin), surfaces.local(slot.end)
        nothing, share = jnp.zeros_like(a), surfaces.share(a, b)
        left = Left(nothing, share, nothing, jnp.zeros_like(share, dtype=bool))

        def on_its_way() -> Left:
            given = block.given(k, pose).given
            return given.on_its_way(given.kept)

        if len(keepers(block.plan)):
            kept = take(keeps, k, pose)[0] > 0.5
            left = lax.cond(kept, on_its_way, lambda: left)
        pieces = (
            jnp.concatenate([slot.begin[:, None], q], axis=1),
            jnp.concatenate([p, slot.end[:, None]], axis=1),
        )
        depth = surfaces.excess(*pieces, left)
        touches = take(found.on, k, pose) > 0.5
        may = may_join(surfaces, slot.begin, slot.end, touches)
        may = may & block.usable(k, surfaces, slot, a, b)
        instead = holding_depth(way, longest > 0, dtype)[:, None]
        depth = jnp.where(way == 0, jnp.where(may[None], depth, -1.0), instead)
        return put_entry(depths, t, depth)

    depths = side_by_side(n, meet, lax.empty((2, width * room), dtype))

    def join(t: Index, tables: tuple) -> tuple:
        borne, best = tables
        k, _, _, line, way, _ = entry(tasks, t)
        early, late = entry(depths, t)
        # A surface that both pieces run into joins where they do so more.
        behind = (early < late).astype(jnp.int32)
        depth = jnp.where(early < late, late, early)
        most = take(best, behind, line)[0]
        deeper = depth > most
        seat, held = Line.ahead + 2 * behind, Line.early + 2 * behind
        borne = put(borne, seat, line, jnp.where(deeper, k, take(borne, seat, line)[0]))
        borne = put(borne, held, line, jnp.where(deeper, way, take(borne, held, line)[0]))
        return borne, put(best, behind, line, jnp.maximum(depth, most))

    best = jnp.zeros((2, room), dtype)
    return counted(0, n, join, (borne, best))


def may_try(plan: Plan, sided: np.ndarray, group: tuple[int, ...]) -> bool:
    """Whether strings over a stretch's surfaces may be begun the other way round: two, no torus
    among them, and not two cylinders that both keep to their sides."""
    kinds, own = np.asarray(plan.kinds)[list(group)], sided[list(group)]
    return (
        len(group) == 2
        and bool(np.all(kinds != "torus"))
        and not bool(np.all(own & (kinds == "cylinder")))
    )


def trying(block: Block, found: Found, borne: Array, m: Index, depths: Array) -> Array:
    """Those that are borne by two surfaces, with who is worth a try the other way round: if that
    is not much longer than the detour over the other surface. Not a cylinder with a side, which
    keeps to it, and nobody where a side holds the string on a ball. 4 stands for tries that begin
    with the one that joins, which lead elsewhere if a string may slip."""
    none = jnp.zeros((), jnp.int32)
    free, slips = ~block.sided, np.asarray(block.plan.kinds) != "cylinder"
    balls = slips & block.sided
    pairs = np.array([may_try(block.plan, block.sided, group) for group in block.plan.crowded])
    if not pairs.any():
        return borne

    def note(line: Index, lists: tuple) -> tuple:
        tasks, n = lists
        own = entry(borne, line)
        ahead, behind = own[Line.ahead] >= 0, own[Line.behind] >= 0
        here = (ahead != behind) & (known(pairs, own[Line.stretch]) > 0)
        return put_entry(tasks, n, line[None]), n + here

    tasks, n = counted(0, m, note, (lax.empty((1, borne.shape[1]), jnp.int32), none))

    def look(t: Index, tries: Array) -> Array:
        line = entry(tasks, t)[0]
        own = entry(borne, line)
        bearer, pose, ahead = own[Line.bearer], own[Line.pose], own[Line.ahead] >= 0
        joins = jnp.where(ahead, own[Line.ahead], own[Line.behind])
        touch = take(found.rows, bearer, pose)
        depth = jnp.where(ahead, *entry(depths, line))
        way, both = none, (bearer, joins)
        slip = [known(slips, k) > 0 for k in both]
        held = [(known(balls, k) > 0) & (take(found.second, k, pose)[0] > 0.5) for k in both]
        loose = [x | (known(free, k) > 0) for k, x in zip(both, slip, strict=True)]
        for k, bit in ((bearer, 1), (joins, 2)):
            surfaces, slot = block.slot(k, pose)
            begin, end = slot.begin, slot.end
            if bit == 2:
                begin = jnp.where(ahead, begin, touch[Row.q])
                end = jnp.where(ahead, touch[Row.p], end)
            back = surfaces.way_back(surfaces.local(begin), surfaces.local(end))[0]
            worth = (back < _CLOSE * depth) & loose[bit - 1] & ~(held[0] | held[1])
            way = way + bit * worth.astype(jnp.int32)
        either = (way > 0) & (take(found.on, joins, pose)[0] > 0.5)
        either = either & (slip[0] | slip[1]) & loose[0] & loose[1]
        return put_entry(tries, t, (way + 4 * either)[None])

    tries = side_by_side(n, look, lax.empty((1, borne.shape[1]), jnp.int32))

    def write(t: Index, borne: Array) -> Array:
        return put(borne, none + Line.tries, entry(tasks, t)[0], entry(tries, t))

    return counted(0, n, write, borne)
