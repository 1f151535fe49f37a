"""Lengths and moment arms of all units at one pose, slot by slot and stretch by stretch.

The same as `_string` and `_lengths`, written for machine code as `_pose` is.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ._numbers import PathNumbers, Structure
from ._pose import SECOND, SHARE, Pose, Slot, at, column, contact_table
from ._rounds import Row
from ._squeeze import Stretched, slopes
from ._surfaces import slot_sizes
from ._vectors import cross, direction, dot, length, turn


def pose_rows(structure: Structure, given: PathNumbers) -> Float[Array, "rows nm"]:
    """Lengths of all units at one pose, then their arms, as asked for."""
    return _Program(structure, given).rows()


class _Program:
    def __init__(self, structure: Structure, given: PathNumbers) -> None:
        self.structure, self.given = structure, given
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
        self._kind = np.array([surface.kind for surface in layout.surfaces])
        self._world = self._points()
        self._surfaces = self._placed()
        self.pose = Pose(plan, plan.has, self._fetch)

    # Points and surfaces in the ground frame.

    def _frame(self, row: Int[Array, ""]) -> Float[Array, "3 4"]:
        return lax.dynamic_index_in_dim(self.given.frames, row, 0, False)

    def _points(self) -> Float[Array, "3 np"]:
        given, frames = self.given, self._point_frame

        def place(point: Array, world: Array, local: Array) -> Array:
            frame = self._frame(_number(frames, point))
            put = turn(frame[:, :3, None], local) + frame[:, 3:]
            return lax.dynamic_update_slice_in_dim(world, put, point, 1)

        count = len(frames)
        world = jnp.zeros((3, count), self.dtype)
        world = lax.fori_loop(
            0, count, lambda k, world: place(k, world, at(given.location, k)), world
        )
        if given.moved is None:
            return world
        points = np.flatnonzero(self._moving >= 0)
        rows = self._moving[points]
        moved = given.moved
        return lax.fori_loop(
            0,
            len(points),
            lambda k, world: place(_number(points, k), world, at(moved, _number(rows, k))),
            world,
        )

    def _placed(self) -> Float[Array, "12 ns"]:
        """Centre and rotation of all surfaces."""
        given, count = self.given, len(self._surface_frame)

        def place(k: Array, table: Array) -> Array:
            frame = self._frame(_number(self._surface_frame, k))
            matrix, own = frame[:, :3, None], at(given.rotation, k)
            centre = turn(matrix, at(given.translation, k)) + frame[:, 3:]
            columns = [turn(matrix, own[:, axis]) for axis in range(3)]
            rotation = jnp.stack(columns, axis=1).reshape(9, 1)
            column = jnp.concatenate([centre, rotation])
            return lax.dynamic_update_slice_in_dim(table, column, k, 1)

        return lax.fori_loop(0, count, place, jnp.zeros((12, count), self.dtype))

    def _present(self, point: Int[Array, ""]) -> Bool[Array, ""]:
        if self.given.alive is None:
            return point >= 0
        row = _number(self._condition, point)
        return (row < 0) | at(self.given.alive, jnp.maximum(row, 0))[0]

    def _begin(self, stretch: Int[Array, ""]) -> Int[Array, ""]:
        """The point where a stretch begins: the last one before that is alive."""
        candidates = self._before.T
        point = _number(candidates[-1], stretch)
        for nearer in candidates[-2::-1]:
            other = _number(nearer, stretch)
            point = jnp.where(self._present(other), other, point)
        return point

    def _end(self, stretch: Int[Array, ""]) -> Int[Array, ""]:
        return _number(np.array(self.structure.plan.stretches), stretch)

    def _fetch(self, k: Int[Array, ""]) -> Slot:
        plan = self.structure.plan
        surface = _number(np.array([slot.surface for slot in plan.slots]), k)
        stretch = _number(np.array(plan.rows), k)
        column, end = at(self._surfaces, surface), self._end(stretch)
        size, half = slot_sizes(
            at(self.given.size, surface),
            at(self._kind == "cylinder", surface),
            at(self._kind == "torus", surface),
        )
        return Slot(
            centre=column[:3],
            rotation=column[3:].reshape(3, 3, 1),
            size=size,
            half=half,
            begin=at(self._world, self._begin(stretch)),
            end=at(self._world, end),
            exists=self._present(end)[None],
        )

    # Forces.

    def rows(self) -> Float[Array, "rows nm"]:
        structure = self.structure
        plan, layout = structure.plan, structure.layout
        motion = self.given.motion
        count = structure.lengths + (0 if motion is None else motion.shape[-1])
        out = jnp.zeros((count, layout.n_units), self.dtype)
        lifted = jnp.zeros((1, len(plan.stretches)), self.dtype)
        if plan.slots:
            table = contact_table(self.pose, self.dtype)

            def over(k: Array, state: tuple) -> tuple:
                on = column(table, k)[Row.on] > 0.5
                return lax.cond(on, lambda state: self._over(table, k, *state), _same, state)

            out, lifted = lax.fori_loop(0, len(plan.slots), over, (out, lifted))

        def straight(row: Array, out: Array) -> Array:
            there = self._present(self._end(row)) & (at(lifted, row)[0, 0] < 0.5)
            return lax.cond(there, lambda out: self._straight(row, out), lambda out: out, out)

        return lax.fori_loop(0, len(plan.stretches), straight, out)

    def _straight(self, row: Int[Array, ""], out: Array) -> Array:
        begin, end = self._begin(row), self._end(row)
        line = at(self._world, end) - at(self._world, begin)
        along = direction(line)
        parts = [length(line)] if self.structure.lengths else []
        if self.given.motion is not None:
            parts.append(self._on_point(begin, along) + self._on_point(end, -along))
        return self._added(out, self._unit(row), parts)

    def _over(
        self, table: Array, k: Int[Array, ""], out: Array, lifted: Array
    ) -> tuple[Array, Array]:
        """A slot in contact."""
        plan = self.structure.plan
        row = _number(np.array(plan.rows), k)
        surfaces, slot = self.pose.slot(k)
        own = column(table, k)[:, None]
        p, q, arc = own[Row.p], own[Row.q], own[Row.arc]
        came, went = (own[n, 0].astype(jnp.int32) for n in (Row.came, Row.went))
        first, last = came < 0, went < 0
        earlier, later = (column(table, jnp.maximum(n, 0))[:, None] for n in (came, went))
        before = jnp.where(first, slot.begin, earlier[Row.q])
        after = jnp.where(last, slot.end, later[Row.p])
        parts = []
        if self.structure.lengths:
            parts.append(length(p - before) + arc + jnp.where(last, length(after - q), 0.0))
        if self.given.motion is not None:
            comes, goes = direction(before - p), direction(after - q)
            second = own[SECOND] > 0.5
            touches = (p, q, arc, slot.begin, slot.end, before, after)

            def squeezed() -> Array:
                p, q, arc, begin, end, before, after = touches
                found = (p, q, arc, before, after)
                here = jnp.ones_like(second)
                return slopes(Stretched(surfaces, begin, end, comes, goes, found, here, second))

            # Where all of the surface is there, its size does not depend on the ends.
            held = second & (dot(surfaces.side, surfaces.side) > 0.0)
            whole = (own[SHARE] == 1.0) & ~held
            extra = lax.cond(whole[0], lambda: jnp.zeros((3, 2, 1), self.dtype), squeezed)
            extra_a, extra_b = extra[:, 0], extra[:, 1]
            at_begin = jnp.where(first, -comes, 0.0) - extra_a
            at_end = jnp.where(last, -goes, 0.0) - extra_b
            surface = _number(np.array([slot.surface for slot in plan.slots]), k)
            link = _number(np.array(plan.surface_links), surface)
            origin = self._origin
            moment = cross(p - origin, comes) + cross(q - origin, goes)
            moment = moment + cross(slot.begin - origin, extra_a)
            moment = moment + cross(slot.end - origin, extra_b)
            work = self._on_link(link, moment, comes + goes + extra_a + extra_b)
            work = work + self._on_point(self._begin(row), at_begin)
            parts.append(work + self._on_point(self._end(row), at_end))
        lifted = lax.dynamic_update_slice_in_dim(lifted, jnp.ones((1, 1), self.dtype), row, 1)
        return self._added(out, self._unit(row), parts), lifted

    def _unit(self, row: Int[Array, ""]) -> Int[Array, ""]:
        layout, plan = self.structure.layout, self.structure.plan
        return _number(np.array([layout.unit_of(point) for point in plan.stretches]), row)

    @property
    def _origin(self) -> Float[Array, "3 1"]:
        assert self.given.origin is not None
        return self.given.origin[:, None]

    def _on_point(self, point: Int[Array, ""], force: Float[Array, "3 1"]) -> Float[Array, " nq"]:
        """Generalised forces of a force on a path point."""
        link = _number(np.array(self.structure.plan.links), point)
        arm = at(self._world, point) - self._origin
        work = self._on_link(link, cross(arm, force), force)
        slope = self.given.slope
        if slope is None:
            return work
        row = _number(self._moving, point)

        def moving() -> Array:
            own = lax.dynamic_index_in_dim(slope, row, 0, False)
            return dot(own, force)

        return work + lax.cond(row >= 0, moving, lambda: jnp.zeros_like(work))

    def _on_link(
        self, link: Int[Array, ""], moment: Float[Array, "3 1"], force: Float[Array, "3 1"]
    ) -> Float[Array, " nq"]:
        motion = self.given.motion
        assert motion is not None

        def work() -> Array:
            own = lax.dynamic_index_in_dim(motion, link, 0, False)
            return dot(own[:3], moment) + dot(own[3:], force)

        return lax.cond(link >= 0, work, lambda: jnp.zeros(motion.shape[-1], self.dtype))

    def _added(self, out: Array, unit: Int[Array, ""], parts: list[Array]) -> Array:
        more = jnp.concatenate(parts)[:, None]
        return lax.dynamic_update_slice_in_dim(out, at(out, unit) + more, unit, 1)


def _number(table: np.ndarray, k: Int[Array, ""]) -> Int[Array, ""]:
    return lax.dynamic_index_in_dim(jnp.asarray(table, jnp.int32), k, 0, False)


def _same(state: tuple) -> tuple:
    return state
