"""Path points and surfaces in the ground frame, for all lanes."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from ..kinematics._lanes import lanes_last
from ..kinematics._links import lane_jet
from ..model import Model, PathSet
from ..rhythms import AbstractRhythm
from ._plan import Plan
from ._vectors import turn

Frames = dict[int, Float[Array, "3 4 #lanes"]]
"""Ground-to-body transforms [R | p] of the bodies that paths need."""


class LanePaths(eqx.Module):
    """A set of paths, components first and lanes last."""

    location: Float[Array, "3 np #lanes"]
    condition: Float[Array, "nc 2 #lanes"]
    moving: tuple[AbstractRhythm, ...]
    moving_batched: Any
    surface_translation: Float[Array, "3 ns #lanes"]
    surface_rotation: Float[Array, "3 3 ns #lanes"]
    surface_size: Float[Array, "3 ns #lanes"]

    @staticmethod
    def of(paths: PathSet, batched: PathSet | None = None) -> "LanePaths":
        """`batched` tells which leaves have a leading batch axis."""

        def leaf(get: Any, order: tuple[int, ...]) -> Array:
            value = lanes_last(get(paths), False if batched is None else get(batched))
            return jnp.transpose(value, order)

        return LanePaths(
            location=leaf(lambda p: p.location, (1, 0, 2)),
            condition=leaf(lambda p: p.condition, (0, 1, 2)),
            moving=paths.moving,
            moving_batched=None if batched is None else batched.moving,
            surface_translation=leaf(lambda p: p.surface_translation, (1, 0, 2)),
            surface_rotation=leaf(lambda p: p.surface_rotation, (1, 2, 0, 3)),
            surface_size=leaf(lambda p: p.surface_size, (1, 0, 2)),
        )


class Points(eqx.Module):
    """Path points of all units at one pose."""

    world: Float[Array, "3 np lanes"]
    alive: dict[int, Bool[Array, " lanes"]]
    """For conditional points: whether the path goes through them."""
    slope: dict[int, Float[Array, "3 nq #lanes"]]
    """For moving points: derivative of the location in the ground frame, body held still."""

    def begins(self, plan: Plan) -> Float[Array, "3 nt lanes"]:
        """Where each stretch starts: the last point before that is alive."""
        begins = pick(self.world, [candidates[-1] for candidates in plan.before])
        for row, candidates in enumerate(plan.before):
            for point in reversed(candidates[:-1]):
                here = jnp.where(self.alive[point][None], self.world[:, point], begins[:, row])
                begins = begins.at[:, row].set(here)
        return begins

    def ends(self, plan: Plan) -> Float[Array, "3 nt lanes"]:
        return pick(self.world, plan.stretches)

    def exists(self, plan: Plan) -> Bool[Array, "nt lanes"]:
        """Whether each stretch is there: not if it leads to a point that is left out."""
        exists = jnp.ones((len(plan.stretches), self.world.shape[-1]), dtype=bool)
        for point, alive in self.alive.items():
            exists = exists.at[plan.stretches.index(point)].set(alive)
        return exists

    def starts_at(self, candidates: tuple[int, ...]) -> list[tuple[int, Array | None]]:
        """Which of the candidates is the start; None means always."""
        if len(candidates) == 1:
            return [(candidates[0], None)]
        out: list[tuple[int, Array | None]] = []
        none_yet = jnp.ones(self.world.shape[-1], dtype=bool)
        for point in candidates[:-1]:
            out.append((point, none_yet & self.alive[point]))
            none_yet = none_yet & ~self.alive[point]
        return [*out, (candidates[-1], none_yet)]


def path_points(
    model: Model, paths: LanePaths, frames: Frames, q: Float[Array, "nq lanes"]
) -> Points:
    """World positions of all path points."""
    layout = model.paths.layout
    lanes = q.shape[-1]
    location, slope = _moving_locations(model, paths, frames, q)
    alive = {}
    for row, (point, coordinate) in enumerate(layout.conditional):
        low, high = paths.condition[row, 0], paths.condition[row, 1]
        alive[point] = (q[coordinate] >= low) & (q[coordinate] <= high)
    local = jnp.broadcast_to(paths.location, (3, layout.n_points, lanes))
    for point, value in location.items():
        local = local.at[:, point].set(value)
    # Body by body, then back into the paths' order.
    order = sorted(range(layout.n_points), key=lambda point: layout.bodies[point])
    pieces = []
    for body in sorted(set(layout.bodies)):
        own = pick(local, [point for point in order if layout.bodies[point] == body])
        if body >= 0:
            frame = frames[body][:, :, None]
            own = turn(frame[:, :3], own) + frame[:, 3]
        pieces.append(jnp.broadcast_to(own, (*own.shape[:2], lanes)))
    world = pick(jnp.concatenate(pieces, axis=1), np.argsort(order))
    return Points(world=world, alive=alive, slope=slope)


def pick(values: Shaped[Array, "... n lanes"], rows: Any) -> Shaped[Array, "... m lanes"]:
    """Some rows of the last axis but one."""
    return values.at[..., np.asarray(rows), :].get(mode="promise_in_bounds")


def _moving_locations(
    model: Model, paths: LanePaths, frames: Frames, q: Float[Array, "nq lanes"]
) -> tuple[dict[int, Array], dict[int, Array]]:
    """Locations in body frames, and their derivatives turned into the ground frame."""
    layout = model.paths.layout
    location, slope = {}, {}
    for row, (point, inputs) in enumerate(layout.moving):
        picked = jnp.stack([q[i] for i in inputs])
        batched = None if paths.moving_batched is None else paths.moving_batched[row]
        value, jacobian, _ = lane_jet(paths.moving[row], picked, jnp.zeros_like(picked), batched)
        location[point] = value
        columns = [jnp.zeros_like(jacobian[:, 0])] * q.shape[0]
        for k, i in enumerate(inputs):
            columns[i] = jacobian[:, k]
        local = jnp.stack(columns, axis=1)
        body = layout.bodies[point]
        slope[point] = local if body < 0 else turn(frames[body][:, :3, None], local)
    return location, slope


class SurfaceFrames(eqx.Module):
    """Surfaces in the ground frame."""

    centre: Float[Array, "3 ns #lanes"]
    rotation: Float[Array, "3 3 ns #lanes"]
    size: Float[Array, "3 ns #lanes"]


def surface_frames(model: Model, paths: LanePaths, frames: Frames) -> SurfaceFrames:
    surfaces = model.paths.layout.surfaces
    lanes = max((frame.shape[-1] for frame in frames.values()), default=1)
    still = jnp.eye(3, 4, dtype=paths.surface_size.dtype)[:, :, None]
    bodies = sorted({surface.body for surface in surfaces})
    stacked = [frames[body] if body >= 0 else still for body in bodies]
    stacked = [jnp.broadcast_to(frame, (3, 4, lanes)) for frame in stacked]
    rows = [bodies.index(surface.body) for surface in surfaces]
    frame = pick(jnp.stack(stacked, axis=2), rows)
    columns = [turn(frame[:, :3], paths.surface_rotation[:, k]) for k in range(3)]
    return SurfaceFrames(
        centre=turn(frame[:, :3], paths.surface_translation) + frame[:, 3],
        rotation=jnp.stack(columns, axis=1),
        size=paths.surface_size,
    )


def needed_bodies(model: Model) -> tuple[int, ...]:
    """Moving bodies that carry path points or active surfaces."""
    layout = model.paths.layout
    used = set(layout.bodies) | {surface.body for surface in layout.surfaces}
    return tuple(sorted(used - {-1}))


def body_frames(
    model: Model, transform: Float[Array, "nj 3 4 lanes"], batched: Model | None = None
) -> Frames:
    """Frames of the needed bodies from link transforms."""
    frames: Frames = {}
    for body in needed_bodies(model):
        link = model.topology.body_links[body]
        turned = lanes_last(model.body_rotation, _flag(batched, "body_rotation"))[body]
        moved = lanes_last(model.body_translation, _flag(batched, "body_translation"))[body]
        placement = jnp.concatenate([turned, moved[:, None]], axis=1)
        if link < 0:
            frames[body] = placement
            continue
        if _rides_on_its_link(model, body):
            frames[body] = transform[link]
            continue
        frame = transform[link]
        columns = [turn(frame[:, :3], placement[:, k]) for k in range(4)]
        columns[3] = columns[3] + frame[:, 3]
        frames[body] = jnp.stack(columns, axis=1)
    return frames


def _flag(batched: Model | None, name: str) -> bool:
    return False if batched is None else getattr(batched, name)


def _rides_on_its_link(model: Model, body: int) -> bool:
    """Whether the body frame is its link's frame: it is, unless the body was welded on."""
    return not model.topology.welded[body]
