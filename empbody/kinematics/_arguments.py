"""Checks of what the public functions are given: shapes, with counts and the remedy."""

from typing import Any

import jax
import jax.numpy as jnp

from ..model import Model


def coordinates(model: Model, **values: Any) -> list[jax.Array]:
    """The named arguments as arrays of nq numbers each."""
    if model.axis.ndim != 2:
        raise ValueError(
            f"this is a stack of {model.axis.shape[0]} models, of which functions take one; batch "
            "with jax.vmap, models and samples together"
        )
    return [_one(model, name, value) for name, value in values.items()]


def _one(model: Model, name: str, value: Any) -> jax.Array:
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(float)
    if array.shape == (model.nq,):
        return array
    hint = "; batch with jax.vmap" if array.ndim > 1 and array.shape[-1] == model.nq else ""
    raise ValueError(
        f"{name} has shape {array.shape} for {model.nq} coordinates "
        f"({', '.join(model.coordinate_names)}){hint}"
    )
