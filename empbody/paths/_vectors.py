"""Small vector algebra with the components first: a vector is (3, ...), the rest is batch.

Wraps of one kind are handled together, elementwise over (wraps, lanes): component slices
fuse into plain loops, where small matrix products would not.
"""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..kinematics._lanes import materialise

Tree = TypeVar("Tree")


def dot(a: Array, b: Array) -> Array:
    product = a * b
    return product[0] + product[1] + product[2]


def cross(a: Array, b: Array) -> Array:
    (ax, ay, az), (bx, by, bz) = a, b
    return jnp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])


def safe_sqrt(square: Array, floor: Array | float) -> Array:
    """Square root of what is at least `floor`; below it constant, with zero gradient."""
    return jnp.sqrt(jnp.where(square > floor, square, floor))


def root(x: Array) -> Array:
    """√max(x, 0), with zero slope where x is not positive; nothing stays nothing."""
    positive = x > 0
    # Compiled code may work x out twice, once rounded to nothing: so no 1 in its place.
    tiny = float(jnp.finfo(x.dtype).tiny)
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, tiny)), 0 * x)


def length(v: Array) -> Array:
    """|v|, with zero gradient where v is zero."""
    return root(dot(v, v))


def direction(v: Array) -> Array:
    """v / |v|, or zero where v is zero."""
    square = dot(v, v)
    zero = square == 0.0
    scale = jnp.where(zero, 0.0, 1.0 / jnp.sqrt(jnp.where(zero, 1.0, square)))
    return v * scale[None]


def turn(matrix: Array, v: Array) -> Array:
    """Matrices (3, 3, ...) times vectors (3, ...)."""
    return matrix[:, 0] * v[0][None] + matrix[:, 1] * v[1][None] + matrix[:, 2] * v[2][None]


def turn_back(matrix: Array, v: Array) -> Array:
    """Transposed matrices times vectors."""
    return jnp.stack([dot(matrix[:, k], v) for k in range(3)])


def kept(tree: Tree) -> Tree:
    """The same arrays, computed once and stored (see `materialise`)."""
    leaves, structure = jax.tree.flatten(tree)
    dtype = next(leaf.dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))
    stored = materialise(*(leaf.astype(dtype) for leaf in leaves))
    back = [
        value > 0.5 if leaf.dtype == bool else value
        for leaf, value in zip(leaves, stored, strict=True)
    ]
    return jax.tree.unflatten(structure, back)
