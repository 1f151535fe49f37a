"""The points at which strings act on bodies, one sample at a time."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..kinematics import body_transforms
from ..model import Model
from ._geometry import Frames, LanePaths, needed_bodies, pick
from ._squeeze import squeeze
from ._string import Strings, strings
from ._vectors import direction, turn_back


class EffectivePoints(NamedTuple):
    """Points of one path in order, with the two tangent points of each surface it lies on.

    Points that do not count at this pose (conditional points out of range, surfaces without
    contact) are not alive; a path leads from one living point to the next. Where several
    surfaces may lift one stretch their order depends on the pose, so each is listed at every
    place that it may take.
    """

    bodies: tuple[int, ...]
    """-1 is the ground."""
    sources: tuple[int, ...]
    """Position in the model's list of path points; -1 for tangent points."""
    local: Float[Array, "n 3"]
    """In the body frame (m)."""
    world: Float[Array, "n 3"]
    """In the ground frame (m)."""
    alive: Bool[Array, " n"]


class ShrinkingForces(NamedTuple):
    """Forces of unit tension through the size that surfaces have left, a row for each.

    What is left of a surface depends on where the stretch's ends are to it, so that the ends
    are drawn towards where more of it is gone; the surface's body bears the reaction, as if
    it were held at the same places. Zero where surfaces are whole.
    """

    units: tuple[int, ...]
    bodies: tuple[int, ...]
    """-1 is the ground."""
    sources: tuple[int, ...]
    """Position in the model's list of path points; -1 for a surface's body."""
    local: Float[Array, "n 3"]
    """Where the force acts, in the body frame (m)."""
    force: Float[Array, "n 3"]
    """In the body's axes, per unit of tension."""


def sample_strings(model: Model, q: Float[Array, " nq"]) -> tuple[Strings, Frames]:
    """Strings of one sample, and the frames of the bodies they touch."""
    return strings_from_frames(model, q, body_transforms(model, q))


def strings_from_frames(
    model: Model, q: Float[Array, " nq"], transforms: Float[Array, "nb 4 4"]
) -> tuple[Strings, Frames]:
    frames = {body: transforms[body, :3, :, None] for body in needed_bodies(model)}
    return strings(model, LanePaths.of(model.paths), frames, q[:, None]), frames


def effective_points(model: Model, q: Float[Array, " nq"]) -> tuple[EffectivePoints, ...]:
    """Effective points of every musculotendon unit (Ehsani 2016, section 3-3)."""
    found, frames = sample_strings(model, q)
    return _points(model, found, frames)


def effective_points_and_forces(
    model: Model, q: Float[Array, " nq"]
) -> tuple[tuple[EffectivePoints, ...], ShrinkingForces]:
    """All that pulls on bodies: lines through the effective points, and `ShrinkingForces`."""
    found, frames = sample_strings(model, q)
    return _points(model, found, frames), _shrinking(model, found, frames)


def _points(model: Model, found: Strings, frames: Frames) -> tuple[EffectivePoints, ...]:
    return tuple(_of_unit(model, found, frames, unit) for unit in range(model.nm))


def _shrinking(model: Model, found: Strings, frames: Frames) -> ShrinkingForces:
    plan, layout = found.plan, model.paths.layout
    rows: list[tuple[int, int, int, Array, Array]] = []
    t, slots = found.touches, found.slots
    if t is not None and slots is not None:
        a, b = pick(found.begins, plan.rows), pick(found.ends, plan.rows)
        comes, goes = direction(t.before - t.p), direction(t.after - t.q)
        counts = t.on & pick(found.exists, plan.rows)
        slopes = squeeze(slots, a, b, t, comes, goes)
        at_a, at_b = (jnp.where(counts[None], slope, 0)[:, :, 0] for slope in slopes)
        for k, slot in enumerate(plan.slots):
            body = layout.surfaces[slot.surface].body
            rows += [(slot.unit, body, -1, a[:, k, 0], at_a[:, k])]
            rows += [(slot.unit, body, -1, b[:, k, 0], at_b[:, k])]
            end = plan.stretches[plan.rows[k]]
            rows.append((slot.unit, layout.bodies[end], end, b[:, k, 0], -at_b[:, k]))
            for stretches, starts, chosen in found.points.starts(plan):
                if plan.rows[k] not in stretches:
                    continue
                n = stretches.index(plan.rows[k])
                force = jnp.where(chosen[n, 0], -at_a[:, k], 0)
                rows.append((slot.unit, layout.bodies[starts[n]], starts[n], a[:, k, 0], force))
    nothing = jnp.zeros((0, 3), found.begins.dtype)
    local = [_in_body(frames, body, x) for _, body, _, x, _ in rows]
    force = [_in_axes(frames, body, f) for _, body, _, _, f in rows]
    return ShrinkingForces(
        units=tuple(unit for unit, *_ in rows),
        bodies=tuple(body for _, body, *_ in rows),
        sources=tuple(source for _, _, source, *_ in rows),
        local=jnp.stack(local) if rows else nothing,
        force=jnp.stack(force) if rows else nothing,
    )


def _of_unit(model: Model, found: Strings, frames: Frames, unit: int) -> EffectivePoints:
    plan, layout = found.plan, model.paths.layout
    yes = jnp.ones((), dtype=bool)
    rows: list[tuple[int, int, Array, Array]] = []
    for point in layout.points_of(unit):
        if point in plan.stretches:
            rows += _lifted(model, found, plan.stretches.index(point))
        alive = found.points.alive.get(point)
        here = yes if alive is None else alive[0]
        rows.append((layout.bodies[point], point, found.points.world[:, point, 0], here))
    local = [_in_body(frames, body, x) for body, _, x, _ in rows]
    return EffectivePoints(
        bodies=tuple(body for body, _, _, _ in rows),
        sources=tuple(source for _, source, _, _ in rows),
        local=jnp.stack(local),
        world=jnp.stack([x for _, _, x, _ in rows]),
        alive=jnp.stack([alive for _, _, _, alive in rows]),
    )


def _lifted(model: Model, found: Strings, row: int) -> list[tuple[int, int, Array, Array]]:
    """Tangent points on a stretch, for every place in the order that a surface may take."""
    t, plan = found.touches, found.plan
    numbers = [k for k, own in enumerate(plan.rows) if own == row]
    if t is None or not numbers:
        return []
    exists = found.exists[row, 0]
    out = []
    for place in range(min(len(numbers), 3)):
        for k in numbers:
            body = model.paths.layout.surfaces[plan.slots[k].surface].body
            first, last, on = t.first[k, 0], t.last[k, 0], t.on[k, 0] & exists
            # The only one, or the first of several, stands first; the last one third.
            here = (first, on & ~first & ~last, on & last & ~first)[place]
            if len(numbers) == 2 and place == 1:
                here = on & ~first
            out += [(body, -1, x[:, k, 0], on & here) for x in (t.p, t.q)]
    return out


def _in_body(frames: Frames, body: int, x: Array) -> Array:
    if body < 0:
        return x
    return _in_axes(frames, body, x - frames[body][:, 3, 0])


def _in_axes(frames: Frames, body: int, v: Array) -> Array:
    return v if body < 0 else turn_back(frames[body][:, :3, 0], v)
