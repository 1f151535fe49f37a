"""Which surfaces lift which stretches of the paths, and where.

All slots are tested cheaply; only those that may be in contact are put into a list and solved,
each with nothing but its own surface in the way, and then, where several meet on one stretch,
together (`_crowd`). Derivatives are implicit, for all slots at once.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..native import Program
from ._balance_rates import solve_rates
from ._block import BLOCK, SAME, Slot
from ._block_crowd import block_contacts
from ._compact import block_size, work_list
from ._crowd import SEATS, TOGETHER, Seating, joining, seated
from ._geometry import SurfaceFrames
from ._given import Given, Touches, picker
from ._plan import Plan
from ._rounds import Row, Table, preferred, solve_table
from ._surfaces import Differentiable, Surfaces, slot_sizes


def slot_surfaces(plan: Plan, frames: SurfaceFrames, lanes: int) -> Surfaces:
    """The surfaces of all slots."""
    which = np.asarray([slot.surface for slot in plan.slots], dtype=np.int64)
    shape = (3, len(which), lanes)
    kinds = np.asarray(plan.kinds)
    masks = (jnp.asarray(kinds == k)[:, None] for k in ("cylinder", "sphere", "torus"))
    size, half = slot_sizes(frames.size[:, which], *masks)
    centre = jnp.broadcast_to(frames.centre[:, which], shape)
    rotation = jnp.broadcast_to(frames.rotation[:, :, which], (3, *shape))
    return placed_surfaces(plan, centre, rotation, size, half)


def placed_surfaces(
    plan: Plan, centre: Array, rotation: Array, size: Array, half: Array
) -> Surfaces:
    """The surfaces of all slots from their numbers."""
    kinds = np.asarray(plan.kinds)
    which = [slot.surface for slot in plan.slots]
    side = (plan.sides[:, which] * (kinds != "torus"))[:, :, None]
    return Surfaces(
        centre=centre,
        rotation=rotation,
        size=size,
        half=half,
        side=jnp.asarray(side, size.dtype),
        cylinder=jnp.asarray(kinds == "cylinder")[:, None],
        ellipsoid=jnp.asarray(kinds == "ellipsoid")[:, None],
        torus=jnp.asarray(kinds == "torus")[:, None],
        has=plan.has,
        rows=tuple(
            (kind, plan.kinds.index(kind), plan.kinds.index(kind) + plan.kinds.count(kind))
            for kind in sorted(set(plan.kinds))
        ),
    )


def touches(
    plan: Plan,
    surfaces: Surfaces,
    begins: Float[Array, "3 ns lanes"],
    ends: Float[Array, "3 ns lanes"],
    exists: Bool[Array, "ns lanes"],
) -> Touches:
    """Contacts of every slot, given its stretch's two ends in the ground frame."""
    return _touches(surfaces, begins, ends, exists, plan)


@eqx.filter_custom_jvp
def _touches(surfaces: Surfaces, begins: Array, ends: Array, exists: Array, plan: Plan) -> Touches:
    given = Slot(
        surfaces.centre, surfaces.rotation, surfaces.size, surfaces.half, begins, ends, exists
    )
    rows = _program(plan)(given, begins.shape[-1])
    return _as_touches(rows, begins, ends)


@functools.lru_cache(maxsize=64)
def _program(plan: Plan) -> Program:
    def shape(given: Slot) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((Row.count + 1, len(plan.slots)), given.begin.dtype)

    in_machine_code = functools.partial(block_contacts, plan)
    return Program(in_machine_code, functools.partial(_contacts_by_blocks, plan), BLOCK, shape)


def _contacts_by_blocks(plan: Plan, given: Slot) -> Float[Array, "13 ns lanes"]:
    """All lanes at once: rows of contacts, then whether it is the second way."""
    centre, rotation, size, half, begins, ends, exists = given
    surfaces = placed_surfaces(plan, centre, rotation, size, half)
    usable = _usable(plan, surfaces, begins, ends, exists)
    a, b = surfaces.local(begins), surfaces.local(ends)
    plain, other, turned, first, second, unsure, third, kept = surfaces.ways(a, b)
    touch = first & surfaces.touch(a, b, plain)
    wanted = jnp.stack([usable & x for x in (touch, second, third)], axis=1)
    n, _, lanes = wanted.shape
    # Which kind a picked surface is depends on the pose, so rows say nothing any more.
    loose = dataclasses.replace(surfaces, rows=())
    pick = picker(Given(loose, begins, ends, usable, plain.scale, other, turned, kept))
    seats = SEATS if plan.crowded else 1
    stretches = len(plan.crowded) * lanes
    block = min(block_size(stretches), TOGETHER) if plan.crowded else block_size(wanted.size)
    work = work_list(wanted.reshape(-1), seats * block)
    room = max(-(-work.order.shape[0] // seats), stretches + block)
    order = jnp.concatenate([work.order, jnp.zeros(seats * room - work.order.shape[0], jnp.int32)])
    table = Table(order.reshape(room, seats).T, -(-work.total // seats), jnp.zeros((), dtype=bool))
    empty = jnp.zeros((Row.count, n, lanes), begins.dtype)
    results = jnp.zeros((Row.count + 1, seats, room), begins.dtype)
    place = work.place.reshape(wanted.shape)

    def alone(results: Array) -> tuple[Array, Array]:
        return _alone(wanted, unsure, results, place // seats, place % seats)

    if not plan.crowded:
        return _rows(*alone(solve_table(pick, table, empty, results, block)))
    none = jnp.full((len(plan.crowded), lanes), 0, jnp.int32)
    no = none < 0
    seating = Seating(jnp.stack([none] * SEATS), none, no, none)

    # Twice the same, so that it is compiled once: each alone, then those that meet together.
    def phase(state: tuple) -> tuple:
        count, table, results, rows, turned, seating = state
        results = solve_table(pick, table, rows, results, block)

        def first() -> tuple:
            rows, turned = alone(results)
            rows, table, seating = joining(plan, pick, rows, turned, room, block)
            return table, rows, turned, seating

        # The second time there is nothing left to prepare.
        table, rows, turned, seating = jax.lax.cond(
            count == 0, first, lambda: (table, rows, turned, seating)
        )
        return count + 1, table, results, rows, turned, seating

    state = (jnp.zeros((), jnp.int32), table, results, empty, usable, seating)
    state = jax.lax.while_loop(lambda state: state[0] < 2, phase, state)
    _, _, results, rows, turned, seating = state
    return _rows(*seated(plan, rows, turned, results, seating))


def _rows(rows: Array, second: Array) -> Array:
    return jnp.concatenate([rows, second.astype(rows.dtype)[None]])


def _usable(plan: Plan, surfaces: Surfaces, begins: Array, ends: Array, exists: Array) -> Array:
    """Not those whose stretch is fixed inside them at an end."""
    for which, points in enumerate((begins, ends)):
        sunk = np.asarray([slot.sunk[which] for slot in plan.slots])
        if sunk.any():
            exists = exists & ~(
                jnp.asarray(sunk)[:, None] & surfaces.inside(surfaces.local(points))
            )
    return exists


def _alone(
    wanted: Array, unsure: Array, results: Array, column: Array, seat: Array
) -> tuple[Array, Array]:
    """Each with nothing but its own surface in the way, in the best of its ways (slot, way,
    lane).

    One side of a one-sided surface holds the string while that makes it longer than letting
    go would, so that the length is continuous.
    """
    which = np.array([Row.on, Row.long, Row.converged])
    state = results.at[which[:, None, None, None], seat, column].get(mode="promise_in_bounds")
    on, long, found = wanted & (state[0] > 0.5), state[1], state[2] > 0.5
    # Both ways often end up on the same string; then it is the first, whatever the rounding.
    margin = max(SAME, 10.0 * float(jnp.finfo(long.dtype).eps))
    # Of the first and the third the shorter.
    instead = on[:, 0] & on[:, 2]
    shorter = long[:, 2] < long[:, 0] - margin
    instead = instead & preferred(shorter, found[:, 0], found[:, 2])
    seat, column, long, found = (
        x.at[:, 0].set(jnp.where(instead, x[:, 2], x[:, 0])) for x in (seat, column, long, found)
    )
    shorter = long[:, 1] < long[:, 0] - margin
    either = on[:, 0] & preferred(shorter, found[:, 0], found[:, 1])
    better = on[:, 1] & jnp.where(unsure, either, ~(on[:, 0] & shorter))
    seat, column = (jnp.where(better, x[:, 1], x[:, 0]) for x in (seat, column))
    rows = results.at[:, seat, column].get(mode="promise_in_bounds")
    on = on[:, 0] | (on[:, 1] & ~unsure)
    nobody = -jnp.ones_like(rows[:2])
    return jnp.concatenate([on.astype(rows.dtype)[None], rows[1 : Row.came], nobody]), better


def _as_touches(rows: Array, begins: Array, ends: Array) -> Touches:
    came, went = rows[Row.came].astype(jnp.int32), rows[Row.went].astype(jnp.int32)
    p, q = rows[Row.p], rows[Row.q]
    return Touches(
        on=rows[Row.on] > 0.5,
        second=rows[Row.count] > 0.5,
        p=p,
        q=q,
        arc=rows[Row.arc],
        before=_neighbour(q, came, begins),
        after=_neighbour(p, went, ends),
        from_slot=came,
        to_slot=went,
        converged=rows[Row.converged] > 0.5,
    )


def _neighbour(points: Array, slot: Array, spare: Array) -> Array:
    """Points of other slots, or the spare ones where there is no other."""
    lane = jnp.arange(points.shape[-1])[None]
    there = points.at[:, jnp.maximum(slot, 0), lane].get(mode="promise_in_bounds")
    return jnp.where((slot >= 0)[None], there, spare)


@_touches.def_jvp
def _touches_jvp(primals, tangents):
    """Implicit: rates of tangent points follow those of their neighbours."""
    surfaces, begins, ends, _, plan = primals
    found: Touches = _touches(*primals)
    floats, rest = eqx.partition(surfaces, eqx.is_inexact_array)

    def sides(begins: Array, ends: Array, p: Array, q: Array) -> tuple[Array, Array]:
        if not plan.crowded:
            return begins, ends
        return _neighbour(q, found.from_slot, begins), _neighbour(p, found.to_slot, ends)

    def once(floats, begins, ends, p, q):
        surfaces = eqx.combine(floats, rest)
        left = surfaces.left(surfaces.local(begins), surfaces.local(ends), found.second)
        before, after = (surfaces.local(x) for x in sides(begins, ends, p, q))
        # The same string again, be it the longer of two that pull tight.
        lies = surfaces.local(found.p) + surfaces.local(found.q)
        new = surfaces.contact(before, after, left, found.on, Differentiable(), lies)
        new = surfaces.world(new.p), surfaces.world(new.q), new.arc
        return tuple(jnp.where(jnp.broadcast_to(found.on, x.shape), x, 0.0) for x in new)

    given = (floats, begins, ends)
    moved = _filled(given, (tangents[0], tangents[1], tangents[2]))
    _, push = jax.linearize(once, *given, found.p, found.q)
    none = jax.tree.map(jnp.zeros_like, moved)
    dp, dq, darc = push(*moved, jnp.zeros_like(found.p), jnp.zeros_like(found.q))
    if plan.crowded:

        def follow(rates: Array) -> Array:
            return jnp.concatenate(push(*none, rates[:3], rates[3:])[:2])

        rates = solve_rates(follow, jnp.concatenate([dp, dq]), np.asarray(plan.rows))
        dp, dq, darc = push(*moved, rates[:3], rates[3:])
    before, after = sides(moved[1], moved[2], dp, dq)
    rates = Touches(None, None, dp, dq, darc, before, after, None, None, None)  # pyright: ignore
    return found, rates


def _filled(primals, tangents):
    """Zeros where there is no tangent."""
    return jax.tree.map(
        lambda x, t: None if x is None else (jnp.zeros_like(x) if t is None else t),
        primals,
        tangents,
        is_leaf=lambda x: x is None,
    )
