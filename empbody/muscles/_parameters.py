"""The numbers of Hill-type muscles, checked when they are given."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model._checks import is_concrete, numbers, unique_names

_POSITIVE = (
    ("max_isometric_force", "N"),
    ("optimal_fibre_length", "m"),
    ("tendon_slack_length", "m"),
    ("max_contraction_velocity", "optimal lengths per second"),
    ("activation_time", "s"),
    ("deactivation_time", "s"),
    ("tendon_strain", ""),
)


class HillParameters(eqx.Module):
    """Numbers of nm musculotendon units; make them with `HillParameters.of`."""

    max_isometric_force: Float[Array, " nm"]
    """N"""
    optimal_fibre_length: Float[Array, " nm"]
    """m"""
    tendon_slack_length: Float[Array, " nm"]
    """m"""
    pennation: Float[Array, " nm"]
    """Angle between fibre and tendon at the optimal fibre length (rad)."""
    max_contraction_velocity: Float[Array, " nm"]
    """Optimal fibre lengths per second."""
    damping: Float[Array, " nm"]
    """Fibre damping: share of the maximum isometric force at the maximum speed."""
    activation_time: Float[Array, " nm"]
    """s"""
    deactivation_time: Float[Array, " nm"]
    """s"""
    tendon_strain: Float[Array, " nm"]
    """Strain of the tendon at the maximum isometric force."""
    minimum_activation: Float[Array, " nm"]
    names: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        max_isometric_force: Any,
        optimal_fibre_length: Any,
        tendon_slack_length: Any,
        pennation: Any = 0.0,
        max_contraction_velocity: Any = 10.0,
        damping: Any = 0.01,
        activation_time: Any = 0.015,
        deactivation_time: Any = 0.060,
        tendon_strain: Any = 0.049,
        minimum_activation: Any = 0.01,
    ) -> "HillParameters":
        """Each number is one for all units or one per name. SI units and radians.

        Defaults belong to the De Groote-Fregly family; `**Millard.typical` and
        `**Thelen.typical` hold those of the other two. Numbers that are traced are not
        looked at.
        """
        names = tuple(names)
        unique_names("muscle", names)
        given = {
            "max_isometric_force": max_isometric_force,
            "optimal_fibre_length": optimal_fibre_length,
            "tendon_slack_length": tendon_slack_length,
            "pennation": pennation,
            "max_contraction_velocity": max_contraction_velocity,
            "damping": damping,
            "activation_time": activation_time,
            "deactivation_time": deactivation_time,
            "tendon_strain": tendon_strain,
            "minimum_activation": minimum_activation,
        }
        arrays = {field: _per_unit(field, value, len(names)) for field, value in given.items()}
        for field, array in arrays.items():
            _refuse(names, field, array, lambda x: ~np.isfinite(x), "must be finite", "")
        for field, unit in _POSITIVE:
            _refuse(names, field, arrays[field], lambda x: x <= 0.0, "must be positive", unit)
        _refuse(
            names,
            "pennation",
            arrays["pennation"],
            lambda x: (x < 0.0) | (x >= np.pi / 2),
            "must be in [0, π/2); angles are in radians",
            "rad",
        )
        _refuse(names, "damping", arrays["damping"], lambda x: x < 0.0, "must not be negative", "")
        _refuse(
            names,
            "minimum_activation",
            arrays["minimum_activation"],
            lambda x: (x < 0.0) | (x >= 1.0),
            "must be in [0, 1)",
            "",
        )
        return cls(
            **{field: jnp.asarray(array, dtype=float) for field, array in arrays.items()},
            names=names,
        )

    @property
    def size(self) -> int:
        """Number of musculotendon units."""
        return len(self.names)


def _per_unit(field: str, value: Any, size: int) -> Any:
    array = numbers(value)
    if array.shape not in ((), (size,)):
        raise ValueError(
            f"{field} has shape {array.shape} for {size} muscle names; give one number, or one "
            "per muscle"
        )
    return (np if is_concrete(array) else jnp).broadcast_to(array, (size,))


def _refuse(names: tuple[str, ...], field: str, array: Any, bad: Any, rule: str, unit: str) -> None:
    if not is_concrete(array):
        return
    wrong = np.flatnonzero(bad(np.asarray(array)))
    if wrong.size:
        first = int(wrong[0])
        value = f"{float(array[first]):.6g} {unit}".strip()
        more = f" (and {wrong.size - 1} more)" if wrong.size > 1 else ""
        label = field.replace("_", " ")
        raise ValueError(f"{label} of muscle {names[first]!r} is {value}: it {rule}{more}")
