"""Checks of a tree's numbers and names. Every message names the body and the remedy."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ._body import Body

_UNIT_TOLERANCE = 1e-6
_TRIANGLE_SLACK = 1e-9


def is_concrete(value: Any) -> bool:
    """Whether numbers can be looked at now; traced ones are taken on trust."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def numbers(value: Any) -> Any:
    """A NumPy array of known numbers, which is quick to work with; a JAX array of traced ones."""
    return np.asarray(value, dtype=float) if is_concrete(value) else jnp.asarray(value, dtype=float)


def unique_names(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{kind} name {name!r} is used twice; give each its own name")
        seen.add(name)


def name_index(kind: str, names: Sequence[str], name: str) -> int:
    """Position of `name`, or an error that suggests the nearest ones."""
    if name in names:
        return names.index(name)
    near = difflib.get_close_matches(name, names, n=3) or list(names[:8])
    raise ValueError(f"there is no {kind} {name!r}; did you mean one of {near}?")


def vector(where: str, value: Any) -> Any:
    """Three finite numbers as an array."""
    array = numbers(value)
    if array.shape != (3,):
        raise ValueError(f"{where} needs 3 numbers, got shape {array.shape}")
    if is_concrete(array) and not np.all(np.isfinite(array)):
        raise ValueError(f"{where} holds NaN or infinity: {np.asarray(array).tolist()}")
    return array


def unit_axis(where: str, value: Any) -> Any:
    axis = vector(where, value)
    if is_concrete(axis):
        length = float(np.linalg.norm(axis))
        if length == 0.0:
            raise ValueError(f"{where} is zero; give a unit vector")
        if abs(length - 1.0) > _UNIT_TOLERANCE:
            unit = (np.asarray(axis) / length).tolist()
            raise ValueError(f"{where} has length {length:.6g}, not 1; did you mean {unit}?")
        return axis / length
    return axis / jnp.linalg.norm(axis)


def euler_xyz(angles: Any) -> Any:
    """Rotation matrix of body-fixed X, Y, Z angles (radians)."""
    xp = np if is_concrete(angles) else jnp
    (cx, cy, cz), (sx, sy, sz) = xp.cos(angles), xp.sin(angles)
    one, zero = xp.ones_like(cx), xp.zeros_like(cx)
    x = xp.array([[one, zero, zero], [zero, cx, -sx], [zero, sx, cx]])
    y = xp.array([[cy, zero, sy], [zero, one, zero], [-sy, zero, cy]])
    z = xp.array([[cz, -sz, zero], [sz, cz, zero], [zero, zero, one]])
    return x @ y @ z


def rotation_matrix(where: str, value: Any) -> Any:
    """3×3 matrix from a matrix or from XYZ body-fixed Euler angles."""
    array = numbers(value)
    if array.shape == (3,):
        return euler_xyz(vector(where, array))
    if array.shape != (3, 3):
        raise ValueError(f"{where} needs 3 Euler angles or a 3x3 matrix, got {array.shape}")
    if is_concrete(array):
        matrix = np.asarray(array)
        error = float(np.abs(matrix @ matrix.T - np.eye(3)).max())
        if not error < _UNIT_TOLERANCE:
            raise ValueError(f"{where} is not orthonormal: R Rᵀ differs from 1 by {error:.2g}")
        if np.linalg.det(matrix) < 0.0:
            raise ValueError(f"{where} is a reflection (determinant -1), not a rotation")
    return array


def inertia_matrix(body: Body) -> Any:
    """3×3 inertia about the centre of mass, checked to be that of a real body."""
    where = f"inertia of body {body.name!r}"
    array = numbers(body.inertia)
    if array.shape == (3,):
        matrix = array * np.eye(3)
    elif array.shape == (6,):
        xx, yy, zz, xy, xz, yz = array
        xp = np if is_concrete(array) else jnp
        matrix = xp.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    elif array.shape == (3, 3):
        matrix = array
    else:
        raise ValueError(f"{where} needs 3 or 6 numbers or a 3x3 matrix, got {array.shape}")
    if is_concrete(matrix):
        _check_inertia(where, np.asarray(matrix), body.any_inertia)
    return matrix


def _check_inertia(where: str, matrix: np.ndarray, any_inertia: bool) -> None:
    if not np.all(np.isfinite(matrix)):
        raise ValueError(f"{where} holds NaN or infinity")
    scale = float(np.abs(matrix).max())
    if np.abs(matrix - matrix.T).max() > _TRIANGLE_SLACK * scale:
        raise ValueError(f"{where} is not symmetric")
    a, b, c = np.linalg.eigvalsh(matrix)
    if a < -_TRIANGLE_SLACK * scale:
        raise ValueError(f"{where} has a negative principal moment {a:.6g} kg m²")
    if not any_inertia and c > (a + b) * (1.0 + _TRIANGLE_SLACK) + _TRIANGLE_SLACK * scale:
        raise ValueError(
            f"{where} violates the triangle inequality: the principal moment {c:.6g} is larger "
            f"than {a:.6g} + {b:.6g}; no rigid body has it"
        )


def mass(body: Body) -> Any:
    array = numbers(body.mass)
    if array.shape != ():
        raise ValueError(f"mass of body {body.name!r} needs one number, got {array.shape}")
    if is_concrete(array):
        if not np.isfinite(array):
            raise ValueError(f"mass of body {body.name!r} is {float(array)}")
        if array < 0.0:
            raise ValueError(f"mass of body {body.name!r} is negative: {float(array):.6g} kg")
    return array


def parents(bodies: Sequence[Body]) -> None:
    """Names are unique, parents exist, and nobody is their own ancestor."""
    for body in bodies:
        if body.name == "ground":
            raise ValueError("a body may not be called 'ground': that is the fixed frame")
    names = [body.name for body in bodies]
    unique_names("body", names)
    parent_of = {body.name: body.parent for body in bodies}
    for body in bodies:
        if body.parent not in parent_of and body.parent != "ground":
            near = difflib.get_close_matches(body.parent, [*names, "ground"], n=3)
            hint = f"; did you mean {near}?" if near else ""
            raise ValueError(f"parent {body.parent!r} of body {body.name!r} does not exist{hint}")
    for body in bodies:
        trail = [body.name]
        while (above := parent_of[trail[-1]]) != "ground":
            if above in trail:
                loop = " -> ".join([*trail[trail.index(above) :], above])
                raise ValueError(
                    f"the tree is cyclic: {loop}; close loops with an implicit rhythm instead"
                )
            trail.append(above)
