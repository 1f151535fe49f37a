"""What the shortest paths over an ellipsoid and over a torus share.

Vectors are component first, (3, ...), and all work is elementwise over the batch behind.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float


class Geodesic(NamedTuple):
    """A taut string from a over a surface to b, in the frame of the surface (m).

    It runs straight from a to `p`, where it touches down, over the surface along a geodesic
    of length `arc`, and straight from `q`, where it lifts off, to b. `length` is the whole,
    |p - a| + arc + |b - q|. Where `converged` is false the numbers are finite but are not
    those of a geodesic.
    """

    p: Float[Array, "3 *batch"]
    q: Float[Array, "3 *batch"]
    arc: Float[Array, "*batch"]
    length: Float[Array, "*batch"]
    converged: Bool[Array, "*batch"]


def dot(x: Array, y: Array) -> Array:
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


def cross(x: Array, y: Array) -> Array:
    return jnp.stack(
        [
            x[1] * y[2] - x[2] * y[1],
            x[2] * y[0] - x[0] * y[2],
            x[0] * y[1] - x[1] * y[0],
        ]
    )


def combine(k: Array, x: Array, m: Array, y: Array) -> Array:
    """k x + m y, for one number and one vector each."""
    return k[None] * x + m[None] * y


def safe_sqrt(x: Array) -> Array:
    """√max(x, 0), with zero slope where x is not positive."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def keep(one: Array, *values: Array) -> tuple[Array, ...]:
    """The values, divided by a one that the compiler cannot see.

    It does not fuse divisions into each of their uses, and so computes what follows once.
    """
    return tuple(x / jnp.broadcast_to(one, x.shape) for x in values)


def on_those(
    function, needed: Array, block: int, default: Array, columns: Array, first: Array | None = None
) -> Array:
    """function(columns), rows by members, for the members that need it; default for others.

    They are gathered into blocks, those named by `first` ahead, and only as many blocks are
    worked through as there are.
    """
    size = needed.shape[0]
    block = min(block, size)
    count = jnp.sum(needed)
    place = jnp.cumsum(needed) - 1
    if first is not None:
        early = jnp.cumsum(first)
        place = jnp.where(first, early - 1, place + early[-1] - early)
    order = jnp.zeros(size + block, place.dtype)
    order = order.at[jnp.where(needed, place, size + block)].set(jnp.arange(size), mode="drop")
    # What fills up the last block repeats its first member.
    head = order[jnp.maximum(count - 1, 0) // block * block]
    order = jnp.where(jnp.arange(size + block) < count, order, head)

    def step(loop):
        start, results = loop
        which = lax.dynamic_slice(order, (start,), (block,))
        new = function(columns.at[:, which].get(mode="promise_in_bounds"))
        return start + block, lax.dynamic_update_slice(results, new, (jnp.zeros_like(start), start))

    room = jnp.zeros((default.shape[0], size + block), default.dtype)
    loop = (jnp.zeros((), count.dtype), room)
    found = lax.while_loop(lambda loop: loop[0] < count, step, loop)[1]
    found = found.at[:, jnp.maximum(place, 0)].get(mode="promise_in_bounds")
    return jnp.where(needed[None], found, default)


def block_size(size: int) -> int:
    """Few at a time for one sample; enough to fill vector units for many."""
    return min(max(8, size // 16), 256)
