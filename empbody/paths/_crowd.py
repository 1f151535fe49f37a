"""Stretches with several surfaces: which of them lift the string, together.

Alone on the straight line, each surface would give the string a certain length. The one that
makes it longest bears it. Another one joins ahead of it, and another behind, if the free
piece there runs into it; then all are solved together, each seeing the string as the
others leave it, until nothing moves. Where surfaces overlap and none runs into the other's free
pieces, the longer string simply wins, so that the length stays continuous.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ._compact import on_those, work_list
from ._given import Given
from ._plan import Plan
from ._rounds import Row, Table

SEATS = 3
TOGETHER = 64
"""Stretches that are solved side by side: all wait for the slowest."""


class Seating(NamedTuple):
    """Who bears each crowded stretch, and who joins."""

    slots: Int[Array, "3 stretches lanes"]
    """Ahead, the bearer, behind; -1 if there is none."""
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
    bearers = _bearers(seats, rows)
    flat = bearers.reshape(-1)
    none = jnp.full((2, flat.shape[0]), -1, jnp.int32)
    numbers = jnp.arange(flat.shape[0], dtype=jnp.int32)
    ahead, behind = on_those(
        lambda which: _joins(seats, pick, rows, flat, which), flat >= 0, none, numbers
    )
    joined = (ahead >= 0) | (behind >= 0)
    work = work_list(joined, block)
    order = jnp.concatenate([work.order, jnp.zeros(room - work.order.shape[0], jnp.int32)])
    # A side holds the string only on the surface that bears it.
    lane = order % lanes
    slots = jnp.stack([ahead[order], flat[order], behind[order]])
    way = second.at[slots[1], lane].get(mode="promise_in_bounds").astype(jnp.int32)
    way = jnp.stack([jnp.zeros_like(way), way, jnp.zeros_like(way)])
    which = jnp.where(slots < 0, -1, (2 * slots + way) * lanes + lane[None])
    # Only the bearer stays; those that join are put in again.
    own = _stretch_of(plan)
    mine = bearers[np.maximum(own, 0)] == jnp.arange(len(own))[:, None]
    on = jnp.where(mine | jnp.asarray(own < 0)[:, None], rows[Row.on], 0.0)
    shape = (len(seats), lanes)
    seating = Seating(
        jnp.stack([ahead, flat, behind]).reshape(SEATS, *shape),
        joined.reshape(shape),
        work.place.reshape(shape),
    )
    return rows.at[Row.on].set(on), Table(which, work.total, jnp.ones((), bool)), seating


def seated(
    plan: Plan, rows: Array, second: Array, results: Array, seating: Seating
) -> tuple[Array, Array]:
    """Contacts of all slots, with those that were solved together put in."""
    own = np.maximum(_stretch_of(plan), 0)
    slots = seating.slots[:, own]
    me = jnp.arange(len(own))[:, None]
    early, late = slots[0] == me, slots[2] == me
    here = (early | late | (slots[1] == me)) & seating.joined[own]
    seat = jnp.where(early, 0, jnp.where(late, 2, 1))
    new = results.at[:, seat, seating.place[own]].get(mode="promise_in_bounds")
    return jnp.where(here[None], new, rows), second & ~(here & (early | late))


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


def _bearers(seats: np.ndarray, rows: Array) -> Array:
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
    pick: Callable[[Array, Array], Given],
    rows: Array,
    bearers: Array,
    which: Array,
) -> Array:
    """(2, items): slots that join ahead of the bearer and behind it, or -1."""
    lanes = rows.shape[-1]
    row, lane = which // lanes, which % lanes
    bearer = bearers[which]
    contact = rows.at[:, bearer, lane].get(mode="promise_in_bounds")
    slots = jnp.asarray(seats.T, jnp.int32)[:, row]
    there = pick(jnp.maximum(slots, 0), jnp.broadcast_to(lane[None], slots.shape))
    usable = there.usable & (slots >= 0) & (slots != bearer[None])
    # Both free pieces at once: from the start to touch-down, from lift-off to the end.
    wide = there.begins.shape
    p, q = (jnp.broadcast_to(contact[x][:, None], wide) for x in (Row.p, Row.q))
    pieces = jnp.stack([there.begins, q], axis=1), jnp.stack([p, there.ends], axis=1)
    excess = jnp.where(usable[None], there.surfaces.excess(*pieces, there.share), -1.0)
    early, late = excess[0], excess[1]
    # A surface that both pieces run into joins where they do so more.
    early, late = jnp.where(early < late, -1.0, early), jnp.where(early < late, late, -1.0)
    depth = jnp.stack([early, late])
    seat, most = jnp.broadcast_to(slots[0], depth[:, 0].shape), depth[:, 0]
    for k in range(1, depth.shape[1]):
        more = depth[:, k] > most
        seat, most = jnp.where(more, slots[k][None], seat), jnp.where(more, depth[:, k], most)
    return jnp.where(most > 0.0, seat, -1)
