"""Stretches with several surfaces: which of them lift the string, together.

Alone on the straight line, each surface would give the string a certain length. The one that
makes it longest bears it. Another one joins ahead of it, and another behind, if the free
piece there runs into it; then all are solved together, each seeing the string as the
others leave it, until nothing moves. Where surfaces overlap and none runs into the other's free
pieces, the longer string simply wins, so that the length stays continuous.
"""

import dataclasses
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._compact import block_size, by_blocks, on_those, work_list
from ._ellipsoid import Tried
from ._plan import Plan
from ._remainder import Left
from ._surfaces import Contact, Surfaces, ValuesOnly, choose, string_length

if TYPE_CHECKING:
    from ._contacts import Touches

_ROUNDS = 40
_STILL = 1e-9
"""Movement of the tangent points in a round (m) below which they have settled."""
_LEAP = 4.0
"""How many times the last movement the next one may be."""
_TOGETHER = 64
"""Stretches that are solved side by side: all wait for the slowest."""


class Given(eqx.Module):
    """What is known of the slots, or of some that were picked."""

    surfaces: Surfaces
    begins: Float[Array, "3 *batch"]
    """Ends of the stretches in the ground frame (m)."""
    ends: Float[Array, "3 *batch"]
    usable: Bool[Array, "*batch"]

    def pick(self, slot: Array, lane: Array) -> "Given":
        """Some, by number: `slot` and `lane` have the new shape."""

        def take(x: Array) -> Array:
            # What is the same in all lanes is stored once.
            at = lane if x.shape[-1] > 1 else 0
            return x.at[..., slot, at].get(mode="promise_in_bounds")

        part = jax.tree.map(take, self)
        # Which kind a picked surface is depends on the pose, so rows say nothing any more.
        surfaces = dataclasses.replace(part.surfaces, rows=())
        return Given(surfaces, part.begins, part.ends, part.usable)

    @property
    def local(self) -> tuple[Array, Array]:
        """Ends of the stretches in the surfaces' frames."""
        return self.surfaces.local(self.begins), self.surfaces.local(self.ends)

    def solve(
        self, begins: Array, ends: Array, left: Left, tried: Tried | None = None
    ) -> tuple[Contact, Tried]:
        """Contacts in the ground frame of strings from `begins` to `ends`; values only."""
        kernels = ValuesOnly(tried or Tried.nothing(self.usable, begins.dtype))
        a, b = self.surfaces.local(begins), self.surfaces.local(ends)
        found = self.surfaces.contact(a, b, left, self.usable, kernels)
        world = self.surfaces.world
        return found._replace(p=world(found.p), q=world(found.q)), kernels.tried


def seats_of(plan: Plan) -> np.ndarray:
    """(stretches, seats): slots of each crowded stretch, filled up with -1."""
    width = max(len(group) for group in plan.crowded)
    table = np.full((len(plan.crowded), width), -1)
    for row, group in enumerate(plan.crowded):
        table[row, : len(group)] = group
    return table


def crowded(plan: Plan, given: Given, found: "Touches") -> "Touches":
    """`found` holds each slot's contact alone; the result, what they do together."""
    n, lanes = len(plan.crowded), found.on.shape[-1]
    bearers = _bearers(plan, given, found)
    needed = (bearers >= 0).reshape(-1)
    none = jnp.full((2, n * lanes), -1, jnp.int32)
    joins = on_those(
        lambda which: _joining(plan, given, found, bearers.reshape(-1), which),
        needed,
        none,
        jnp.arange(n * lanes, dtype=jnp.int32),
    )
    # Only the bearer stays; those that join are put in again.
    table = np.full(len(plan.slots), -1)
    for row, group in enumerate(plan.crowded):
        table[list(group)] = row
    mine = bearers[np.maximum(table, 0)] == jnp.arange(len(plan.slots))[:, None]
    found = found._replace(on=found.on & (mine | jnp.asarray(table < 0)[:, None]))
    return _together(given, found, joins[0], bearers.reshape(-1), joins[1])


def _bearers(plan: Plan, given: Given, found: "Touches") -> Array:
    """(stretches, lanes): the slot that makes the string longest; -1 if none touches."""
    seats = seats_of(plan)
    long = string_length(given.begins, found.p, found.arc, found.q, given.ends)
    long = jnp.where(found.on, long, -1.0)
    best = jnp.full((len(seats), long.shape[-1]), -0.5, long.dtype)
    bearer = jnp.full(best.shape, -1, jnp.int32)
    for column in seats.T:
        there = long[np.maximum(column, 0)]
        better = (there > best) & jnp.asarray(column >= 0)[:, None]
        bearer = jnp.where(better, jnp.asarray(column, jnp.int32)[:, None], bearer)
        best = jnp.where(better, there, best)
    return bearer


def _joining(plan: Plan, given: Given, found: "Touches", bearers: Array, which: Array) -> Array:
    """(2, items): slots that join ahead of the bearer and behind it, or -1."""
    seats = seats_of(plan)
    lanes = found.on.shape[-1]
    row, lane = which // lanes, which % lanes
    bearer = bearers[which]
    p, q = (x.at[:, bearer, lane].get(mode="promise_in_bounds") for x in (found.p, found.q))
    slots = jnp.asarray(seats.T, jnp.int32)[:, row]
    there = given.pick(jnp.maximum(slots, 0), lane[None])
    local = there.surfaces.local
    wide = there.begins.shape
    a, b = there.local
    p, q = (local(jnp.broadcast_to(x[:, None], wide)) for x in (p, q))
    usable = there.usable & (slots >= 0) & (slots != bearer[None])
    scale = there.surfaces.options(a, b)[0].scale
    early = jnp.where(usable, there.surfaces.excess(a, p, scale), -1.0)
    late = jnp.where(usable, there.surfaces.excess(q, b, scale), -1.0)
    # A surface that both pieces run into joins where they do so more.
    early, late = jnp.where(early < late, -1.0, early), jnp.where(early < late, late, -1.0)

    def best(depth: Array) -> Array:
        seat, most = slots[0], depth[0]
        for k in range(1, depth.shape[0]):
            more = depth[k] > most
            seat, most = jnp.where(more, slots[k], seat), jnp.where(more, depth[k], most)
        return jnp.where(most > 0.0, seat, -1)

    return jnp.stack([best(early), best(late)])


def _together(
    given: Given, found: "Touches", ahead: Array, bearer: Array, behind: Array
) -> "Touches":
    """Put in those that join, solved together with the bearer."""
    needed = (ahead >= 0) | (behind >= 0)
    lanes = found.on.shape[-1]
    block = min(block_size(needed.shape[0]), _TOGETHER)
    work = work_list(needed, block)

    def step(which: Array, _: Array, found: "Touches") -> "Touches":
        lane = which % lanes
        slots = jnp.stack([ahead[which], bearer[which], behind[which]])
        there = slots >= 0
        at = jnp.maximum(slots, 0)
        seats = given.pick(at, lane[None])
        pick = lambda x: x.at[..., at, lane[None]].get(mode="promise_in_bounds")  # noqa: E731
        # A side holds the string only on the surface that bears it, in the middle.
        middle = jnp.arange(3)[:, None] == 1
        left = seats.surfaces.left(*seats.local, pick(found.second) & middle)
        start = Contact(*(pick(x) for x in (found.on, found.p, found.q, found.arc, found.on)))
        start = start._replace(on=start.on & middle)
        seats = eqx.tree_at(lambda s: s.usable, seats, seats.usable & there)
        new = _settle(seats, left, start)
        before, after = neighbours(new.on, new.p, new.q, seats.begins, seats.ends)
        none = jnp.full_like(slots[0], -1)
        came, went = [none], [none]
        for k in range(2):
            came.append(jnp.where(new.on[k], slots[k], came[-1]))
            went.append(jnp.where(new.on[2 - k], slots[2 - k], went[-1]))
        values = {
            "on": new.on, "second": pick(found.second) & middle, "p": new.p, "q": new.q,
            "arc": new.arc, "before": before, "after": after, "from_slot": jnp.stack(came),
            "to_slot": jnp.stack(went[::-1]), "converged": new.converged,
        }  # fmt: skip
        put = jnp.where(there, slots, found.on.shape[0])
        return found._replace(
            **{
                name: getattr(found, name).at[..., put, lane[None]].set(value, mode="drop")
                for name, value in values.items()
            }
        )

    return by_blocks(step, work, block, found)


def neighbours(
    on: Bool[Array, "3 *batch"],
    p: Float[Array, "3 3 *batch"],
    q: Float[Array, "3 3 *batch"],
    begins: Float[Array, "3 3 *batch"],
    ends: Float[Array, "3 3 *batch"],
) -> tuple[Float[Array, "3 3 *batch"], Float[Array, "3 3 *batch"]]:
    """Where the string comes from and goes to at each of three seats in a row."""
    # The bearer, in the middle, is always there.
    came, went = [begins[:, 1]], [ends[:, 1]]
    for k in range(2):
        came.append(jnp.where(on[k][None], q[:, k], came[-1]))
        went.append(jnp.where(on[2 - k][None], p[:, 2 - k], went[-1]))
    return jnp.stack(came, axis=1), jnp.stack(went[::-1], axis=1)


def _settle(seats: Given, left: Left, start: Contact) -> Contact:
    """Rounds until nothing moves: all contacts anew, each on the string that others leave.

    Rounds alone would converge linearly, slowly where surfaces are close; so the next one
    starts from the mixture of the last three that should move least (Anderson's method).
    """
    still = max(_STILL, 10.0 * float(jnp.finfo(seats.begins.dtype).eps))

    def step(loop):
        count, moving, guess, now, history, tried = loop
        begins, ends = neighbours(now.on, guess[:3], guess[3:], seats.begins, seats.ends)
        new, tried = seats.solve(begins, ends, left, tried)
        # What has settled stays, so that it does not depend on who else is in the block.
        new = choose(moving[None], new, now)
        both = jnp.concatenate([new.p, new.q])
        shift = both - guess
        shift = jnp.where(new.on[None], shift, 0.0)
        same = jnp.all(new.on == now.on, axis=0)
        far = jnp.max(jnp.abs(shift), axis=(0, 1)) > still
        moved = moving & (far | ~same)
        # A change of contacts makes a new problem: what came before says nothing.
        history = jax.tree.map(
            lambda x: jnp.where(jnp.broadcast_to(same, x.shape), x, 0.0), history
        )
        best = _mixed(both, shift, history)
        # Far leaps end on other sides of surfaces.
        leap, reach = (jnp.max(jnp.abs(x), axis=(0, 1)) for x in (best - both, shift))
        usable = same & (count > 0) & (leap < _LEAP * reach)
        mixed = jnp.where(usable[None, None], best, both)
        older, last = history[1], (both, shift, jnp.where(same, 1.0, 0.0))
        history = (older, last)
        return count + 1, moved, mixed, new, history, tried

    zero = jnp.zeros((6, *seats.usable.shape), seats.begins.dtype)
    past = (zero, zero, zero[0, 0])
    guess = jnp.concatenate([start.p, start.q])
    tried = Tried.nothing(seats.usable, guess.dtype)
    moving = jnp.ones_like(seats.usable[0])
    loop = (jnp.zeros((), int), moving, guess, start, (past, past), tried)
    go_on = lambda loop: (loop[0] < _ROUNDS) & jnp.any(loop[1])  # noqa: E731
    _, moved, _, found, _, _ = jax.lax.while_loop(go_on, step, loop)
    # Where no balance is found the bearer holds the string alone.
    lost = moved[None]
    found = choose(lost, start, found)
    return found._replace(converged=found.converged & ~lost)


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
