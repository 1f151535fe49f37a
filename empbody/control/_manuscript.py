"""The manuscript's tracking task: raise the arm and lower it again."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

MANUSCRIPT_GAINS = (100.0, 100.0, 1000.0)
"""K of plane of elevation, elevation and axial rotation (1/s; Ehsani 2016, section 4-4 C)."""

_DEGREE = math.pi / 180.0


def _number(value: Any) -> Float[Array, ""]:
    return jnp.asarray(value, dtype=float)


class RaiseAndLower(eqx.Module):
    """Elevation low + (high - low) sin²(π t / duration), the other two coordinates constant.

    At rest at both ends and smooth without end. Angles in rad, in the order of the shoulder's
    coordinates: plane of elevation, elevation, axial rotation.
    """

    low: Float[Array, ""] = eqx.field(converter=_number)
    high: Float[Array, ""] = eqx.field(converter=_number)
    duration: Float[Array, ""] = eqx.field(converter=_number)
    plane: Float[Array, ""] = eqx.field(converter=_number)
    rotation: Float[Array, ""] = eqx.field(converter=_number)

    def __call__(self, t: Float[Array, ""]) -> Float[Array, " 3"]:
        way = jnp.sin(jnp.pi * t / self.duration) ** 2
        elevation = self.low + (self.high - self.low) * way
        return jnp.stack([self.plane, elevation, self.rotation])


def manuscript_reference(
    *,
    low: Any = 10.0 * _DEGREE,
    high: Any = 100.0 * _DEGREE,
    duration: Any = 3.0,
    plane: Any = 90.0 * _DEGREE,
    rotation: Any = -30.0 * _DEGREE,
) -> RaiseAndLower:
    """The motion that the manuscript tracks (Ehsani 2016, section 4-4 C, Fig. 19).

    Plane of elevation 90° and axial rotation -30° are the manuscript's. It shows the
    elevation's curve and gives no formula: this one, from 10° to 100° and back in 3 s, is
    ours. Use with `MANUSCRIPT_GAINS`.
    """
    return RaiseAndLower(low, high, duration, plane, rotation)
