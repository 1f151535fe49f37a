"""Solvers by name, the same wherever one can be chosen."""

from collections.abc import Mapping
from typing import TypeVar

import diffrax

from ._chord import StageChord
from ._rkf45 import RKF45
from ._trbdf2 import TRBDF2

# One object each, made once: a fresh one per call could compile again.
SOLVERS: dict[str, diffrax.AbstractSolver] = {
    "tsit5": diffrax.Tsit5(),
    "dopri5": diffrax.Dopri5(),
    "dopri8": diffrax.Dopri8(),
    "rkf45": RKF45(),
    "kvaerno5": diffrax.Kvaerno5(root_finder=diffrax.with_stepsize_controller_tols(StageChord)()),
    "trbdf2": TRBDF2(),
}

_T = TypeVar("_T")


def by_name(kind: str, value: str | _T, names: Mapping[str, _T]) -> _T:
    """The object of that name, or the object itself."""
    if not isinstance(value, str):
        return value
    if value.lower() not in names:
        raise ValueError(f"there is no {kind} {value!r}; choose one of {sorted(names)}")
    return names[value.lower()]
