"""Path points and surfaces in the ground frame, for all lanes."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from ..kinematics._lanes import lanes_last, select
from ..kinematics._links import body_placements, compose, lane_jet
from ..model import Model, PathLayout, PathSet, Topology
from ..rhythms import AbstractRhythm, Jet
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
    slope: Float[Array, "nv 3 nq #lanes"]
    """Of moving points: derivative of the location in the ground frame, body held still."""

    def begins(self, plan: Plan) -> Float[Array, "3 nt lanes"]:
        """Where each stretch starts: the last point before that is alive."""
        depth = max(len(candidates) for candidates in plan.before)
        begins = pick(self.world, [candidates[-1] for candidates in plan.before])
        for k in reversed(range(depth - 1)):
            # Those with fewer candidates have found theirs.
            points = [candidates[min(k, len(candidates) - 1)] for candidates in plan.before]
            begins = jnp.where(pick(self.present, points)[None], pick(self.world, points), begins)
        return begins

    def ends(self, plan: Plan) -> Float[Array, "3 nt lanes"]:
        return pick(self.world, plan.stretches)

    def exists(self, plan: Plan) -> Bool[Array, "nt lanes"]:
        """Whether each stretch is there: not if it leads to a point that is left out."""
        return pick(self.present, plan.stretches)

    @property
    def present(self) -> Bool[Array, "np lanes"]:
        """Whether the path goes through each point."""
        lanes = self.world.shape[-1]
        yes = jnp.ones((1, lanes), dtype=bool)
        table = np.zeros(self.world.shape[-2], dtype=int)
        table[list(self.alive)] = 1 + np.arange(len(self.alive))
        known = [jnp.broadcast_to(alive[None], (1, lanes)) for alive in self.alive.values()]
        return pick(jnp.concatenate([yes, *known]), table)

    def starts(self, plan: Plan) -> list[tuple[list[int], list[int], Bool[Array, "k lanes"]]]:
        """Rows of stretches, points that they may start at, and whether they do: the nearest
        points first, of all stretches, then the next ones of those that have more."""
        present, out = self.present, []
        rows = list(range(len(plan.before)))
        open_yet = jnp.ones((len(rows), self.world.shape[-1]), dtype=bool)
        for k in range(max(len(candidates) for candidates in plan.before)):
            keep = [n for n, row in enumerate(rows) if len(plan.before[row]) > k]
            rows, open_yet = [rows[n] for n in keep], pick(open_yet, keep)
            points = [plan.before[row][k] for row in rows]
            # The last one is always there.
            here = pick(present, points)
            out.append((rows, points, open_yet & here))
            open_yet = open_yet & ~here
        return out


def conditions(
    model: Model, paths: LanePaths, q: Float[Array, "nq lanes"]
) -> dict[int, Bool[Array, " lanes"]]:
    """For conditional points: whether the path goes through them."""
    alive = {}
    for row, (point, coordinate) in enumerate(model.paths.layout.conditional):
        low, high = paths.condition[row, 0], paths.condition[row, 1]
        alive[point] = (q[coordinate] >= low) & (q[coordinate] <= high)
    return alive


def path_points(
    model: Model, paths: LanePaths, frames: Frames, q: Float[Array, "nq lanes"]
) -> Points:
    """World positions of all path points."""
    location, slope = moving_locations(model, paths, frames, q)
    alive = conditions(model, paths, q)
    return placed_points(model.paths.layout, frames, paths.location, location, slope, alive)


def placed_points(
    layout: PathLayout,
    frames: Frames,
    location: Float[Array, "3 np #lanes"],
    moved: Float[Array, "3 nv lanes"],
    slope: Float[Array, "nv 3 nq lanes"],
    alive: dict[int, Bool[Array, " lanes"]],
) -> Points:
    """World positions of points fixed in bodies and of moving ones."""
    lanes = moved.shape[-1]
    local = jnp.broadcast_to(location, (3, layout.n_points, lanes))
    moving = [point for point, _ in layout.moving]
    if moving:
        table = np.arange(layout.n_points)
        table[moving] = layout.n_points + np.arange(len(moving))
        local = pick(jnp.concatenate([local, moved], axis=1), table)
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
    return values.at[..., np.asarray(rows, dtype=int), :].get(mode="promise_in_bounds")


def sums(values: Array, owner: Sequence[int], count: int) -> Array:
    """Sums of rows (last axis but one) that have the same owner."""
    rows = [[k for k, o in enumerate(owner) if o == number] for number in range(count)]
    width = max((len(row) for row in rows), default=0)
    padded = jnp.concatenate([values, jnp.zeros_like(values[..., :1, :])], axis=-2)
    table = np.full((max(width, 1), count), values.shape[-2])
    for number, row in enumerate(rows):
        table[: len(row), number] = row
    spread = pick(padded, table.reshape(-1))
    shape = (*values.shape[:-2], *table.shape, values.shape[-1])
    return jnp.sum(spread.reshape(shape), axis=-3)


def moving_locations(
    model: Model, paths: LanePaths, frames: Frames, q: Float[Array, "nq lanes"]
) -> tuple[Float[Array, "3 nv lanes"], Float[Array, "nv 3 nq lanes"]]:
    """Locations in body frames, and their derivatives turned into the ground frame."""
    value, slope = moving_jets(model, paths, q)
    return value, turned_slopes(model.paths.layout, frames, slope)


def moving_jets(
    model: Model, paths: LanePaths, q: Float[Array, "nq lanes"]
) -> tuple[Float[Array, "3 nv lanes"], Float[Array, "nv 3 nq lanes"]]:
    """Locations of moving points and their derivatives, in body frames."""
    moving, (nq, lanes) = model.paths.layout.moving, q.shape
    if not moving:
        return jnp.zeros((3, 0, lanes), q.dtype), jnp.zeros((0, 3, nq, lanes), q.dtype)
    values, slopes, order = [], [], []
    for rows in _alike(paths, [len(inputs) for _, inputs in moving]):
        inputs = np.asarray([moving[row][1] for row in rows])
        jets = _jets(paths, rows, q[inputs])
        values.append(jnp.broadcast_to(jets.value, (len(rows), 3, lanes)))
        # Columns of the coordinates that a point depends on, zero for the others.
        columns = np.full((len(rows), nq), inputs.shape[1])
        for n, row in enumerate(inputs):
            columns[n, row] = np.arange(len(row))
        padded = jnp.concatenate([jets.jacobian, jnp.zeros_like(jets.jacobian[:, :, :1])], axis=2)
        spread = jax.vmap(lambda x, y: x[:, y])(padded, columns)
        slopes.append(jnp.broadcast_to(spread, (len(rows), 3, nq, lanes)))
        order += rows
    back = np.argsort(order)
    value, slope = jnp.concatenate(values)[back], jnp.concatenate(slopes)[back]
    return jnp.moveaxis(value, 1, 0), slope


def turned_slopes(
    layout: PathLayout, frames: Frames, slope: Float[Array, "nv 3 nq lanes"]
) -> Float[Array, "nv 3 nq lanes"]:
    """From body frames into the ground frame."""
    if not layout.moving:
        return slope
    lanes = slope.shape[-1]
    still = jnp.eye(3, dtype=slope.dtype)[:, :, None]
    bodies = [layout.bodies[point] for point, _ in layout.moving]
    turned = [still if body < 0 else frames[body][:, :3] for body in bodies]
    frame = jnp.stack([jnp.broadcast_to(x, (3, 3, lanes)) for x in turned], axis=2)
    turned = turn(frame[:, :, :, None], jnp.moveaxis(slope, 1, 0))
    return jnp.moveaxis(turned, 0, 1)


def _alike(paths: LanePaths, sizes: list[int]) -> list[list[int]]:
    """Rows of moving points whose functions differ in their numbers alone."""
    groups: dict[Any, list[int]] = {}
    for row, (rhythm, size) in enumerate(zip(paths.moving, sizes, strict=True)):
        leaves, structure = jax.tree.flatten(rhythm)
        flags = None if paths.moving_batched is None else paths.moving_batched[row]
        shapes = tuple((x.shape, x.dtype) for x in leaves)
        groups.setdefault((structure, shapes, tuple(jax.tree.leaves(flags)), size), []).append(row)
    return list(groups.values())


def _jets(paths: LanePaths, rows: list[int], q: Float[Array, "n k lanes"]) -> Jet:
    """Jets of such functions, stacked."""
    flags = None if paths.moving_batched is None else paths.moving_batched[rows[0]]
    split = [eqx.partition(paths.moving[row], eqx.is_array) for row in rows]
    arrays = jax.tree.map(lambda *x: jnp.stack(x), *(part for part, _ in split))

    def jet(arrays: AbstractRhythm, q: Array) -> Jet:
        return lane_jet(eqx.combine(arrays, split[0][1]), q, jnp.zeros_like(q), flags)

    return jax.vmap(jet)(arrays, q)


class SurfaceFrames(eqx.Module):
    """Surfaces in the ground frame."""

    centre: Float[Array, "3 ns #lanes"]
    rotation: Float[Array, "3 3 ns #lanes"]
    size: Float[Array, "3 ns #lanes"]


def surface_frames(
    layout: PathLayout,
    frames: Frames,
    translation: Float[Array, "3 ns #lanes"],
    rotation: Float[Array, "3 3 ns #lanes"],
    size: Float[Array, "3 ns #lanes"],
) -> SurfaceFrames:
    """Surfaces that stand in bodies, given by translation and rotation there."""
    (lanes,) = jnp.broadcast_shapes((1,), *(frame.shape[-1:] for frame in frames.values()))
    still = jnp.eye(3, 4, dtype=size.dtype)[:, :, None]
    bodies = sorted({surface.body for surface in layout.surfaces})
    stacked = [frames[body] if body >= 0 else still for body in bodies]
    stacked = [jnp.broadcast_to(frame, (3, 4, lanes)) for frame in stacked]
    rows = [bodies.index(surface.body) for surface in layout.surfaces]
    frame = pick(jnp.stack(stacked, axis=2), rows)
    columns = [turn(frame[:, :3], rotation[:, k]) for k in range(3)]
    return SurfaceFrames(
        centre=turn(frame[:, :3], translation) + frame[:, 3],
        rotation=jnp.stack(columns, axis=1),
        size=size,
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
    placed = body_placements(model, batched)
    return carried_frames(model.topology, needed_bodies(model), transform, placed)


def carried_frames(
    topology: Topology,
    bodies: tuple[int, ...],
    transform: Float[Array, "nj 3 4 lanes"],
    placed: Float[Array, "nb 3 4 #lanes"],
) -> Frames:
    """Frames of some bodies, placed on their links."""
    links = topology.body_links
    moving = [body for body in bodies if links[body] >= 0]
    frames: Frames = {body: placed[body] for body in bodies if links[body] < 0}
    if moving:
        carriers = select(transform, tuple(links[body] for body in moving))
        found = compose(carriers, select(placed, tuple(moving)))
        frames |= {body: found[k] for k, body in enumerate(moving)}
    return frames
