"""Two shoulder rhythms side by side, over plane of elevation and elevation."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics import body_transforms
from ..model import Model
from ..paths import lengths_and_arms


class RhythmDifference(NamedTuple):
    """What changes when a shoulder takes another rhythm: second model minus first."""

    planes: Float[np.ndarray, " p"]
    """deg"""
    elevations: Float[np.ndarray, " e"]
    """deg"""
    orientation: Float[np.ndarray, "p e"]
    """Angle between the scapula's two orientations (deg)."""
    lengths: Float[np.ndarray, "p e nm"]
    """Difference of musculotendon length (mm)."""
    arms: Float[np.ndarray, "p e nq nm"]
    """Difference of moment arm (mm)."""
    coordinate_names: tuple[str, ...]
    muscle_names: tuple[str, ...]


def rhythm_difference(
    first: Model,
    second: Model,
    planes: Any = None,
    elevations: Any = None,
    rotation: float = 0.0,
) -> RhythmDifference:
    """Compare two shoulders that differ in their rhythm, on a grid of poses in degrees.

    `planes` and `elevations` (deg) default to the whole range by 10 and 5 degrees;
    `rotation` is the axial rotation (deg). Both models need the same muscles.
    """
    if first.muscle_names != second.muscle_names:
        raise ValueError(
            f"models with different muscles: {', '.join(first.muscle_names)} and "
            f"{', '.join(second.muscle_names)}"
        )
    low, high = np.degrees(np.asarray(first.lower)), np.degrees(np.asarray(first.upper))
    given = np.arange(low[0], high[0] + 1e-9, 10.0) if planes is None else np.asarray(planes)
    raised = np.arange(low[1], high[1] + 1e-9, 5.0) if elevations is None else elevations
    given, raised = np.asarray(given, dtype=float), np.asarray(raised, dtype=float)
    grid = np.stack(np.meshgrid(given, raised, [rotation], indexing="ij"), axis=-1)
    q = jnp.asarray(np.radians(grid.reshape(-1, 3)))
    bones, lengths, arms = (
        [np.asarray(part) for part in pair]
        for pair in zip(_all(first, q), _all(second, q), strict=True)
    )
    cosine = 0.5 * (np.einsum("nij,nij->n", *bones) - 1.0)
    sine = 0.5 * np.linalg.norm(_skew(np.einsum("nji,njk->nik", *bones)), axis=1)
    shape = (len(given), len(raised))
    return RhythmDifference(
        planes=given,
        elevations=raised,
        orientation=np.degrees(np.arctan2(sine, cosine)).reshape(shape),
        lengths=1e3 * (lengths[1] - lengths[0]).reshape(*shape, -1),
        arms=1e3 * (arms[1] - arms[0]).reshape(*shape, *arms[0].shape[1:]),
        coordinate_names=first.coordinate_names,
        muscle_names=first.muscle_names,
    )


@eqx.filter_jit
def _all(model: Model, q: Float[Array, "n nq"]) -> tuple[Array, Array, Array]:
    scapula = model.body_index("scapula")

    def one(q: Float[Array, " nq"]) -> tuple[Array, Array, Array]:
        return (body_transforms(model, q)[scapula, :3, :3], *lengths_and_arms(model, q))

    return jax.vmap(one)(q)


def _skew(turns: np.ndarray) -> np.ndarray:
    pairs = ((2, 1), (0, 2), (1, 0))
    return np.stack([turns[:, i, j] - turns[:, j, i] for i, j in pairs], axis=1)
