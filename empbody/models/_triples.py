"""Vectors as tuples of three numbers, matrices as tuples of three columns.

In a batch every component is then one long array, and XLA makes plain loops over it: much
faster on CPU than many tiny vectors.
"""

from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Array

Vector: TypeAlias = tuple[Array, Array, Array]
Matrix: TypeAlias = tuple[Vector, Vector, Vector]
"""Three columns."""


def triple(v: Array) -> Vector:
    return v[0], v[1], v[2]


def dot(a: Vector, b: Vector) -> Array:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


def scaled(s: Array | float, a: Vector) -> Vector:
    return s * a[0], s * a[1], s * a[2]


def plus(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def combine(weights: tuple[Array, ...], vectors: tuple[Vector, ...]) -> Vector:
    """Sum of vectors with weights."""
    total = scaled(weights[0], vectors[0])
    for weight, vector in zip(weights[1:], vectors[1:], strict=True):
        total = plus(total, scaled(weight, vector))
    return total


def apply(matrix: Matrix, v: Vector) -> Vector:
    return combine(v, matrix)


def apply_transposed(matrix: Matrix, v: Vector) -> Vector:
    return dot(matrix[0], v), dot(matrix[1], v), dot(matrix[2], v)


def rotated(axis: Vector, sine: Array, cosine: Array, v: Vector) -> Vector:
    """v turned about a unit axis."""
    along = (1.0 - cosine) * dot(axis, v)
    return plus(scaled(cosine, v), plus(scaled(sine, cross(axis, v)), scaled(along, axis)))


def turn_about(axis: Vector, start: Vector, end: Vector) -> tuple[Array, Array, Array]:
    """Angle about a unit axis that takes `start` to `end`, its sine and its cosine."""
    y = dot(axis, cross(start, end))
    x = dot(start, end) - dot(axis, start) * dot(axis, end)
    size = jnp.sqrt(x * x + y * y)
    return jnp.arctan2(y, x), y / size, x / size
