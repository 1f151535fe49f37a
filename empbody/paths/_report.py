"""What is doubtful about paths at a pose: points out of range, points inside surfaces, strings
that were not found."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..model._checks import is_concrete
from ._effective import sample_strings
from ._geometry import pick
from ._plan import plan_of


def require_ranges(model: Model, q: Any) -> None:
    """Raise ValueError where q is NaN or infinite or outside a table, naming the coordinate, or
    outside a moving point's range, naming the unit.

    Only numbers that can be looked at are: under jit, vmap or grad nothing is checked.
    """
    paths = model.paths
    if not is_concrete(
        (q, paths.moving_range, [(table.low, table.step) for table in paths.tables])
    ):
        return
    try:
        pose = np.asarray(q, dtype=float)
    except (TypeError, ValueError):
        return  # said where coordinates are read
    problems = out_of_range(model, pose)
    if problems:
        raise ValueError(problems[0])


def require_speeds(model: Model, qd: Any) -> None:
    """Raise ValueError where a speed is NaN or infinite, if it can be looked at."""
    if not is_concrete(qd):
        return
    try:
        speeds = np.asarray(qd, dtype=float)
    except (TypeError, ValueError):
        return  # said where coordinates are read
    if speeds.shape != (model.nq,):
        return
    for name, value in zip(model.coordinate_names, speeds, strict=True):
        if not np.isfinite(value):
            raise ValueError(f"qd of {name!r} is {value}; look at what gave this number")


def out_of_range(model: Model, q: np.ndarray) -> list[str]:
    if q.shape != (model.nq,):
        return []
    layout = model.paths.layout
    bounds = np.asarray(model.paths.moving_range)
    found = [
        f"{name!r} is {value}, which is no pose; look at what gave this number"
        for name, value in zip(model.coordinate_names, q, strict=True)
        if not np.isfinite(value)
    ]
    if found:
        return found
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
    return found + _off_the_tables(model, q)


def _off_the_tables(model: Model, q: np.ndarray) -> list[str]:
    found: dict[str, str] = {}
    for table in model.paths.tables:
        ends = zip(np.asarray(table.low), np.asarray(table.high), strict=True)
        for i, (low, high) in zip(table.coordinates, ends, strict=True):
            slack = 1e-9 * (high - low)
            if not low - slack <= q[i] <= high + slack:
                name = model.coordinate_names[i]
                found[name] = (
                    f"paths are tabulated for {name!r} within {low:.9g} ... {high:.9g}, which is "
                    f"now {q[i]:.9g}; stay inside, or tabulate a wider range"
                )
    return list(found.values())


def check_paths(model: Model, q: Float[Array, " nq"] | np.ndarray | list[float]) -> tuple[str, ...]:
    """What a user should know about the paths at pose q, a sentence each; empty if all is well.

    Names coordinates that are not numbers; surfaces whose size has been edited to something
    that is none; moving points outside their range; path points inside a surface that their
    path may lie on: the path there goes over a smaller surface through the point, or, if the
    point is fixed in the surface's own body, straight; surfaces on which the shortest string was
    not found: length and moment arms are finite there, but not to be relied upon; and one-sided
    surfaces that are letting go of the string: moment arms are large there, and may have the
    wrong sign.
    """
    here = np.asarray(q, dtype=float)
    if here.shape != (model.nq,):
        remedy = "; check poses one by one" if here.ndim > 1 else ""
        raise ValueError(f"q has shape {here.shape}; {model.nq} coordinates are expected{remedy}")
    found = [*_impossible(model), *out_of_range(model, here)]
    if found and not np.isfinite(here).all():
        return tuple(found)
    if model.paths.layout.wraps:
        inside, lost, held = (np.asarray(x) for x in _doubts(model, jnp.asarray(here)))
        found += [
            *_inside(model, inside),
            *_not_found(model, lost),
            *_letting_go(model, np.where(lost, 1.0, held)),
        ]
    return tuple(found)


def _impossible(model: Model) -> list[str]:
    """Sizes that were put in after the model was built and checked."""
    layout, sizes = model.paths.layout, np.asarray(model.paths.surface_size)
    used = {"cylinder": 2, "sphere": 1, "ellipsoid": 3, "torus": 2}
    found = []
    for surface, size in zip(layout.surfaces, sizes, strict=True):
        own = size[: used[surface.kind]]
        if not (own > 0.0).all():
            numbers = ", ".join(f"{x:g}" for x in own)
            found.append(
                f"wrap surface {surface.name!r} has the size {numbers} m: lengths must be positive"
            )
    return found


@eqx.filter_jit
def _doubts(model: Model, q: Array) -> tuple[Array, Array, Array]:
    """Slot by slot: whether the stretch's start, and its end, is inside (2, ns); whether the
    string was not found; and how much of the surface a side still holds it on, else one."""
    strings, _ = sample_strings(model, q)
    surfaces, t, rows = strings.slots, strings.touches, strings.plan.rows
    assert surfaces is not None
    assert t is not None
    ends = [surfaces.local(pick(x, rows)) for x in (strings.begins, strings.ends)]
    inside = jnp.stack([surfaces.inside(x)[:, 0] for x in ends])
    ways = surfaces.ways(*ends)
    held = t.on & t.second & ~surfaces.sideless & (ways.plain.scale > 0.0)
    part = ways.other.scale / jnp.where(held, ways.plain.scale, 1.0)
    return inside, (t.on & ~t.converged)[:, 0], jnp.where(held, part, 1.0)[:, 0]


def _inside(model: Model, inside: np.ndarray) -> list[str]:
    layout = model.paths.layout
    plan = plan_of(layout, model.topology)
    found: dict[tuple[int, int], str] = {}
    for which, number in np.argwhere(inside):
        slot = plan.slots[number]
        point = slot.stretch if which else plan.before[plan.rows[number]][0]
        unit = layout.unit_of(point)
        found[(point, slot.surface)] = (
            f"point {point - layout.starts[unit] + 1} of {layout.names[unit]!r} is inside "
            f"wrap surface {layout.surfaces[slot.surface].name!r}"
        )
    return list(found.values())


def _not_found(model: Model, lost: np.ndarray) -> list[str]:
    layout = model.paths.layout
    slots = plan_of(layout, model.topology).slots
    names = [
        (layout.names[layout.unit_of(slots[k].stretch)], layout.surfaces[slots[k].surface].name)
        for k in np.flatnonzero(lost)
    ]
    return [
        f"no shortest string was found for {unit!r} over wrap surface {surface!r}: its length and "
        "moment arms are not to be relied upon here"
        for unit, surface in dict.fromkeys(names)
    ]


_FIRM = 0.9999


def _letting_go(model: Model, held: np.ndarray) -> list[str]:
    layout = model.paths.layout
    slots = plan_of(layout, model.topology).slots
    return [
        f"wrap surface {layout.surfaces[slots[k].surface].name!r} is letting go of "
        f"{layout.names[layout.unit_of(slots[k].stretch)]!r}, which is on the wrong side of it "
        f"({100 * held[k]:.4g} % of it holds): moment arms are large here; turn the surface so "
        "that its side faces the middle of the arc, or put it on the other body"
        for k in np.flatnonzero(held < _FIRM)
    ]
