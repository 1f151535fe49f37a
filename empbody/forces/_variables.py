"""Variables that forces act on: coordinates, or smooth functions of some of them."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics import Motion
from ..model import Model
from ..rhythms import AbstractRhythm


class Variables(eqx.Module):
    """n scalars: the named coordinates themselves, or outputs of a rhythm of them.

    A force on a variable s(q) is the generalised force (∂s/∂q)ᵀ times it.
    """

    coordinates: tuple[str, ...] = eqx.field(static=True)
    rhythm: AbstractRhythm | None
    indices: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        coordinates: str | Sequence[str],
        rhythm: AbstractRhythm | None = None,
        indices: tuple[int, ...] = (),
    ):
        self.coordinates = (coordinates,) if isinstance(coordinates, str) else tuple(coordinates)
        self.rhythm = rhythm
        self.indices = indices
        if not self.coordinates:
            raise ValueError("a force needs at least one coordinate to act on")
        wanted = None if rhythm is None else rhythm.n_in
        if wanted is not None and wanted != len(self.coordinates):
            raise ValueError(f"{len(self.coordinates)} coordinates for a function of {wanted}")

    @property
    def size(self) -> int:
        """Number of variables."""
        many = None if self.rhythm is None else self.rhythm.n_out
        return len(self.coordinates) if many is None else many

    def bind(self, model: Model) -> "Variables":
        indices = tuple(model.coordinate_index(name) for name in self.coordinates)
        return Variables(self.coordinates, self.rhythm, indices)

    def _of(self, values: Float[Array, " nq"]) -> Float[Array, " n"]:
        return jnp.stack([values[i] for i in self.indices])

    def value(self, motion: Motion) -> Float[Array, " n"]:
        own = self._of(motion.q)
        return own if self.rhythm is None else self.rhythm(own)

    def rate(self, motion: Motion) -> Float[Array, " n"]:
        own = self._of(motion.qd)
        if self.rhythm is None:
            return own
        return self.rhythm.jacobian(self._of(motion.q)) @ own

    def push(self, motion: Motion, force: Float[Array, " n"]) -> Float[Array, " nq"]:
        """Generalised force of a force on each variable."""
        if self.rhythm is not None:
            force = force @ self.rhythm.jacobian(self._of(motion.q))
        total = jnp.zeros_like(motion.q)
        for k, i in enumerate(self.indices):
            total = total.at[i].add(force[k])
        return total


def per_variable(what: str, value: Any, size: int) -> Float[Array, " n"]:
    """One number for each variable; a single one counts for all."""
    array = jnp.asarray(value, dtype=float)
    if array.shape not in ((), (size,)):
        raise ValueError(f"{what} has shape {array.shape} for {size} variables")
    return jnp.broadcast_to(array, (size,))
