"""The strings themselves: lengths of all units, and the forces of unit tension."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..model import Model, PathLayout
from ._contacts import slot_surfaces, touches
from ._geometry import (
    Frames,
    LanePaths,
    Points,
    SurfaceFrames,
    path_points,
    pick,
    sums,
    surface_frames,
)
from ._given import Touches
from ._plan import Plan, plan_of
from ._remainder import Left
from ._squeeze import squeeze
from ._surfaces import Surfaces
from ._vectors import cross, direction, kept, length


class Strings(eqx.Module):
    """All paths of a model at one pose, lanes last, in the ground frame."""

    points: Points
    begins: Float[Array, "3 nt lanes"]
    """Start of each stretch (m)."""
    ends: Float[Array, "3 nt lanes"]
    exists: Array
    slots: Surfaces | None
    touches: Touches | None
    plan: Plan = eqx.field(static=True)

    @property
    def left(self) -> Left:
        """What the surfaces have left for these strings, slot by slot."""
        assert self.slots is not None
        assert self.touches is not None
        a, b = (self.slots.local(pick(x, self.plan.rows)) for x in (self.begins, self.ends))
        return self.slots.left(a, b, self.touches.second)


def strings(model: Model, paths: LanePaths, frames: Frames, q: Float[Array, "nq lanes"]) -> Strings:
    plan = plan_of(model.paths.layout, model.topology)
    points = path_points(model, paths, frames, q)
    placed = None
    if plan.slots:
        placed = surface_frames(
            model.paths.layout,
            frames,
            paths.surface_translation,
            paths.surface_rotation,
            paths.surface_size,
        )
    return strings_of(plan, points, placed)


def strings_of(plan: Plan, points: Points, surfaces: SurfaceFrames | None) -> Strings:
    begins, ends, exists = points.begins(plan), points.ends(plan), points.exists(plan)
    if surfaces is None:
        return Strings(points, begins, ends, exists, None, None, plan)
    slots = slot_surfaces(plan, surfaces, begins.shape[-1])
    a, b = pick(begins, plan.rows), pick(ends, plan.rows)
    a, b = kept((a, b))
    found = touches(plan, slots, a, b, pick(exists, plan.rows))
    return Strings(points, begins, ends, exists, slots, found, plan)


def unit_lengths(layout: PathLayout, strings: Strings) -> Float[Array, "nm lanes"]:
    """Length of every unit (m)."""
    plan = strings.plan
    whole = length(strings.ends - strings.begins)
    if strings.touches is not None:
        t = strings.touches
        piece = length(t.p - t.before) + t.arc + jnp.where(t.last, length(t.after - t.q), 0.0)
        over = sums(jnp.where(t.on, piece, 0.0)[None], plan.rows, len(plan.stretches))[0]
        whole = jnp.where(_touched(plan, t), over, whole)
    whole = jnp.where(strings.exists, whole, 0.0)
    owner = [layout.unit_of(point) for point in plan.stretches]
    return sums(whole[None], owner, layout.n_units)[0]


def _touched(plan: Plan, t: Touches) -> Bool[Array, "nt lanes"]:
    """Whether any surface lifts each stretch."""
    first = jnp.where(t.first, 1.0, 0.0)[None]
    return sums(first, plan.rows, len(plan.stretches))[0] > 0.5


class Pulls(NamedTuple):
    """Forces of unit tension in every unit."""

    wrench: Float[Array, "6 k lanes"]
    """Moment about a common point, and force."""
    unit: tuple[int, ...]
    link: tuple[int, ...]
    """What each wrench belongs to and acts on."""
    on_points: Float[Array, "3 nv lanes"]
    """Forces on moving points."""


def pulls(layout: PathLayout, strings: Strings, origin: Float[Array, "3 lanes"]) -> Pulls:
    """What each unit does to each link and moving point; moments about `origin`."""
    plan = strings.plan
    straight = direction(strings.ends - strings.begins)
    at_begin, at_end = straight, -straight
    parts: list[tuple[Array, Array, list[tuple[int, int]]]] = []
    middle = origin[:, None]
    if strings.touches is not None:
        t = strings.touches
        comes, goes = kept((direction(t.before - t.p), direction(t.after - t.q)))
        assert strings.slots is not None
        a, b = pick(strings.begins, plan.rows), pick(strings.ends, plan.rows)
        extra_a, extra_b = kept(squeeze(strings.slots, a, b, t, comes, goes))
        on, count = t.on[None], len(plan.stretches)
        lifted = _touched(plan, t)[None]
        own_a = jnp.where(t.first[None], -comes, 0.0) - jnp.where(on, extra_a, 0.0)
        own_b = jnp.where(t.last[None], -goes, 0.0) - jnp.where(on, extra_b, 0.0)
        at_begin = jnp.where(lifted, 0.0, at_begin) + sums(own_a, plan.rows, count)
        at_end = jnp.where(lifted, 0.0, at_end) + sums(own_b, plan.rows, count)
        force = comes + goes + extra_a + extra_b
        moment = cross(t.p - middle, comes) + cross(t.q - middle, goes)
        moment = moment + cross(a - middle, extra_a) + cross(b - middle, extra_b)
        keys = [(slot.unit, plan.surface_links[slot.surface]) for slot in plan.slots]
        parts.append((jnp.where(on, force, 0.0), jnp.where(on, moment, 0.0), keys))
    exists = strings.exists[None]
    at_begin, at_end = jnp.where(exists, at_begin, 0.0), jnp.where(exists, at_end, 0.0)
    points, forces = list(plan.stretches), [at_end]
    for rows, starts, chosen in strings.points.starts(plan):
        points += starts
        forces.append(jnp.where(chosen[None], pick(at_begin, rows), 0.0))
    force = kept(jnp.concatenate(forces, axis=1))
    arm = pick(strings.points.world, points) - middle
    keys = [(layout.unit_of(point), plan.links[point]) for point in points]
    parts.append((force, cross(arm, force), keys))
    return _summed(parts, points, [point for point, _ in layout.moving])


def _summed(
    parts: list[tuple[Array, Array, list[tuple[int, int]]]], points: list[int], moving: list[int]
) -> Pulls:
    keys = [key for _, _, part in parts for key in part]
    wrench = jnp.concatenate(
        [jnp.concatenate([moment, force]) for force, moment, _ in parts], axis=1
    )
    kinds = sorted({key for key in keys if key[1] >= 0})
    rows = [k for k, key in enumerate(keys) if key[1] >= 0]
    owner = [kinds.index(keys[k]) for k in rows]
    here = [k for k, point in enumerate(points) if point in moving]
    own = [moving.index(points[k]) for k in here]
    on_points = sums(pick(parts[-1][0], here), own, len(moving))
    total = sums(pick(wrench, rows), owner, len(kinds)) if rows else wrench[:, :0]
    return Pulls(total, tuple(u for u, _ in kinds), tuple(k for _, k in kinds), on_points)  # pyright: ignore
