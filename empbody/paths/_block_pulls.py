"""Lengths and moment arms of all units at a block of poses.

The same as `_string` and `_lengths`, written for machine code as `_block` is.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..native import side_by_side
from ._block import Block, Found, Slot
from ._block_crowd import contacts
from ._block_links import block_frames
from ._numbers import JointNumbers, PathNumbers, Structure
from ._plan import KINDS
from ._rounds import Row
from ._squeeze import Stretched, slopes
from ._surfaces import slot_sizes
from ._tables import Index, Poses, counted, entry, known, put, put_entry, take, take_plane
from ._vectors import cross, direction, dot, length, turn


def block_rows(
    structure: Structure, given: PathNumbers | JointNumbers, count: Index
) -> Float[Array, "rows nm poses"]:
    """Lengths of all units, then their arms, as asked for; poses are the last axis."""
    poses = Poses(max(x.shape[-1] for x in jax.tree.leaves(given)), count)
    if isinstance(given, JointNumbers):
        given = block_frames(structure, given, poses)
    return _Program(structure, given, poses).rows()


class _Program:
    def __init__(self, structure: Structure, given: PathNumbers, poses: Poses) -> None:
        self.structure, self.given, self.poses = structure, given, poses
        plan, layout = structure.plan, structure.layout
        self.dtype = given.location.dtype
        order = list(structure.bodies)
        self._point_frame = np.array([order.index(body) for body in layout.bodies])
        self._surface_frame = np.array([order.index(s.body) for s in layout.surfaces])
        self._condition = np.full(layout.n_points, -1)
        self._condition[[point for point, _ in layout.conditional]] = np.arange(
            len(layout.conditional)
        )
        self._moving = np.full(layout.n_points, -1)
        self._moving[[point for point, _ in layout.moving]] = np.arange(len(layout.moving))
        depth = max(len(candidates) for candidates in plan.before)
        self._before = np.array([[*c, *[c[-1]] * (depth - len(c))] for c in plan.before])
        self._kind = np.array([KINDS.index(surface.kind) for surface in layout.surfaces])
        self._slot_surface = np.array([slot.surface for slot in plan.slots])
        self._slot_row = np.array(plan.rows)
        self._units = np.array([layout.unit_of(point) for point in plan.stretches])
        self._world = self._points()
        self._surfaces = self._placed()
        self.block = Block(plan, self.poses, self._fetch, self.dtype)

    # Points and surfaces in the ground's axes, seen from the origin of motions where forces are
    # asked for, so that moments about it need not be told where it is.

    def _frame(self, row: Index, pose: Index) -> Float[Array, "3 4 1"]:
        frame = take_plane(self.given.frames, row, pose)
        if self.given.origin is None:
            return frame
        origin = take(self.given.origin[:, None], jnp.zeros((), jnp.int32), pose)
        return jnp.concatenate([frame[:, :3], (frame[:, 3] - origin)[:, None]], axis=1)

    def _points(self) -> Float[Array, "3 np poses"]:
        given, count = self.given, len(self._point_frame)

        def place(point: Index, pose: Index, world: Array, local: Array) -> Array:
            frame = self._frame(known(self._point_frame, point), pose)
            return put(world, point, pose, turn(frame[:, :3], local) + frame[:, 3])

        def fixed(point: Index, pose: Index, world: Array) -> Array:
            return place(point, pose, world, take(given.location, point, pose))

        empty = lax.empty((3, count, self.poses.size), self.dtype)
        world = self.poses.each_of(0, count, fixed, empty)
        if given.moved is None:
            return world
        points, moved = np.flatnonzero(self._moving >= 0), given.moved
        rows = self._moving[points]

        def moving(k: Index, pose: Index, world: Array) -> Array:
            local = take(moved, known(rows, k), pose)
            return place(known(points, k), pose, world, local)

        return self.poses.each_of(0, len(points), moving, world)

    def _placed(self) -> Float[Array, "12 ns poses"]:
        """Centre and rotation of all surfaces."""
        given, count = self.given, len(self._surface_frame)

        def place(k: Index, pose: Index, table: Array) -> Array:
            frame = self._frame(known(self._surface_frame, k), pose)
            matrix, own = frame[:, :3], take(given.rotation, k, pose)
            centre = turn(matrix, take(given.translation, k, pose)) + frame[:, 3]
            columns = [turn(matrix, own[:, axis]) for axis in range(3)]
            rotation = jnp.stack(columns, axis=1).reshape(9, 1)
            return put(table, k, pose, jnp.concatenate([centre, rotation]))

        empty = lax.empty((12, count, self.poses.size), self.dtype)
        return self.poses.each_of(0, count, place, empty)

    def _present(self, point: Index, pose: Index) -> Bool[Array, ""]:
        if self.given.alive is None:
            return point >= 0
        row = known(self._condition, point)
        return (row < 0) | take(self.given.alive, jnp.maximum(row, 0), pose)[0]

    def _begin(self, stretch: Index, pose: Index) -> Index:
        """The point where a stretch begins: the last one before that is alive."""
        candidates = self._before.T
        point = known(candidates[-1], stretch)
        for nearer in candidates[-2::-1]:
            other = known(nearer, stretch)
            point = jnp.where(self._present(other, pose), other, point)
        return point

    def _end(self, stretch: Index) -> Index:
        return known(self.structure.plan.stretches, stretch)

    def _fetch(self, k: Index, pose: Index) -> Slot:
        surface, stretch = known(self._slot_surface, k), known(self._slot_row, k)
        column, end = take(self._surfaces, surface, pose), self._end(stretch)
        kind = known(self._kind, surface)
        size, half = slot_sizes(
            take(self.given.size, surface, pose),
            *((kind == KINDS.index(name))[None] for name in ("cylinder", "sphere", "torus")),
        )
        return Slot(
            centre=column[:3],
            rotation=column[3:].reshape(3, 3, 1),
            size=size,
            half=half,
            begin=take(self._world, self._begin(stretch, pose), pose),
            end=take(self._world, end, pose),
            exists=self._present(end, pose)[None],
        )

    # Forces.

    def rows(self) -> Float[Array, "rows nm poses"]:
        plan, layout, poses = self.structure.plan, self.structure.layout, self.poses
        motion = self.given.motion
        count = self.structure.lengths + (0 if motion is None else motion.shape[2])
        stretches = len(plan.stretches)
        out = jnp.zeros((count, layout.n_units, poses.size), self.dtype)
        lifted = jnp.zeros((stretches, poses.size), self.dtype)
        if plan.slots:
            out, lifted = self._over_surfaces(contacts(self.block), out, lifted)

        def straight(row: Index, pose: Index, parts: Array) -> Array:
            there = self._present(self._end(row), pose) & (take(lifted, row, pose)[0] < 0.5)
            return put(parts, row, pose, jnp.where(there, self._straight(row, pose), 0.0))

        parts = lax.empty((count, stretches, poses.size), self.dtype)
        parts = poses.each_of(0, stretches, straight, parts)

        def add(row: Index, out: Array) -> Array:
            unit = known(self._units, row)

            def one(pose: Index, out: Array) -> Array:
                return put(out, unit, pose, take(out, unit, pose) + take(parts, row, pose))

            return poses.each(one, out)

        return counted(0, stretches, add, out)

    def _over_surfaces(self, found: Found, out: Array, lifted: Array) -> tuple[Array, Array]:
        slots, poses = len(self.structure.plan.slots), self.poses

        def note(k: Index, pose: Index, lists: tuple) -> tuple:
            def enter(lists: tuple) -> tuple:
                touching, n = lists
                return put_entry(touching, n, jnp.stack([k, pose])), n + 1

            return lax.cond(take(found.on, k, pose)[0] > 0.5, enter, lambda lists: lists, lists)

        none, room = jnp.zeros((), jnp.int32), slots * poses.size + 1
        touching = lax.empty((2, room), jnp.int32)
        touching, n = poses.in_turn(0, slots, note, (touching, none))

        def over(t: Index, parts: Array) -> Array:
            k, pose = entry(touching, t)
            return put_entry(parts, t, self._over(found, k, pose))

        parts = side_by_side(n, over, lax.empty((out.shape[0], room), self.dtype))

        def add(t: Index, tables: tuple) -> tuple:
            out, lifted = tables
            k, pose = entry(touching, t)
            row = known(self._slot_row, k)
            unit = known(self._units, row)
            own = take(out, unit, pose) + entry(parts, t)[:, None]
            return put(out, unit, pose, own), put(lifted, row, pose, jnp.ones((), self.dtype))

        return counted(0, n, add, (out, lifted))

    def _straight(self, row: Index, pose: Index) -> Float[Array, "rows 1"]:
        begin, end = self._begin(row, pose), self._end(row)
        line = take(self._world, end, pose) - take(self._world, begin, pose)
        along = direction(line)
        parts = [length(line)] if self.structure.lengths else []
        if self.given.motion is not None:
            pull = self._on_point(begin, pose, along) + self._on_point(end, pose, -along)
            parts.append(pull)
        return jnp.concatenate(parts)[:, None]

    def _over(self, found: Found, k: Index, pose: Index) -> Float[Array, " rows"]:
        """A slot in contact."""
        plan = self.structure.plan
        row = known(self._slot_row, k)
        surfaces, slot = self.block.slot(k, pose)
        own = take(found.rows, k, pose)
        p, q, arc = own[Row.p], own[Row.q], own[Row.arc]
        came, went = (own[n, 0].astype(jnp.int32) for n in (Row.came, Row.went))
        first, last = came < 0, went < 0
        earlier, later = (take(found.rows, jnp.maximum(n, 0), pose) for n in (came, went))
        before = jnp.where(first, slot.begin, earlier[Row.q])
        after = jnp.where(last, slot.end, later[Row.p])
        parts = []
        if self.structure.lengths:
            parts.append(length(p - before) + arc + jnp.where(last, length(after - q), 0.0))
        if self.given.motion is not None:
            comes, goes = direction(before - p), direction(after - q)
            second = take(found.second, k, pose) > 0.5

            def squeezed() -> Array:
                here = jnp.ones_like(second)
                touches = (p, q, arc, before, after)
                strings = Stretched(
                    surfaces, slot.begin, slot.end, comes, goes, touches, here, second
                )
                return slopes(strings)

            # Where all of the surface is there, its size does not depend on the ends.
            held = second & (dot(surfaces.side, surfaces.side) > 0.0)
            whole = (take(found.share, k, pose) == 1.0) & ~held
            extra = lax.cond(whole[0], lambda: jnp.zeros((3, 2, 1), self.dtype), squeezed)
            extra_a, extra_b = extra[:, 0], extra[:, 1]
            at_begin = jnp.where(first, -comes, 0.0) - extra_a
            at_end = jnp.where(last, -goes, 0.0) - extra_b
            link = known(plan.surface_links, known(self._slot_surface, k))
            moment = cross(p, comes) + cross(q, goes)
            moment = moment + cross(slot.begin, extra_a) + cross(slot.end, extra_b)
            work = self._on_link(link, pose, moment, comes + goes + extra_a + extra_b)
            work = work + self._on_point(self._begin(row, pose), pose, at_begin)
            parts.append(work + self._on_point(self._end(row), pose, at_end))
        return jnp.concatenate(parts)

    def _on_point(
        self, point: Index, pose: Index, force: Float[Array, "3 1"]
    ) -> Float[Array, " nq"]:
        """Generalised forces of a force on a path point."""
        link = known(self.structure.plan.links, point)
        place = take(self._world, point, pose)
        work = self._on_link(link, pose, cross(place, force), force)
        slope = self.given.slope
        if slope is None:
            return work
        row = known(self._moving, point)

        def moving() -> Array:
            return dot(take_plane(slope, row, pose)[..., 0], force)

        return work + lax.cond(row >= 0, moving, lambda: jnp.zeros_like(work))

    def _on_link(
        self,
        link: Int[Array, ""],
        pose: Index,
        moment: Float[Array, "3 1"],
        force: Float[Array, "3 1"],
    ) -> Float[Array, " nq"]:
        motion = self.given.motion
        assert motion is not None
        own = take_plane(motion, jnp.maximum(link, 0), pose)[..., 0]
        work = dot(own[:3], moment) + dot(own[3:], force)
        return jnp.where(link >= 0, work, 0.0)
