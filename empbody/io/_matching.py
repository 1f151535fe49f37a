"""Which column of a table is which coordinate of a model."""

import dataclasses
import difflib
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ..kinematics import joint_jacobian
from ..model import Model
from ..rhythms import Identity
from . import _text


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of values and speeds by coordinate; -1 where there is none."""

    values: tuple[int, ...]
    speeds: tuple[int, ...]
    extra: tuple[str, ...]
    """Labels that are neither."""


def split_label(label: str) -> tuple[str, str]:
    """Name of the quantity that a label belongs to, and "value", "speed" or "other".

    Labels are bare names, OpenSim 4's paths (`/jointset/elbow/flexion/value`, `.../speed`)
    or OpenSim 3's names of states (`elbow/flexion/value`).
    """
    parts = [part for part in label.split("/") if part]
    if len(parts) > 1 and parts[-1] in ("value", "speed"):
        return parts[-2], parts[-1]
    if len(parts) == 1 or "jointset" in parts:
        return parts[-1], "value"
    return (parts[-1] if parts else label), "other"


def match(labels: Sequence[str], names: Sequence[str]) -> Columns:
    """Find each coordinate's columns.

    **Raises:** `ValueError` if two columns claim to be the same quantity.
    """
    place = {name: i for i, name in enumerate(names)}
    found = {"value": [-1] * len(names), "speed": [-1] * len(names)}
    extra = []
    for j, label in enumerate(labels):
        name, what = split_label(label)
        if what == "value" and name not in place and name.removesuffix("_u") in place:
            name, what = name.removesuffix("_u"), "speed"  # OpenSim 3's speeds
        if what == "other" or name not in place:
            extra.append(label)
            continue
        i = place[name]
        if found[what][i] >= 0:
            other = labels[found[what][i]]
            raise ValueError(
                f"the columns {other!r} and {label!r} are both the {what} of coordinate "
                f"{name!r}; remove one"
            )
        found[what][i] = j
    return Columns(tuple(found["value"]), tuple(found["speed"]), tuple(extra))


def explain_missing(
    missing: Sequence[str], names: Sequence[str], labels: Sequence[str], extra: Sequence[str]
) -> str:
    """What is missing, what is there, and which of the `extra` labels was perhaps meant."""
    words = (
        f"no column for {len(missing)} of {len(names)} coordinates: {_text.some(missing)}; "
        f"the columns are {_text.some(labels, 30)}"
    )
    bare = {split_label(label)[0].lower(): label for label in extra}
    for name in missing[:3]:
        close = difflib.get_close_matches(name.lower(), list(bare), n=1, cutoff=0.7)
        if close:
            words += f"; is {bare[close[0]]!r} meant for {name!r}?"
    return words


def default_values(model: Model) -> Float[np.ndarray, " nq"]:
    """Where coordinates rest that a file does not mention."""
    return np.asarray(model.default_q, dtype=float)


def rotational(model: Model) -> Bool[np.ndarray, " nq"]:
    """Which coordinates are angles, in degrees in most files.

    A model from a file knows it; a coordinate that OpenSim calls "coupled" is never
    converted there, nor here. Otherwise a coordinate is a length if it moves prismatic
    joints and no revolute one, and an angle if not.
    """
    motions = getattr(model.source, "motions", None)
    if motions is not None and len(motions) == model.nq:
        return np.array([motion == "rotational" for motion in motions])
    revolute = np.asarray(model.topology.revolute, dtype=bool)
    if isinstance(model.rhythm, Identity):
        return revolute
    # A slope may vanish at one pose by chance; at three it does not.
    q = jnp.asarray(default_values(model), dtype=float)
    poses = q[None, :] + jnp.asarray([0.0, 0.013, -0.029])[:, None]
    slopes = np.asarray(_jacobians(model, poses))
    moves = np.any(slopes != 0.0, axis=0)  # NaN counts as a slope
    return (moves & revolute[:, None]).any(axis=0) | ~moves.any(axis=0)


def coupled(model: Model) -> Bool[np.ndarray, " nq"]:
    """Coordinates that OpenSim calls "coupled": angles, often, that it never converts."""
    motions = getattr(model.source, "motions", None)
    if motions is None or len(motions) != model.nq:
        return np.zeros(model.nq, dtype=bool)
    return np.array([motion == "coupled" for motion in motions])


@eqx.filter_jit
def _jacobians(model: Model, poses: jax.Array) -> jax.Array:
    return jax.vmap(lambda q: joint_jacobian(model, q))(poses)
