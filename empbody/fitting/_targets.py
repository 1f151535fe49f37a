"""What a rhythm is fitted to: angles, orientations, markers, or residuals of a user's own."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics import body_transforms
from ..model import Model
from ..rhythms import AbstractRhythm
from ._rotations import check_sequence, euler_matrix, rotation_vector


class AbstractTargets(eqx.Module):
    """Residuals of a rhythm against measurements, one row for each row of inputs."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows, and residuals in each."""

    @abc.abstractmethod
    def residuals(
        self, rhythm: AbstractRhythm, inputs: Float[Array, "n nq"]
    ) -> Float[Array, "n k"]:
        """What the rhythm gives less what was measured, in its units."""


class Angles(AbstractTargets):
    """Joint variables themselves (rad, or m): residual f(q) - y."""

    values: Float[Array, "n nj"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def residuals(
        self, rhythm: AbstractRhythm, inputs: Float[Array, "n nq"]
    ) -> Float[Array, "n nj"]:
        return jax.vmap(rhythm)(inputs) - self.values


class Orientations(AbstractTargets):
    """Orientations of bones: every three joint variables are Euler angles of one bone.

    Residual: the rotation vector (rad) from the measured orientation to the rhythm's, so the
    sum of squares is that of geodesic distances, whatever the sequence.
    """

    turns: Float[Array, "n nbones 3 3"]
    sequence: str = eqx.field(static=True)

    def __init__(self, values: Any, sequence: str = "YXZ"):
        """values: rotation matrices (n, 3, 3) or (n, bones, 3, 3), or Euler angles (rad) of
        the same sequence, (n, 3) or (n, 3 bones)."""
        self.sequence = check_sequence(sequence)
        array = jnp.asarray(values, dtype=float)
        if array.ndim == 2 and array.shape[1] % 3 == 0:
            angles = array.reshape(len(array), -1, 3)
            array = jax.vmap(jax.vmap(lambda a: euler_matrix(a, self.sequence)))(angles)
        elif array.ndim == 3 and array.shape[1:] == (3, 3):
            array = array[:, None]
        if array.ndim != 4 or array.shape[2:] != (3, 3):
            raise ValueError(
                f"orientations of shape {array.shape}; rotation matrices (n, 3, 3), "
                "(n, bones, 3, 3) or Euler angles (n, 3 bones) are expected"
            )
        error = float(jnp.abs(jnp.swapaxes(array, 2, 3) @ array - jnp.eye(3)[None, None]).max())
        if not error < 1e-3:
            raise ValueError(f"matrices that are no rotations: RᵀR is off by {error:.3g}")
        self.turns = array

    @property
    def shape(self) -> tuple[int, int]:
        return self.turns.shape[0], 3 * self.turns.shape[1]

    def residuals(
        self, rhythm: AbstractRhythm, inputs: Float[Array, "n nq"]
    ) -> Float[Array, "n k"]:
        angles = jax.vmap(rhythm)(inputs)
        angles = angles.reshape(len(inputs), -1, 3)

        def apart(angles: Array, turn: Array) -> Array:
            return rotation_vector(turn.T @ euler_matrix(angles, self.sequence))

        return jax.vmap(jax.vmap(apart))(angles, self.turns).reshape(len(inputs), -1)


class MarkerPositions(AbstractTargets):
    """Markers on a model whose rhythm is fitted; inputs are the model's coordinates.

    Residual: where a marker is on the model less where it was measured (m, ground frame).
    Markers that were not seen (NaN) are left out.
    """

    model: Model
    local: Float[Array, "nmarkers 3"]
    positions: Float[Array, "n nmarkers 3"]
    seen: Float[Array, "n nmarkers 1"]
    bodies: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        model: Model,
        positions: Any,
        markers: Sequence[str] | None = None,
        places: dict[str, tuple[str, Any]] | None = None,
    ):
        """positions (n, markers, 3) in m; `markers` names those of the model in that order
        (default: all), or `places` gives body and point (m) by name instead."""
        known = places or {m.name: (m.body, m.location) for m in model.markers}
        names = list(known) if markers is None else list(markers)
        missing = [name for name in names if name not in known]
        if missing or not names:
            raise ValueError(
                f"no marker {missing[0] if missing else ''!r}; there are "
                f"{', '.join(known) or 'none'}"
            )
        given = np.asarray(positions, dtype=float)
        if given.ndim != 3 or given.shape[1:] != (len(names), 3):
            raise ValueError(
                f"positions of shape {given.shape} for {len(names)} markers; "
                f"(rows, {len(names)}, 3) is expected"
            )
        seen = np.isfinite(given).all(axis=2, keepdims=True)
        self.model = model
        self.local = jnp.asarray(np.stack([np.asarray(known[n][1], float) for n in names]), float)
        self.bodies = tuple(model.body_names.index(known[n][0]) for n in names)
        self.positions = jnp.asarray(np.where(seen, given, 0.0), dtype=float)
        self.seen = jnp.asarray(seen, dtype=float)

    @property
    def shape(self) -> tuple[int, int]:
        return self.positions.shape[0], 3 * self.positions.shape[1]

    def residuals(
        self, rhythm: AbstractRhythm, inputs: Float[Array, "n nq"]
    ) -> Float[Array, "n k"]:
        model = eqx.tree_at(lambda m: m.rhythm, self.model, rhythm)

        def points(q: Array) -> Array:
            frames = body_transforms(model, q)[np.asarray(self.bodies)]
            return jnp.einsum("kij,kj->ki", frames[:, :3, :3], self.local) + frames[:, :3, 3]

        apart = (jax.vmap(points)(inputs) - self.positions) * self.seen
        return apart.reshape(len(inputs), -1)


class Residuals(AbstractTargets):
    """A user's own residuals: function(rhythm, inputs) -> (n, k), of any quantity that
    follows from a rhythm, such as moment arms or points of a trajectory."""

    function: Callable[[AbstractRhythm, Array], Array]
    rows: int = eqx.field(static=True)
    columns: int = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    def residuals(
        self, rhythm: AbstractRhythm, inputs: Float[Array, "n nq"]
    ) -> Float[Array, "n k"]:
        return self.function(rhythm, inputs)
