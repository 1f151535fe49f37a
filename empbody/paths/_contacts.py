"""Which surfaces lift which stretches of the paths, and where.

All slots are tested cheaply; only those that may be in contact are put into a list and solved,
each with nothing but its own surface in the way (`_alone`), and then, where several meet on
one stretch, together (`_crowd`). Derivatives are implicit, for all slots at once.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ._compact import block_size, on_list, take, work_list
from ._crowd import Given, crowded
from ._geometry import SurfaceFrames
from ._plan import Plan
from ._surfaces import Differentiable, Surfaces, string_length


class Touches(NamedTuple):
    """Contacts of all slots in the ground frame, with the string on either side.

    Where `on` is false the string passes by, and the other entries mean nothing.
    """

    on: Bool[Array, "ns lanes"]
    second: Bool[Array, "ns lanes"]
    """Which of its two ways the string takes (see `Surfaces.options`)."""
    p: Float[Array, "3 ns lanes"]
    """Touch-down."""
    q: Float[Array, "3 ns lanes"]
    """Lift-off."""
    arc: Float[Array, "ns lanes"]
    before: Float[Array, "3 ns lanes"]
    """Where the string comes from: the stretch's start, or lift-off from another surface."""
    after: Float[Array, "3 ns lanes"]
    from_slot: Int[Array, "ns lanes"]
    """That other surface's slot; -1 if there is none."""
    to_slot: Int[Array, "ns lanes"]
    converged: Bool[Array, "ns lanes"]

    @property
    def first(self) -> Bool[Array, "ns lanes"]:
        """In contact, and the first to be so on the stretch."""
        return self.on & (self.from_slot < 0)

    @property
    def last(self) -> Bool[Array, "ns lanes"]:
        return self.on & (self.to_slot < 0)


_LONG = 1e6
"""Stands for an endless cylinder (m): infinity would make gradients undefined."""


def slot_surfaces(plan: Plan, frames: SurfaceFrames, lanes: int) -> Surfaces:
    """The surfaces of all slots."""
    which = np.asarray([slot.surface for slot in plan.slots], dtype=np.int64)
    shape = (3, len(which), lanes)
    size = frames.size[:, which]
    kinds = np.asarray(plan.kinds)
    cylinder, torus = (jnp.asarray(kinds == k)[:, None] for k in ("cylinder", "torus"))
    one = jnp.ones_like(size[0])
    divisors = jnp.stack(
        [
            size[0],
            jnp.where(cylinder, size[0], size[1]),
            jnp.where(cylinder | torus, one, size[2]),
        ]
    )
    side = (plan.sides[:, which] * (kinds != "torus"))[:, :, None]
    return Surfaces(
        centre=jnp.broadcast_to(frames.centre[:, which], shape),
        rotation=jnp.broadcast_to(frames.rotation[:, :, which], (3, *shape)),
        size=divisors,
        half=0.5 * jnp.minimum(jnp.where(cylinder, size[1], one), _LONG),
        side=jnp.asarray(side, size.dtype),
        cylinder=cylinder,
        ellipsoid=jnp.asarray(kinds == "ellipsoid")[:, None],
        torus=torus,
        has=(*sorted(set(plan.kinds)), *(["side"] if side.any() else [])),
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
    given = Given(surfaces, begins, ends, _usable(plan, surfaces, begins, ends, exists))
    found = _alone(given)
    return crowded(plan, given, found) if plan.crowded else found


def _usable(plan: Plan, surfaces: Surfaces, begins: Array, ends: Array, exists: Array) -> Array:
    """Not those whose stretch is fixed inside them at an end."""
    for which, points in enumerate((begins, ends)):
        sunk = np.asarray([slot.sunk[which] for slot in plan.slots])
        if sunk.any():
            exists = exists & ~(
                jnp.asarray(sunk)[:, None] & surfaces.inside(surfaces.local(points))
            )
    return exists


def _alone(given: Given) -> Touches:
    """Each with nothing but its own surface in the way.

    One side of a one-sided surface holds the string while that makes it longer than letting
    go would, so that the length is continuous.
    """
    surfaces, usable = given.surfaces, given.usable
    a, b = surfaces.local(given.begins), surfaces.local(given.ends)
    plain, _, second, unsure = surfaces.options(a, b)
    wanted = jnp.stack([usable & surfaces.touch(a, b, plain), usable & second], axis=1)
    n, _, lanes = wanted.shape
    flat = wanted.reshape(-1)
    block = block_size(flat.shape[0])
    work = work_list(flat, block)

    def solve(which: Array) -> Array:
        slot, way, lane = which // (2 * lanes), which // lanes % 2, which % lanes
        here = given.pick(slot, lane)
        left = here.surfaces.left(*here.local, way == 1)
        found, _ = here.solve(here.begins, here.ends, left)
        long = string_length(here.begins, found.p, found.arc, found.q, here.ends)
        flags = jnp.stack([found.on, found.converged]).astype(long.dtype)
        return jnp.concatenate([flags, long[None], found.arc[None], found.p, found.q])

    rows = on_list(solve, work, block, jnp.zeros((10, 1), given.begins.dtype))
    place = work.place.reshape(n, 2, lanes)
    on, long = wanted & (take(rows[0], place) > 0.5), take(rows[2], place)
    # Both ways often end up on the same string; then it is the first, whatever the rounding.
    margin = max(_SAME, 10.0 * float(jnp.finfo(long.dtype).eps))
    shorter = long[:, 1] < long[:, 0] - margin
    better = on[:, 1] & jnp.where(unsure, on[:, 0] & shorter, ~(on[:, 0] & shorter))
    rows = take(rows, jnp.where(better, place[:, 1], place[:, 0]))
    none = jnp.full((n, lanes), -1, jnp.int32)
    return Touches(
        on=on[:, 0] | (on[:, 1] & ~unsure),
        second=better,
        p=rows[4:7],
        q=rows[7:],
        arc=rows[3],
        before=given.begins,
        after=given.ends,
        from_slot=none,
        to_slot=none,
        converged=rows[1] > 0.5,
    )


_SAME = 1e-9
"""Strings that differ by less (m) are the same one."""
_DERIVATIVE_ROUNDS = 20


@_touches.def_jvp
def _touches_jvp(primals, tangents):
    """Implicit: the derivative of a fixed point is a fixed point of the derivative."""
    surfaces, begins, ends, _, plan = primals
    found: Touches = _touches(*primals)
    floats, rest = eqx.partition(surfaces, eqx.is_inexact_array)
    lane = jnp.arange(begins.shape[-1])[None]

    def neighbour(points: Array, slot: Array, spare: Array) -> Array:
        there = points.at[:, jnp.maximum(slot, 0), lane].get(mode="promise_in_bounds")
        return jnp.where((slot >= 0)[None], there, spare)

    def sides(begins: Array, ends: Array, p: Array, q: Array) -> tuple[Array, Array]:
        if not plan.crowded:
            return begins, ends
        return neighbour(q, found.from_slot, begins), neighbour(p, found.to_slot, ends)

    def once(floats, begins, ends, p, q):
        surfaces = eqx.combine(floats, rest)
        left = surfaces.left(surfaces.local(begins), surfaces.local(ends), found.second)
        before, after = (surfaces.local(x) for x in sides(begins, ends, p, q))
        new = surfaces.contact(before, after, left, found.on, Differentiable())
        new = surfaces.world(new.p), surfaces.world(new.q), new.arc
        return tuple(jnp.where(jnp.broadcast_to(found.on, x.shape), x, 0.0) for x in new)

    given = (floats, begins, ends)
    moved = _filled(given, (tangents[0], tangents[1], tangents[2]))
    _, push = jax.linearize(once, *given, found.p, found.q)
    dp, dq, darc = push(*moved, jnp.zeros_like(found.p), jnp.zeros_like(found.q))
    if plan.crowded:

        def again(rates, _):
            return push(*moved, rates[0], rates[1]), None

        rates, _ = jax.lax.scan(again, (dp, dq, darc), length=_DERIVATIVE_ROUNDS)
        dp, dq, darc = rates
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
