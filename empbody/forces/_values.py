"""Constants, or functions of time, as strengths of force elements."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

Strength = Float[Array, "..."] | Callable[[Any], Any]
"""A number or vector, or a function of time (s) that gives one."""


def as_strength(value: Any) -> Strength:
    return value if callable(value) else jnp.asarray(value, dtype=float)


def strength_at(value: Strength, t: Float[Array, ""]) -> Float[Array, "..."]:
    return jnp.asarray(value(t), dtype=float) if callable(value) else value
