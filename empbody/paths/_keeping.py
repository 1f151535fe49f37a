"""Which one-sided cylinders keep the string on their side whatever else it meets.

A string over several surfaces is the shortest one that passes each of them on the side that is
given, so lengths are continuous whoever bears it. That is well defined for a cylinder: a string
cannot slip off it, and stays on its side however others move it. But where surfaces overlap there
may be no such string, or only one that winds round the others; there, as round a ball, a side only
counts while the surface has the string to itself.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._block import Block
from ._plan import Plan
from ._remainder import foot_of
from ._surfaces import Surfaces
from ._tables import Index, known, put, take
from ._vectors import cross, dot, length


def clear(
    cylinder: Surfaces,
    other: Surfaces,
    begin: Float[Array, "3 *batch"],
    end: Float[Array, "3 *batch"],
) -> Bool[Array, "*batch"]:
    """Whether cylinders, taken as endless, stay clear of other surfaces, elementwise; or overlap
    with other cylinders only far from the straight line between two points."""
    axis, gap = cylinder.rotation[:, 2], other.centre - cylinder.centre
    size, across = other.size, other.rotation[:, 2]
    reach = jnp.where(other.ellipsoid, jnp.maximum(jnp.maximum(size[0], size[1]), size[2]), size[0])
    reach = cylinder.size[0] + jnp.where(other.torus, size[0] + size[1], reach)
    away = length(gap - dot(gap, axis)[None] * axis) > reach
    # Two axes: how near they come to each other, and where.
    normal = cross(axis, across)
    square = dot(normal, normal)
    skew = square > 1e-6
    square = jnp.where(skew, square, 1.0)
    sine = jnp.sqrt(square)
    along = (dot(gap, axis) - dot(axis, across) * dot(gap, across)) / square
    place = cylinder.centre + along[None] * axis
    beside = length(foot_of(begin - place, end - place)) > reach / sine + 2.0 * reach
    crossed = (jnp.abs(dot(gap, normal)) > reach * sine) | beside
    return jnp.where(other.cylinder & skew, crossed, away)


def keepers(plan: Plan, sided: np.ndarray) -> np.ndarray:
    """One-sided cylinders that are not alone on their stretch."""
    crowded = np.zeros(len(plan.slots), dtype=bool)
    crowded[[slot for group in plan.crowded for slot in group]] = True
    return np.flatnonzero(crowded & sided & (np.asarray(plan.kinds) == "cylinder"))


def keeping(block: Block) -> Float[Array, "ns poses"]:
    """One for slots that keep the string on their side, else zero."""
    poses, dtype = block.poses, block.dtype
    none = jnp.zeros((block.count, poses.size), dtype)
    slots = keepers(block.plan, block.sided)
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
        (own, slot), (other, _) = block.slot(first, pose), block.slot(second, pose)
        return put(apart, row, pose, clear(own, other, slot.begin, slot.end))

    apart = poses.each_of(0, len(pairs), look, jnp.zeros((len(pairs), poses.size), dtype))

    def gather(number: Index, pose: Index, keeps: Array) -> Array:
        all_ = jnp.ones((1,), dtype)
        for k in range(most):
            all_ = all_ * take(apart, known(table[:, k], number), pose)
        return put(keeps, known(slots, number), pose, all_)

    return poses.each_of(0, len(slots), gather, none)
