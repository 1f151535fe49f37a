"""Whether a new document is the model that it was made from."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...model import Model
from .._errors import FileFormatError

_PARTS = (
    "axis",
    "translation",
    "rotation",
    "body_translation",
    "body_rotation",
    "mass",
    "com",
    "inertia",
    "gravity",
    "lower",
    "upper",
    "paths",
    "muscles",
    "default_q",
    "marker_positions",
)


def names_of(model: Model) -> tuple:
    """Everything about a model that is not a number."""
    return (
        model.coordinate_names,
        model.joint_names,
        model.body_names,
        model.marker_names,
        model.paths.layout,
    )


def samples(model: Model, count: int) -> Array:
    """Poses within the ranges of the coordinates, about the default where there is none."""
    default = np.asarray(model.default_q)
    low = np.where(np.isfinite(model.lower), model.lower, default - 1.0)
    high = np.where(np.isfinite(model.upper), model.upper, default + 1.0)
    chance = np.random.default_rng(0).uniform(size=(count, model.nq))
    return jnp.asarray(low + (high - low) * chance, dtype=float)


def compare(model: Model, before: Model, content: bytes, file: str, allowed: float) -> None:
    """Read the new document and refuse it unless it is the model.

    `allowed` is the error of joint variables that were sampled.
    """
    from ._load import load_bytes  # here, as the loader's package imports this module

    *_, wrapping, skip = model.source.options
    try:
        read = load_bytes(content, file, {}, (), wrapping, "skip" if skip else "raise")
    except FileFormatError as error:
        raise ValueError(f"the model makes no file that can be read again: {error}") from error
    if names_of(read) != names_of(model):
        raise ValueError(
            "the model cannot be written: read again, the file would have the coordinates "
            f"{', '.join(read.coordinate_names)} instead of {', '.join(model.coordinate_names)}, "
            "or other paths"
        )
    for part in _PARTS:
        if not _same(getattr(read, part), getattr(model, part)):
            raise ValueError(
                f"a change of the model's {part.replace('_', ' ')} cannot be expressed in this "
                "file: read again, it would have other numbers"
            )
    _check_forces(read, model, before)
    q = samples(model, 16)
    apart = jax.vmap(model.rhythm)(q) - jax.vmap(read.rhythm)(q)
    worst = np.max(np.abs(np.asarray(apart)), axis=0)
    if not np.all(worst <= 1e4 * _eps() + allowed):
        k = int(np.argmax(worst))
        raise ValueError(
            f"the rhythm of joint variable {model.joint_names[k]!r} cannot be expressed in this "
            f"file: read again, it would be {worst[k]:.2g} (rad or m) away"
        )


def _check_forces(read: Model, model: Model, before: Model) -> None:
    """Strings hold copies of placements: what was not changed in forces is not looked at."""
    for a, b, was in zip(read.forces, model.forces, before.forces, strict=True):
        kind = type(b).__name__
        names = getattr(b, "names", None) or (getattr(b, "name", ""),)
        leaves = [jax.tree_util.tree_leaves_with_path(x) for x in (a, b, was)]
        if not len(leaves[0]) == len(leaves[1]) == len(leaves[2]):
            raise ValueError(f"the {kind} {', '.join(names)} has other parts than in its file")
        for (where, x), (_, y), (_, z) in zip(*leaves, strict=True):
            if not _alike(y, z) and not _alike(x, y):
                raise ValueError(
                    f"a change of the {kind} {', '.join(names)} cannot be expressed in this file: "
                    f"read again, {jax.tree_util.keystr(where)} would have other numbers"
                )


def _same(a: object, b: object) -> bool:
    both = [jax.tree.leaves(eqx.filter(x, eqx.is_array)) for x in (a, b)]
    return len(both[0]) == len(both[1]) and all(map(_alike, *both))


def _alike(a: Array, b: Array) -> bool:
    size = 1e3 * _eps()
    return a.shape == b.shape and np.allclose(
        np.asarray(a), np.asarray(b), rtol=size, atol=size, equal_nan=True
    )


def _eps() -> float:
    return float(jnp.finfo(jnp.zeros(()).dtype).eps)
