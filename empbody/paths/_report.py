"""What is doubtful about paths at a pose: points out of range, points inside surfaces."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..model._checks import is_concrete
from ._effective import sample_strings
from ._geometry import pick


def require_ranges(model: Model, q: Any) -> None:
    """Raise ValueError, naming the unit, where q is outside a moving point's range.

    Only numbers that can be looked at are: under jit, vmap or grad nothing is checked.
    """
    if not model.paths.moving or not is_concrete((q, model.paths.moving_range)):
        return
    problems = out_of_range(model, np.asarray(q, dtype=float))
    if problems:
        raise ValueError(problems[0])


def out_of_range(model: Model, q: np.ndarray) -> list[str]:
    if q.shape != (model.nq,):
        return []
    layout = model.paths.layout
    bounds = np.asarray(model.paths.moving_range)
    found = []
    for row, (point, inputs) in enumerate(layout.moving):
        unit = layout.unit_of(point)
        for i in inputs:
            low, high = bounds[row, i]
            if not low <= q[i] <= high:
                found.append(
                    f"point {point - layout.starts[unit] + 1} of {layout.names[unit]!r} moves with "
                    f"{model.coordinate_names[i]!r} within {low:g} ... {high:g}, which is now "
                    f"{q[i]:g}; stay inside, or give the point a function with a wider range"
                )
    return found


def check_paths(model: Model, q: Float[Array, " nq"] | np.ndarray | list[float]) -> tuple[str, ...]:
    """What a user should know about the paths at pose q, a sentence each; empty if all is well.

    Names moving points outside their range, and path points inside a surface that their path
    may lie on: the path there goes over a smaller surface through the point, or, if the point
    is fixed in the surface's own body, straight.
    """
    here = np.asarray(q, dtype=float)
    if here.shape != (model.nq,):
        raise ValueError(f"q has shape {here.shape}; {model.nq} coordinates are expected")
    return (*out_of_range(model, here), *_inside(model, here))


def _inside(model: Model, q: np.ndarray) -> list[str]:
    at = jax.numpy.asarray(q)
    strings, _ = sample_strings(model, at)
    plan, layout = strings.plan, model.paths.layout
    surfaces = strings.slots
    if surfaces is None:
        return []
    ends = pick(strings.begins, plan.rows), pick(strings.ends, plan.rows)
    found: dict[tuple[int, int], str] = {}
    for which, world in enumerate(ends):
        inside = np.asarray(surfaces.inside(surfaces.local(world)))[:, 0]
        for number in np.flatnonzero(inside):
            slot = plan.slots[number]
            point = slot.stretch if which else plan.before[plan.rows[number]][0]
            unit = layout.unit_of(point)
            found[(point, slot.surface)] = (
                f"point {point - layout.starts[unit] + 1} of {layout.names[unit]!r} is inside "
                f"wrap surface {layout.surfaces[slot.surface].name!r}"
            )
    return list(found.values())
