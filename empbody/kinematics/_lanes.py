"""Arrays with the batch last, and small vector algebra on them.

XLA on CPU is fast at elementwise work over a long contiguous last axis and slow at tiny
matrix products. So the hot path keeps the links first, the 3-vector components next and
the samples ("lanes") last: a vector per link is (n, 3, lanes), a matrix (n, 3, 3, lanes).
One sample is one lane.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._mix import mix as mix


def lanes_last(leaf: Array, batched: bool) -> Array:
    """A model's leaf with its batch axis (first, if it has one) moved to the lanes."""
    return jnp.moveaxis(leaf, 0, -1) if batched else leaf[..., None]


def components(a: Array, axis: int = 1) -> list[Array]:
    """Slices of width one along an axis. Unlike indexing, splitting has a cheap transpose:
    one concatenation instead of a padded array for each component."""
    return list(jax.lax.split(a, (1,) * a.shape[axis], axis))


def cross(a: Array, b: Array) -> Array:
    """a × b over axis 1."""
    (ax, ay, az), (bx, by, bz) = components(a), components(b)
    return jnp.concatenate([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=1)


def dot(a: Array, b: Array) -> Array:
    """a · b over axis 1."""
    (ax, ay, az), (bx, by, bz) = components(a), components(b)
    return jnp.squeeze(ax * bx + ay * by + az * bz, axis=1)


def rotate(matrices: Array, vectors: Array) -> Array:
    """Matrix times vector, link by link."""
    return jnp.squeeze(multiply(matrices, vectors[:, :, None]), axis=2)


def multiply(a: Array, b: Array) -> Array:
    """3×3 times 3×k, link by link; further columns of a are left out.

    Entry by entry: rows that were broadcast over columns would become small sums, which are
    slow, in reverse mode.
    """
    left = [components(row, 2) for row in components(a)]
    right = [components(row, 2) for row in components(b)]
    rows = []
    for row in left:
        entries = [
            row[0] * right[0][k] + row[1] * right[1][k] + row[2] * right[2][k]
            for k in range(b.shape[2])
        ]
        rows.append(jnp.concatenate(entries, axis=2))
    return jnp.concatenate(rows, axis=1)


def skew(v: Array) -> Array:
    """Matrix of the cross product v × ·"""
    x, y, z = v[:, 0], v[:, 1], v[:, 2]
    o = jnp.zeros_like(x)
    rows = [jnp.stack(row, axis=1) for row in ((o, -z, y), (z, o, -x), (-y, x, o))]
    return jnp.stack(rows, axis=1)


@jax.custom_jvp
def _stored(flat: Array) -> Array:
    """The same numbers, computed once and stored; an even count of them.

    XLA would otherwise fold them into every reader and compute them again for each element
    there, which for a sine read by nine matrix entries means nine sines. On CPU it drops
    optimisation barriers before it fuses, but never fuses out of a matrix product: so
    this is a product with the identity.
    """
    eye = jnp.eye(2, dtype=flat.dtype)
    return jax.lax.dot_general(eye, flat.reshape(2, -1), (((1,), (0,)), ((), ()))).reshape(-1)


@_stored.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return _stored(*primals), tangents[0]


def materialise(*values: Array) -> list[Array]:
    """These arrays, each computed once (see `_stored`)."""
    flat = jnp.concatenate([value.reshape(-1) for value in values])
    if flat.shape[0] % 2:
        flat = jnp.concatenate([flat, jnp.zeros(1, dtype=flat.dtype)])
    sizes = [value.size for value in values]
    parts = jax.lax.split(_stored(flat), (*sizes, flat.shape[0] - sum(sizes)))
    return [part.reshape(value.shape) for part, value in zip(parts, values, strict=False)]


def halves(values: Array, axis: int = 1) -> list[Array]:
    """The first three entries along an axis, and the rest."""
    return list(jax.lax.split(values, (3, values.shape[axis] - 3), axis))


_LISTED = 32
"""Rows above which they are gathered and not picked one by one."""


def select(values: Array, links: tuple[int, ...]) -> Array:
    """Rows of the named links, in that order."""
    if links == tuple(range(values.shape[0])):
        return values
    if values.shape[0] > _LISTED:
        return values.at[np.asarray(links)].get(mode="promise_in_bounds")
    rows = components(values, 0)
    return jnp.concatenate([rows[link] for link in links])
