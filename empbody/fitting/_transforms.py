"""Parameters that stay what they are: positive, in bounds, of unit length, positive definite.

A transform maps numbers without any bounds to a parameter, so that a solver may take any step.
"""

import abc
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Shape = tuple[int, ...]


class AbstractTransform(eqx.Module):
    """From unbounded numbers z to a parameter, about the value that it has at the start."""

    @abc.abstractmethod
    def size(self, shape: Shape) -> int:
        """How many numbers a parameter of this shape takes."""

    @abc.abstractmethod
    def check(self, name: str, start: Float[np.ndarray, "..."]) -> None:
        """Refuse a start that the transform cannot give."""

    @abc.abstractmethod
    def unconstrained(self, start: Float[Array, "..."]) -> Float[Array, " z"]:
        """z of the start."""

    @abc.abstractmethod
    def value(self, z: Float[Array, " z"], start: Float[Array, "..."]) -> Float[Array, "..."]:
        """The parameter, in the shape of the start."""


@final
class Free(AbstractTransform):
    """No bounds; z counts in units of the largest number at the start, with its sign (1 where
    all are 0)."""

    def size(self, shape: Shape) -> int:
        return int(np.prod(shape))

    def check(self, name: str, start: Float[np.ndarray, "..."]) -> None:
        del name, start

    def unconstrained(self, start: Float[Array, "..."]) -> Float[Array, " z"]:
        return (start / _unit(start)).ravel()

    def value(self, z: Float[Array, " z"], start: Float[Array, "..."]) -> Float[Array, "..."]:
        return z.reshape(start.shape) * _unit(start)


@final
class Positive(AbstractTransform):
    """Above zero: exp z, so that z counts relative changes."""

    def size(self, shape: Shape) -> int:
        return int(np.prod(shape))

    def check(self, name: str, start: Float[np.ndarray, "..."]) -> None:
        if not (start > 0).all():
            raise ValueError(
                f"{name} is {start.min():g} at the start and cannot be kept positive; start above "
                'zero, or give it the transform "free" or bounds (low, high)'
            )

    def unconstrained(self, start: Float[Array, "..."]) -> Float[Array, " z"]:
        return jnp.log(start).ravel()

    def value(self, z: Float[Array, " z"], start: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(z).reshape(start.shape)


@final
class Bounded(AbstractTransform):
    """Between bounds: low + (high - low) / (1 + exp(-z)); the bounds are never reached."""

    low: Float[Array, "..."]
    high: Float[Array, "..."]

    def __init__(self, low: Any, high: Any):
        self.low, self.high = jnp.asarray(low, dtype=float), jnp.asarray(high, dtype=float)
        if not bool(jnp.all(self.low < self.high)):
            raise ValueError(f"bounds ({low}, {high}); the lower one must be below the upper one")

    def size(self, shape: Shape) -> int:
        return int(np.prod(shape))

    def check(self, name: str, start: Float[np.ndarray, "..."]) -> None:
        low, high = np.asarray(self.low), np.asarray(self.high)
        outside = ~((start > low) & (start < high))
        if outside.any():
            value = start[outside].flat[0]
            raise ValueError(
                f"{name} is {value:g} at the start, not between its bounds {low} and {high}"
            )

    def unconstrained(self, start: Float[Array, "..."]) -> Float[Array, " z"]:
        low, high = (jnp.broadcast_to(x, start.shape) for x in (self.low, self.high))
        return (jnp.log(start - low) - jnp.log(high - start)).ravel()

    def value(self, z: Float[Array, " z"], start: Float[Array, "..."]) -> Float[Array, "..."]:
        low, high = (jnp.broadcast_to(x, start.shape) for x in (self.low, self.high))
        part = 1.0 / (1.0 + jnp.exp(-z.reshape(start.shape)))
        return low + (high - low) * part


@final
class UnitVector(AbstractTransform):
    """Directions (…, 3) of unit length: turned from the start by two angles (rad) each."""

    def size(self, shape: Shape) -> int:
        return 2 * int(np.prod(shape[:-1]))

    def check(self, name: str, start: Float[np.ndarray, "..."]) -> None:
        if start.ndim == 0 or start.shape[-1] != 3:
            raise ValueError(
                f"{name} has shape {start.shape}; a unit vector needs all three of its numbers"
            )
        error = np.abs(np.linalg.norm(start, axis=-1) - 1.0).max()
        if error > 1e-6:
            raise ValueError(
                f"{name} is no unit vector at the start: its length is off by {error:g}"
            )

    def unconstrained(self, start: Float[Array, "..."]) -> Float[Array, " z"]:
        return jnp.zeros(self.size(start.shape), dtype=start.dtype)

    def value(self, z: Float[Array, " z"], start: Float[Array, "..."]) -> Float[Array, "..."]:
        turn = z.reshape(*start.shape[:-1], 2)
        first, second = _across(start)
        square = jnp.sum(turn * turn, axis=-1, keepdims=True)
        still = square < 1e-12  # also keeps the derivative at the start finite
        angle = jnp.sqrt(jnp.where(still, 1.0, square))
        cosine = jnp.where(still, 1.0 - square / 2, jnp.cos(angle))
        ratio = jnp.where(still, 1.0 - square / 6, jnp.sin(angle) / angle)
        return cosine * start + ratio * (turn[..., :1] * first + turn[..., 1:] * second)


@final
class PositiveDefinite(AbstractTransform):
    """Symmetric matrices (…, n, n) with positive eigenvalues: L Lᵀ, logarithms on L's diagonal."""

    def size(self, shape: Shape) -> int:
        return int(np.prod(shape[:-2])) * shape[-1] * (shape[-1] + 1) // 2

    def check(self, name: str, start: Float[np.ndarray, "..."]) -> None:
        _check_square(name, start)
        if np.linalg.eigvalsh(start).min() <= 0:
            raise ValueError(
                f"{name} is not positive definite at the start; give it numbers above zero"
            )

    def unconstrained(self, start: Float[Array, "..."]) -> Float[Array, " z"]:
        return _from_cholesky(jnp.linalg.cholesky(start))

    def value(self, z: Float[Array, " z"], start: Float[Array, "..."]) -> Float[Array, "..."]:
        lower = _to_cholesky(z, start.shape)
        return lower @ jnp.swapaxes(lower, -1, -2)


@final
class Inertia(AbstractTransform):
    """Inertia tensors (…, 3, 3) that a body can have: tr(S) 1 - S, with S = ∫ x xᵀ dm positive
    definite, so that no moment of inertia exceeds the sum of the other two."""

    def size(self, shape: Shape) -> int:
        return int(np.prod(shape[:-2])) * 6

    def check(self, name: str, start: Float[np.ndarray, "..."]) -> None:
        _check_square(name, start)
        if start.shape[-1] != 3 or np.linalg.eigvalsh(np.asarray(_moments(start))).min() <= 0:
            raise ValueError(
                f"{name} is not the inertia of a body with extent in all directions (each moment "
                'below the sum of the other two); give it the transform "positive_definite"'
            )

    def unconstrained(self, start: Float[Array, "..."]) -> Float[Array, " z"]:
        return _from_cholesky(jnp.linalg.cholesky(_moments(start)))

    def value(self, z: Float[Array, " z"], start: Float[Array, "..."]) -> Float[Array, "..."]:
        lower = _to_cholesky(z, start.shape)
        moments = lower @ jnp.swapaxes(lower, -1, -2)
        trace = jnp.trace(moments, axis1=-2, axis2=-1)[..., None, None]
        return trace * jnp.broadcast_to(jnp.eye(3), moments.shape) - moments


TRANSFORMS: dict[str, AbstractTransform] = {
    "free": Free(),
    "positive": Positive(),
    "unit": UnitVector(),
    "positive_definite": PositiveDefinite(),
    "inertia": Inertia(),
}


def as_transform(given: Any) -> AbstractTransform:
    """A transform from its name, from bounds (low, high), or itself."""
    if isinstance(given, AbstractTransform):
        return given
    if isinstance(given, str) and given in TRANSFORMS:
        return TRANSFORMS[given]
    if isinstance(given, tuple | list) and len(given) == 2 and not isinstance(given[0], str):
        return Bounded(*given)
    raise ValueError(
        f"transform {given!r}; one of {', '.join(TRANSFORMS)}, bounds (low, high) or an "
        "AbstractTransform is expected"
    )


def _unit(start: Float[Array, "..."]) -> Float[Array, ""]:
    flat = start.ravel()
    largest = flat[jnp.argmax(jnp.abs(flat))]
    return jnp.where(largest == 0, 1.0, largest)


def _across(unit: Float[Array, "... 3"]) -> tuple[Array, Array]:
    """Two unit vectors at right angles to a third and to each other."""
    least = jnp.argmin(jnp.abs(unit), axis=-1)
    other = jnp.take(jnp.eye(3, dtype=unit.dtype), least, axis=0)
    first = jnp.cross(unit, other)
    first = first / jnp.linalg.norm(first, axis=-1, keepdims=True)
    return first, jnp.cross(unit, first)


def _check_square(name: str, start: np.ndarray) -> None:
    if start.ndim < 2 or start.shape[-1] != start.shape[-2]:
        raise ValueError(f"{name} has shape {start.shape}; a whole square matrix is needed")
    if not np.allclose(start, np.swapaxes(start, -1, -2)):
        raise ValueError(f"{name} is not symmetric at the start")


def _moments(inertia: Any) -> Array:
    """∫ x xᵀ dm from an inertia tensor."""
    array = jnp.asarray(inertia)
    half = 0.5 * jnp.trace(array, axis1=-2, axis2=-1)[..., None, None]
    return half * jnp.broadcast_to(jnp.eye(3), array.shape) - array


def _from_cholesky(lower: Float[Array, "... n n"]) -> Float[Array, " z"]:
    size = lower.shape[-1]
    rows, columns = np.tril_indices(size, -1)
    spot = np.arange(size)
    diagonal = lower[..., spot, spot]
    # Off the diagonal in units of the row's diagonal: z has no unit.
    below = lower[..., rows, columns] / diagonal[..., rows]
    return jnp.concatenate([jnp.log(diagonal), below], axis=-1).ravel()


def _to_cholesky(z: Float[Array, " z"], shape: Shape) -> Array:
    size = shape[-1]
    rows, columns = np.tril_indices(size, -1)
    spot = np.arange(size)
    parts = z.reshape(*shape[:-2], size * (size + 1) // 2)
    diagonal = jnp.exp(parts[..., :size])
    lower = jnp.zeros(shape, dtype=z.dtype).at[..., spot, spot].set(diagonal)
    return lower.at[..., rows, columns].set(parts[..., size:] * diagonal[..., rows])
