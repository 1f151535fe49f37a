"""Which surfaces lift which stretches of the paths, and where."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._crowd import Trio, crowded_trios, neighbours
from ._geometry import SurfaceFrames, pick
from ._plan import Plan
from ._remainder import Left
from ._surfaces import Surfaces
from ._vectors import kept


class Touches(NamedTuple):
    """Contacts of all slots in the ground frame, with the string on either side."""

    on: Bool[Array, "ns lanes"]
    p: Float[Array, "3 ns lanes"]
    """Touch-down."""
    q: Float[Array, "3 ns lanes"]
    """Lift-off."""
    arc: Float[Array, "ns lanes"]
    before: Float[Array, "3 ns lanes"]
    """Where the string comes from: the stretch's start, or lift-off from another surface."""
    after: Float[Array, "3 ns lanes"]
    first: Bool[Array, "ns lanes"]
    """In contact, and the first to be so on the stretch."""
    last: Bool[Array, "ns lanes"]


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

    def mask(kind: str) -> Array:
        return jnp.broadcast_to(jnp.asarray(kinds == kind)[:, None], shape[1:])

    side = (plan.sides[:, which] * (kinds != "torus"))[:, :, None]
    return Surfaces(
        centre=jnp.broadcast_to(frames.centre[:, which], shape),
        rotation=jnp.broadcast_to(frames.rotation[:, :, which], (3, *shape)),
        size=jnp.broadcast_to(divisors, shape),
        half=jnp.broadcast_to(
            0.5 * jnp.minimum(jnp.where(cylinder, size[1], one), _LONG), shape[1:]
        ),
        side=jnp.broadcast_to(jnp.asarray(side, size.dtype), shape),
        cylinder=mask("cylinder"),
        ellipsoid=mask("ellipsoid"),
        torus=mask("torus"),
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
) -> tuple[Touches, Left]:
    """Contacts of every slot, given its stretch's two ends in the ground frame, and what its
    surface has left."""
    a, b = kept((surfaces.local(begins), surfaces.local(ends)))
    sunk = np.asarray([slot.sunk for slot in plan.slots])
    blocked = jnp.asarray(sunk[:, :1]) & surfaces.inside(a)
    blocked = blocked | jnp.asarray(sunk[:, 1:]) & surfaces.inside(b)
    usable = exists & ~blocked
    alone, left = kept(surfaces.alone(a, b, usable))
    alone = kept(alone._replace(p=surfaces.world(alone.p), q=surfaces.world(alone.q)))
    found = Touches(*alone, begins, ends, alone.on, alone.on)
    if not plan.crowded:
        return found, left
    rows = np.asarray([group[0] for group in plan.crowded])
    trio = crowded_trios(plan, surfaces, left, usable, alone, begins[:, rows], ends[:, rows])
    return _merge(plan, found, trio), left


def _merge(plan: Plan, found: Touches, trio: Trio) -> Touches:
    """Slots of crowded stretches take what their trio says; the others stay."""
    members = [(k, row) for row, group in enumerate(plan.crowded) for k in group]
    slots, rows = (np.asarray(x) for x in zip(*members, strict=True))
    trio = Trio(*(pick(x, rows) for x in trio))
    mine = trio.on & (trio.slots == jnp.asarray(slots)[None, :, None])
    begin, end = pick(found.before, slots), pick(found.after, slots)
    begins, ends = neighbours(trio.on, trio.p, trio.q, begin, end)
    none = jnp.zeros_like(trio.on[:1])
    earlier = jnp.concatenate([none, trio.on[:1], trio.on[:1] | trio.on[1:2]])
    later = jnp.concatenate([trio.on[1:2] | trio.on[2:], trio.on[2:], none])

    def choose(x: Array) -> Array:
        """The seat that is mine, or any."""
        return jnp.where(
            mine[0], x[..., 0, :, :], jnp.where(mine[1], x[..., 1, :, :], x[..., 2, :, :])
        )

    new = Touches(
        on=jnp.any(mine, axis=0),
        p=choose(trio.p),
        q=choose(trio.q),
        arc=choose(trio.arc),
        before=choose(begins),
        after=choose(ends),
        first=jnp.any(mine & ~earlier, axis=0),
        last=jnp.any(mine & ~later, axis=0),
    )
    return Touches(*(x.at[..., slots, :].set(y) for x, y in zip(found, new, strict=True)))
