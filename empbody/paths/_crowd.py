"""Stretches with several surfaces: which of them lift the string, together.

Alone on the straight line, each surface would give the string a certain length. The one that
makes it longest bears it. Another one joins ahead of it, and another behind, if the free
piece there runs into it; then all are solved together, each seeing the string as the
others leave it, until nothing moves. Where surfaces overlap and none runs into the other's free
pieces, the longer string simply wins, so that the length stays continuous.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ._compact import on_those
from ._plan import Plan
from ._remainder import Left
from ._surfaces import Contact, Surfaces, string_length
from ._vectors import length

_ROUNDS = 60
_STILL = 1e-9
"""Movement of the tangent points in a round (m) below which they have settled."""
_DERIVATIVE_ROUNDS = 20


class Trio(NamedTuple):
    """The surface that bears each crowded stretch, in the middle of those which joined it
    ahead and behind, in order along the string."""

    slots: Int[Array, "3 nc lanes"]
    """Slot numbers."""
    on: Bool[Array, "3 nc lanes"]
    p: Float[Array, "3 3 nc lanes"]
    q: Float[Array, "3 3 nc lanes"]
    arc: Float[Array, "3 nc lanes"]


class _Given(eqx.Module):
    """Everything that is known of the slots, for picking by number."""

    surfaces: Surfaces
    left: Left
    usable: Bool[Array, "ns lanes"]


def seats_of(plan: Plan) -> np.ndarray:
    """(stretches, seats): slots of each crowded stretch, filled up with -1."""
    width = max(len(group) for group in plan.crowded)
    table = np.full((len(plan.crowded), width), -1)
    for row, group in enumerate(plan.crowded):
        table[row, : len(group)] = group
    return table


def crowded_trios(
    plan: Plan,
    surfaces: Surfaces,
    left: Left,
    usable: Bool[Array, "ns lanes"],
    alone: Contact,
    begins: Float[Array, "3 nc lanes"],
    ends: Float[Array, "3 nc lanes"],
) -> Trio:
    """Contacts on crowded stretches; `alone` holds those of single slots (ground frame)."""
    given = _Given(surfaces, left, usable)
    (alone,) = jax.lax.stop_gradient((alone,))
    return _trios(given, begins, ends, alone, plan)


@eqx.filter_custom_jvp
def _trios(given: _Given, begins: Array, ends: Array, alone: Contact, plan: Plan) -> Trio:
    seats = seats_of(plan)
    n = len(seats)
    lanes = begins.shape[-1]
    filled = jnp.asarray(seats >= 0)[..., None]
    rows = np.maximum(seats, 0)
    on = alone.on[rows] & filled
    needed = jnp.any(on, axis=1)
    flat = n * lanes

    def columns(x: Array) -> Array:
        """(..., n, lanes) -> (..., n * lanes)"""
        return x.reshape(*x.shape[:-2], flat)

    which = columns(jnp.broadcast_to(jnp.arange(n)[:, None], (n, lanes)))
    lane = columns(jnp.broadcast_to(jnp.arange(lanes)[None], (n, lanes)))
    table = jnp.asarray(rows)

    def solve(item: tuple[Array, Array, Array, Array]) -> tuple[Array, ...]:
        begin, end, which, lane = item
        slots = table[which].T  # (seats, items)
        here = jnp.asarray(seats >= 0)[which].T
        part = _pick(given, slots, lane[None])
        single = jax.tree.map(lambda x: x.at[..., slots, lane[None]].get(), alone)
        single = single._replace(on=single.on & here)
        part = eqx.tree_at(lambda g: g.usable, part, part.usable & here)
        return _solve(part, begin, end, single, slots)

    zero = jnp.zeros((3, flat), dtype=begins.dtype)
    none = jnp.zeros((3, flat), dtype=bool)
    vectors = jnp.zeros((3, 3, flat), dtype=begins.dtype)
    default = (jnp.zeros((3, flat), dtype=table.dtype), none, vectors, vectors, zero)
    given_each = (columns(begins), columns(ends), which, lane)
    found = on_those(solve, columns(needed), default, given_each)
    return Trio(*(x.reshape(*x.shape[:-1], n, lanes) for x in found))


def _pick(given: _Given, slots: Array, lane: Array) -> _Given:
    """The slots' data: (..., slots, lanes) indexed by slot and lane."""
    part = jax.tree.map(lambda x: x.at[..., slots, lane].get(mode="promise_in_bounds"), given)
    # Which kind a picked surface is depends on the pose, so rows say nothing any more.
    return eqx.tree_at(
        lambda g: g.surfaces,
        part,
        dataclasses.replace(part.surfaces, rows=()),
        is_leaf=lambda x: isinstance(x, Surfaces),
    )


def _solve(
    part: _Given, begin: Array, end: Array, single: Contact, slots: Array
) -> tuple[Array, ...]:
    """One column per item; `part`, `single` and `slots` have a row per seat."""
    wide = (3, slots.shape[0], begin.shape[-1])
    begins = jnp.broadcast_to(begin[:, None], wide)
    ends = jnp.broadcast_to(end[:, None], wide)
    whole = jnp.where(single.on, string_length(begins, single, ends), -jnp.inf)
    bearer = jnp.argmax(whole, axis=0)
    main = _row((single, part), bearer)
    chosen = bearer[None] == jnp.arange(slots.shape[0])[:, None]
    p, q = main[0].p[:, None], main[0].q[:, None]
    early = _depth(part, begins, jnp.broadcast_to(p, wide), chosen)
    late = _depth(part, jnp.broadcast_to(q, wide), ends, chosen)
    # A surface that both pieces run into joins where they do so more.
    early, late = jnp.where(early < late, -1.0, early), jnp.where(early < late, late, -1.0)
    ahead, behind = jnp.argmax(early, axis=0), jnp.argmax(late, axis=0)
    meets = jnp.stack([jnp.max(early, axis=0), jnp.ones_like(p[0, 0]), jnp.max(late, axis=0)]) > 0.0
    index = jnp.stack([ahead, bearer, behind])
    seats = _bare(jax.tree.map(lambda x: _rows(x, index), part))
    seats = eqx.tree_at(lambda g: g.usable, seats, seats.usable & meets)
    start = jax.tree.map(lambda x: _rows(x, jnp.stack([bearer] * 3)), single)
    middle = jnp.arange(3)[:, None] == 1
    start = start._replace(on=start.on & middle)
    settled = _settle(seats, begin, end, start, meets[0] | meets[2])
    return _rows(slots, index), settled.on, settled.p, settled.q, settled.arc


def _bare(seats: _Given) -> _Given:
    """A side holds the string only on the surface that bears it, in the middle."""
    free = seats.left.without_side()
    middle = jnp.arange(3)[(...,) + (None,) * (seats.usable.ndim - 1)] == 1
    left = jax.tree.map(lambda x, y: jnp.where(_fit(middle, x), x, y), seats.left, free)
    return eqx.tree_at(lambda g: g.left, seats, left, is_leaf=lambda x: isinstance(x, Left))


def _rows(values: Array, index: Array) -> Array:
    """From (..., seats, items) the rows that `index` (n, items) names."""
    return jnp.stack([_row(values, line) for line in index], axis=values.ndim - 2)


def _fit(mask: Array, like: Array) -> Array:
    return jnp.broadcast_to(mask, like.shape)


def _row(tree, index: Array):
    """From each array (..., seats, items) the row that `index` names, by masks."""

    def pick(x: Array) -> Array:
        out = x[..., 0, :]
        for k in range(1, x.shape[-2]):
            out = jnp.where(_fit(index == k, out), x[..., k, :], out)
        return out

    return jax.tree.map(pick, tree)


def _depth(part: _Given, begins: Array, ends: Array, not_these: Array) -> Array:
    """How much longer surfaces would make straight pieces (m); negative if not at all.

    Ellipsoids are taken as round, and a torus always comes first: this only ranks them.
    """
    surfaces = part.surfaces
    a, b = surfaces.local(begins), surfaces.local(ends)
    on, circle = surfaces.touched(a, b, part.left.without_side())
    around = circle.first + circle.arc + circle.last
    longer = (around - length(surfaces.round(b) - surfaces.round(a))) * surfaces.size[0]
    longer = jnp.where(surfaces.torus, 1.0, longer)
    return jnp.where(on & part.usable & ~not_these, longer, -1.0)


def neighbours(
    on: Bool[Array, "3 *batch"],
    p: Float[Array, "3 3 *batch"],
    q: Float[Array, "3 3 *batch"],
    begin: Float[Array, "3 *batch"],
    end: Float[Array, "3 *batch"],
) -> tuple[Float[Array, "3 3 *batch"], Float[Array, "3 3 *batch"]]:
    """Where the string comes from and goes to at each of three seats in a row."""
    came, went = [begin], [end]
    for k in range(2):
        came.append(jnp.where(on[k][None], q[:, k], came[-1]))
        went.append(jnp.where(on[2 - k][None], p[:, 2 - k], went[-1]))
    return jnp.stack(came, axis=1), jnp.stack(went[::-1], axis=1)


def _round(seats: _Given, begin: Array, end: Array, now: Contact) -> Contact:
    """All contacts anew, each on the string that the others leave."""
    begins, ends = neighbours(now.on, now.p, now.q, begin, end)
    surfaces = seats.surfaces
    found = surfaces.contact(surfaces.local(begins), surfaces.local(ends), seats.left, seats.usable)
    return found._replace(p=surfaces.world(found.p), q=surfaces.world(found.q))


def _settle(seats: _Given, begin: Array, end: Array, start: Contact, meets: Array) -> Contact:
    """Rounds until nothing moves; where only one surface counts, nothing does."""
    still = max(_STILL, 10.0 * float(jnp.finfo(begin.dtype).eps))
    seats = eqx.tree_at(lambda g: g.usable, seats, seats.usable & meets[None])

    def step(loop):
        count, _, now = loop
        new = _round(seats, begin, end, now)
        new = jax.tree.map(lambda x, y: jnp.where(_fit(meets, x), x, y), new, now)
        shift = length(new.p - now.p) + length(new.q - now.q)
        moved = jnp.where(new.on & now.on, shift > still, new.on != now.on)
        return count + 1, jnp.any(moved), new

    loop = (jnp.zeros((), int), jnp.any(meets), start)
    return jax.lax.while_loop(lambda loop: (loop[0] < _ROUNDS) & loop[1], step, loop)[2]


@_trios.def_jvp
def _trios_jvp(primals, tangents):
    """Implicit: the derivative of a fixed point is a fixed point of the derivative."""
    given, begins, ends, *_ = primals
    found = _trios(*primals)
    lanes = begins.shape[-1]
    lane = jnp.arange(lanes)[None]

    def one_round(floats, begins, ends, p, q):
        seats = _bare(_pick(eqx.combine(floats, rest), found.slots, lane))
        seats = eqx.tree_at(lambda g: g.usable, seats, found.on)
        new = _round(seats, begins, ends, Contact(found.on, p, q, found.arc))
        return jax.tree.map(lambda x: jnp.where(_fit(found.on, x), x, 0.0), tuple(new[1:]))

    floats, rest = eqx.partition(given, eqx.is_inexact_array)
    moved = _filled((floats, begins, ends), (tangents[0], tangents[1], tangents[2]))
    _, push = jax.linearize(one_round, floats, begins, ends, found.p, found.q)
    dp, dq, darc = jnp.zeros_like(found.p), jnp.zeros_like(found.q), jnp.zeros_like(found.arc)
    for _ in range(_DERIVATIVE_ROUNDS):
        dp, dq, darc = push(*moved, dp, dq)
    return found, Trio(None, None, dp, dq, darc)  # pyright: ignore


def _filled(primals, tangents):
    """Zeros where there is no tangent."""
    return jax.tree.map(
        lambda x, t: None if x is None else (jnp.zeros_like(x) if t is None else t),
        primals,
        tangents,
        is_leaf=lambda x: x is None,
    )
