"""Solutions as arrays with names, for batches in memory and in files."""

from collections.abc import Mapping
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..muscles import HillState
from ..simulation import SimulationStatus, Solution

ALONG_TIME = ("ts", "q", "qd", "reached", "muscles/", "excitation", "monitors/")
"""What there is for every row; names that end in a slash begin several."""
_PLAIN = ("ts", "q", "qd", "reached", "t_final", "q_final", "qd_final", "events", "excitation")
# One item each, to make others of.
_ENUMERATIONS: dict[str, Any] = {
    "status": SimulationStatus.done,
    "result": diffrax.RESULTS.successful,
}
_STATES = ("muscles", "muscles_final")
_PARTS = ("activation", "fibre")


def as_arrays(solution: Solution) -> dict[str, Array]:
    """The arrays of a solution; "muscles/activation" is `solution.muscles.activation`."""
    found: dict[str, Any] = {name: getattr(solution, name) for name in _PLAIN}
    for name in _ENUMERATIONS:
        (found[name],) = jax.tree.leaves(getattr(solution, name))
    for group in ("stats", "monitors"):
        for name, value in getattr(solution, group).items():
            found[f"{group}/{name}"] = value
    for name in _STATES:
        for part in _PARTS:
            found[f"{name}/{part}"] = getattr(getattr(solution, name), part, None)
    return {name: jnp.asarray(value) for name, value in found.items() if value is not None}


def as_solution(arrays: Mapping[str, Any]) -> Solution:
    """Inverse of `as_arrays`."""
    given: dict[str, Any] = {"events": None, "interpolation": None}
    given |= {name: jnp.asarray(value) for name, value in arrays.items()}
    for name, item in _ENUMERATIONS.items():
        given[name] = jax.tree.unflatten(jax.tree.structure(item), [given[name]])
    # Muscles may have no state of their own and still take part.
    pulled = "excitation" in given
    for name in _STATES:
        parts = {part: given.pop(f"{name}/{part}", None) for part in _PARTS}
        given[name] = HillState(**parts) if pulled else None
    for group in ("stats", "monitors"):
        names = [name for name in given if name.startswith(f"{group}/")]
        given[group] = {name.removeprefix(f"{group}/"): given.pop(name) for name in names}
    return Solution(**given)


def is_along_time(name: str) -> bool:
    return any(name == one or (one[-1] == "/" and name.startswith(one)) for one in ALONG_TIME)
