"""Rotations: matrices of Euler angles in any sequence, and distances between rotations."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_AXES = {"X": 0, "Y": 1, "Z": 2}


def check_sequence(sequence: str) -> str:
    """Three axes such as "YXZ", none twice in a row."""
    word = sequence.upper()
    if len(word) != 3 or set(word) - set(_AXES) or word[0] == word[1] or word[1] == word[2]:
        raise ValueError(
            f"Euler sequence {sequence!r}; three of X, Y, Z, none twice in a row, are expected"
        )
    return word


def euler_matrix(angles: Float[Array, " 3"], sequence: str) -> Float[Array, "3 3"]:
    """R_a(α) R_b(β) R_c(γ): turns about body-fixed axes in the order of `sequence`, rad."""
    a, b, c = (_turn(angles[k], _AXES[axis]) for k, axis in enumerate(sequence))
    return a @ b @ c


def _turn(angle: Float[Array, ""], axis: int) -> Float[Array, "3 3"]:
    skew = np.zeros((3, 3))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    skew[i, j], skew[j, i] = -1.0, 1.0
    along = np.zeros((3, 3))
    along[axis, axis] = 1.0
    return jnp.cos(angle) * (np.eye(3) - along) + jnp.sin(angle) * skew + jnp.asarray(along)


def rotation_vector(turn: Float[Array, "3 3"]) -> Float[Array, " 3"]:
    """Axis times angle (rad) of a rotation matrix; its length is the geodesic distance to
    the identity. Smooth except at half turns."""
    skew = 0.5 * jnp.stack(
        [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]
    )
    cosine = 0.5 * (jnp.trace(turn) - 1.0)
    square = jnp.sum(skew * skew)
    small = (square < 1e-8) & (cosine > 0)
    sine = jnp.sqrt(jnp.where(small, 1.0, square + 1e-30))
    factor = jnp.where(small, 1.0 + square / 6.0, jnp.arctan2(sine, cosine) / sine)
    return factor * skew


def geodesic_distance(a: Float[Array, "3 3"], b: Float[Array, "3 3"]) -> Float[Array, ""]:
    """Angle (rad) of the rotation between two rotation matrices."""
    vector = rotation_vector(a.T @ b)
    square = jnp.sum(vector * vector)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
