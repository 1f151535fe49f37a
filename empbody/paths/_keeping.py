"""Which one-sided cylinders keep the string on their side whatever else it meets.

A string over several surfaces is the shortest one that passes each of them on the side that is
given, so lengths are continuous whoever bears it. That is well defined for a cylinder: a string
cannot slip off it, and stays on its side however others move it. But where surfaces overlap there
may be no such string, or only one that winds round the others; there, as round a ball, a side only
counts while the surface has the string to itself. Whether they overlap must not depend on where the
string is: the length would jump where it changes.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._block import Block
from ._plan import Plan
from ._surfaces import Surfaces
from ._tables import Index, known, put, take
from ._vectors import cross, dot, length


def clear(cylinder: Surfaces, other: Surfaces) -> Bool[Array, "*batch"]:
    """Whether cylinders stay clear of other surfaces, elementwise, as far as anything is left of
    them beyond their ends."""
    axis, gap = cylinder.rotation[:, 2], other.centre - cylinder.centre
    size, across = other.size, other.rotation[:, 2]
    reach = jnp.where(other.ellipsoid, jnp.maximum(jnp.maximum(size[0], size[1]), size[2]), size[0])
    reach = cylinder.size[0] + jnp.where(other.torus, size[0] + size[1], reach)
    rise, ends = dot(gap, axis), cylinder.half + cylinder.size[0]
    past = jnp.abs(rise) > ends + reach - cylinder.size[0]
    away = past | (length(gap - rise[None] * axis) > reach)
    # Two axes: how near they come to each other, and where along both.
    normal = cross(axis, across)
    square = dot(normal, normal)
    skew = square > 1e-6
    square = jnp.where(skew, square, 1.0)
    sine = jnp.sqrt(square)
    cosine, back = dot(axis, across), dot(gap, across)
    along, beside = (rise - cosine * back) / square, (cosine * rise - back) / square
    far = (jnp.abs(along) > ends + reach / sine) | (
        jnp.abs(beside) > other.half + size[0] + reach / sine
    )
    crossed = (jnp.abs(dot(gap, normal)) > reach * sine) | far
    return jnp.where(other.cylinder & skew, crossed, away)


def keepers(plan: Plan) -> np.ndarray:
    """One-sided cylinders that are not alone on their stretch."""
    sided = (plan.sides[:, [slot.surface for slot in plan.slots]] != 0).any(axis=0)
    crowded = np.zeros(len(plan.slots), dtype=bool)
    crowded[[slot for group in plan.crowded for slot in group]] = True
    return np.flatnonzero(crowded & sided & (np.asarray(plan.kinds) == "cylinder"))


def keeping(block: Block) -> Float[Array, "ns poses"]:
    """One for slots that keep the string on their side, else zero."""
    poses, dtype = block.poses, block.dtype
    none = jnp.zeros((block.count, poses.size), dtype)
    slots = keepers(block.plan)
    if not len(slots):
        return none
    group = {slot: group for group in block.plan.crowded for slot in group}
    pairs = [(k, other) for k in slots for other in group[k] if other != k]
    rows = [[row for row, (k, _) in enumerate(pairs) if k == slot] for slot in slots]
    # Filled up by naming the last one again.
    most = max(map(len, rows))
    table = np.array([[*row, *[row[-1]] * (most - len(row))] for row in rows])

    def look(row: Index, pose: Index, apart: Array) -> Array:
        first, second = (known(np.array(pairs)[:, k], row) for k in (0, 1))
        (own, _), (other, _) = block.slot(first, pose), block.slot(second, pose)
        return put(apart, row, pose, clear(own, other))

    apart = poses.each_of(0, len(pairs), look, jnp.zeros((len(pairs), poses.size), dtype))

    def gather(number: Index, pose: Index, keeps: Array) -> Array:
        all_ = jnp.ones((1,), dtype)
        for k in range(most):
            all_ = all_ * take(apart, known(table[:, k], number), pose)
        return put(keeps, known(slots, number), pose, all_)

    return poses.each_of(0, len(slots), gather, none)
