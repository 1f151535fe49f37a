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


def lanes_last(leaf: Array, batched: bool) -> Array:
    """A model's leaf with its batch axis (first, if it has one) moved to the lanes."""
    return jnp.moveaxis(leaf, 0, -1) if batched else leaf[..., None]


def cross(a: Array, b: Array) -> Array:
    """a × b over axis 1."""
    ax, ay, az = a[:, 0], a[:, 1], a[:, 2]
    bx, by, bz = b[:, 0], b[:, 1], b[:, 2]
    return jnp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=1)


def dot(a: Array, b: Array) -> Array:
    """a · b over axis 1."""
    return a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1] + a[:, 2] * b[:, 2]


def rotate(matrices: Array, vectors: Array) -> Array:
    """Matrix times vector, link by link."""
    m, v = matrices, vectors
    return m[:, :, 0] * v[:, None, 0] + m[:, :, 1] * v[:, None, 1] + m[:, :, 2] * v[:, None, 2]


def multiply(a: Array, b: Array) -> Array:
    """3×3 times 3×k, link by link."""
    return a[:, :, 0:1] * b[:, 0:1] + a[:, :, 1:2] * b[:, 1:2] + a[:, :, 2:3] * b[:, 2:3]


def skew(v: Array) -> Array:
    """Matrix of the cross product v × ·"""
    x, y, z = v[:, 0], v[:, 1], v[:, 2]
    o = jnp.zeros_like(x)
    rows = [jnp.stack(row, axis=1) for row in ((o, -z, y), (z, o, -x), (-y, x, o))]
    return jnp.stack(rows, axis=1)


def materialise(*values: Array) -> list[Array]:
    """Compute these arrays once and store them.

    XLA would otherwise fold them into every reader and compute them again for each element
    there, which for a sine read by nine matrix entries means nine sines. On CPU it drops
    optimisation barriers before it fuses, but never fuses out of a matrix product: so
    this is a product with the identity.
    """
    flat = jnp.concatenate([value.reshape(-1) for value in values])
    size = flat.shape[0]
    if size % 2:
        flat = jnp.concatenate([flat, jnp.zeros(1, dtype=flat.dtype)])
    eye = jnp.eye(2, dtype=flat.dtype)
    stored = jax.lax.dot_general(eye, flat.reshape(2, -1), (((1,), (0,)), ((), ()))).reshape(-1)
    out, start = [], 0
    for value in values:
        out.append(stored[start : start + value.size].reshape(value.shape))
        start += value.size
    return out


def mix(weights: np.ndarray, values: Array) -> Array:
    """Sum over links with constant weights: (m, n) times (n, ..., lanes)."""
    return jax.lax.dot_general(
        jnp.asarray(weights, dtype=values.dtype), values, (((1,), (0,)), ((), ()))
    )


def select(values: Array, links: tuple[int, ...]) -> Array:
    """Rows of the named links, in that order."""
    if links == tuple(range(values.shape[0])):
        return values
    return values.at[np.asarray(links)].get(mode="promise_in_bounds")
