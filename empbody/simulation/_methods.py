"""Solvers, adjoints, step size control and progress meters by name."""

import importlib.util
from collections.abc import Mapping
from typing import Any, TypeVar

import diffrax
import equinox as eqx
import jax
import optimistix as optx
from jaxtyping import Array, Float

from ..solvers import RKF45, TRBDF2, StageChord

# One object each, made once: a fresh one per call could compile again.
SOLVERS: dict[str, diffrax.AbstractSolver] = {
    "tsit5": diffrax.Tsit5(),
    "dopri5": diffrax.Dopri5(),
    "dopri8": diffrax.Dopri8(),
    "rkf45": RKF45(),
    "kvaerno5": diffrax.Kvaerno5(root_finder=diffrax.with_stepsize_controller_tols(StageChord)()),
    "trbdf2": TRBDF2(),
}
ADJOINTS: dict[str, diffrax.AbstractAdjoint] = {
    "checkpoint": diffrax.RecursiveCheckpointAdjoint(),
    "backsolve": diffrax.BacksolveAdjoint(),
    "forward": diffrax.ForwardMode(),
    "direct": diffrax.DirectAdjoint(),
}

_T = TypeVar("_T")


def by_name(kind: str, value: str | _T, names: Mapping[str, _T]) -> _T:
    """The object of that name, or the object itself."""
    if not isinstance(value, str):
        return value
    if value.lower() not in names:
        raise ValueError(f"there is no {kind} {value!r}; choose one of {sorted(names)}")
    return names[value.lower()]


def progress_meter(value: Any) -> diffrax.AbstractProgressMeter:
    if isinstance(value, diffrax.AbstractProgressMeter):
        return value
    if not isinstance(value, bool):
        raise ValueError(f"progress = {value!r}: True, False or a Diffrax progress meter")
    if not value:
        return diffrax.NoProgressMeter()
    if importlib.util.find_spec("tqdm") is None:
        return diffrax.TextProgressMeter()
    return diffrax.TqdmProgressMeter()


def is_implicit(solver: diffrax.AbstractSolver) -> bool:
    return isinstance(solver, diffrax.AbstractImplicitSolver)


def with_stage_tolerances(
    solver: diffrax.AbstractSolver, rtol: Float[Array, ""], atol: Float[Array, ""]
) -> diffrax.AbstractSolver:
    """For fixed steps: an implicit solver that waits for a controller's tolerances gets ours."""
    if not isinstance(solver, diffrax.AbstractImplicitSolver):
        return solver
    if isinstance(solver.root_finder.rtol, float | int | jax.Array):
        return solver
    return eqx.tree_at(
        lambda s: (s.root_finder.rtol, s.root_finder.atol, s.root_finder.norm),
        solver,
        (rtol, atol, optx.max_norm),
    )
