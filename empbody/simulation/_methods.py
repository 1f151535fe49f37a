"""Adjoints, step size control and progress meters by name."""

import importlib.util
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import optimistix as optx

ADJOINTS: dict[str, diffrax.AbstractAdjoint] = {
    "checkpoint": diffrax.RecursiveCheckpointAdjoint(),
    "backsolve": diffrax.BacksolveAdjoint(),
    "forward": diffrax.ForwardMode(),
    "direct": diffrax.DirectAdjoint(),
}


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
    solver: diffrax.AbstractSolver, rtol: Any, atol: Any, norm: Callable = optx.max_norm
) -> diffrax.AbstractSolver:
    """For fixed steps: an implicit solver that waits for a controller's tolerances gets ours."""
    if not isinstance(solver, diffrax.AbstractImplicitSolver):
        return solver
    if isinstance(solver.root_finder.rtol, float | int | jax.Array):
        return solver
    return eqx.tree_at(
        lambda s: (s.root_finder.rtol, s.root_finder.atol, s.root_finder.norm),
        solver,
        (rtol, atol, norm),
    )


def with_controller_tolerances(
    solver: diffrax.AbstractSolver, controller: diffrax.AbstractStepSizeController
) -> diffrax.AbstractSolver:
    """For adaptive steps: what `diffrax.diffeqsolve` does for a solver that waits for them."""
    if not isinstance(controller, diffrax.PIDController):
        return solver
    return with_stage_tolerances(solver, controller.rtol, controller.atol, controller.norm)
