"""Where the links and bodies of a block of poses are, and how they move, for machine code.

The same as `kinematics._links` and `_numbers.with_frames`, link after link.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ._numbers import JointNumbers, PathNumbers, Structure
from ._tables import Index, Poses, counted, known, put_plane, take, take_plane
from ._vectors import cross, turn


def block_frames(structure: Structure, given: JointNumbers, poses: Poses) -> PathNumbers:
    topology, dtype = structure.topology, given.location.dtype
    links = _links(structure, given, poses)
    motion = origin = None
    if given.jacobian is not None:
        motion, origin = _motion(structure, given, links, poses)
    placed, bodies = given.tree.bodies, np.array(structure.bodies)
    carriers = np.array([-1 if body < 0 else topology.body_links[body] for body in bodies])

    def place(row: Index, pose: Index, frames: Array) -> Array:
        body, link = known(bodies, row), known(carriers, row)
        own = take_plane(placed, jnp.maximum(body, 0), pose)
        moved = _composed(take_plane(links, jnp.maximum(link, 0), pose), own)
        frame = jnp.where(link >= 0, moved, own)
        return put_plane(frames, row, pose, jnp.where(body >= 0, frame, _still(dtype)))

    frames = lax.empty((len(bodies), 3, 4, poses.size), dtype)
    frames = poses.each_of(0, len(bodies), place, frames)
    slope = given.slope
    if slope is not None:
        layout, local = structure.layout, slope
        owners = [layout.bodies[point] for point, _ in layout.moving]
        rows = np.array([list(structure.bodies).index(body) for body in owners])

        def turned(k: Index, pose: Index, table: Array) -> Array:
            frame = take_plane(frames, known(rows, k), pose)
            new = turn(frame[:, :3, None], take_plane(local, k, pose))
            return put_plane(table, k, pose, new)

        slope = lax.empty((len(rows), *local.shape[1:3], poses.size), dtype)
        slope = poses.each_of(0, len(rows), turned, slope)
    return given.placed(frames, slope, motion, origin)


def _still(dtype: jnp.dtype) -> Float[Array, "3 4 1"]:
    return jnp.eye(3, 4, dtype=dtype)[:, :, None]


def _composed(a: Float[Array, "3 4 1"], b: Float[Array, "3 4 1"]) -> Float[Array, "3 4 1"]:
    columns = [turn(a[:, :3], b[:, k]) for k in range(4)]
    return jnp.stack([*columns[:3], columns[3] + a[:, 3]], axis=1)


def _links(structure: Structure, given: JointNumbers, poses: Poses) -> Float[Array, "nj 3 4 poses"]:
    """Ground-to-link transforms [R | p]."""
    topology, tree = structure.topology, given.tree
    revolute = np.array(topology.revolute)
    value = given.value[None]

    def local(link: Index, pose: Index, table: Array) -> Array:
        f = take(value, link, pose)
        turns = (known(revolute, link) > 0)[None, None]
        angle, slide = (x[None] for x in (jnp.where(turns, f, 0.0), jnp.where(turns, 0.0, f)))
        matrix = take_plane(tree.placement, link, pose)
        matrix = matrix + take_plane(tree.sine, link, pose) * jnp.sin(angle)
        matrix = matrix + take_plane(tree.versine, link, pose) * (1.0 - jnp.cos(angle))
        offset = take_plane(tree.translation[:, :, None], link, pose)
        offset = offset + take_plane(tree.slide[:, :, None], link, pose) * slide
        return put_plane(table, link, pose, jnp.concatenate([matrix, offset], axis=1))

    empty = lax.empty((topology.n_links, 3, 4, poses.size), given.location.dtype)
    own = poses.each_of(0, topology.n_links, local, empty)

    def outwards(k: Index, table: Array) -> Array:
        link = known(topology.order, k)
        parent = known(topology.parents, link)

        def one(pose: Index, table: Array) -> Array:
            here = take_plane(table, link, pose)
            moved = _composed(take_plane(table, jnp.maximum(parent, 0), pose), here)
            return put_plane(table, link, pose, jnp.where(parent >= 0, moved, here))

        return poses.each(one, table)

    return counted(0, topology.n_links, outwards, own)


def _motion(
    structure: Structure, given: JointNumbers, links: Array, poses: Poses
) -> tuple[Float[Array, "nj 6 nq poses"], Float[Array, "3 poses"]]:
    """Motion of each link per coordinate, about an origin near the mechanism, and the latter."""
    topology, jacobian = structure.topology, given.jacobian
    assert jacobian is not None
    nq, dtype = jacobian.shape[1], links.dtype
    revolute = np.array(topology.revolute)
    last = jnp.asarray(topology.order[-1], jnp.int32)
    zero = jnp.zeros((), jnp.int32)

    def centre(pose: Index, table: Array) -> Array:
        place = take_plane(links, last, pose)[:, 3]
        return lax.dynamic_update_slice(table, place, (zero, pose), allow_negative_indices=False)

    origin = poses.each(centre, lax.empty((3, poses.size), dtype))

    def outwards(k: Index, table: Array) -> Array:
        link = known(topology.order, k)
        parent = known(topology.parents, link)

        def one(pose: Index, table: Array) -> Array:
            here = take_plane(links, link, pose)
            axis = take_plane(given.tree.axis[:, :, None], link, pose)[:, 0]
            axis = turn(here[:, :3], axis)
            start = lax.dynamic_slice(origin, (zero, pose), (3, 1), allow_negative_indices=False)
            arm = cross(here[:, 3] - start, axis)
            turns = known(revolute, link) > 0
            screw = jnp.concatenate([jnp.where(turns, axis, 0.0), jnp.where(turns, arm, axis)])
            rates = take_plane(jacobian[:, None], link, pose)[0]
            own = screw[:, None] * rates[None]
            above = take_plane(table, jnp.maximum(parent, 0), pose)
            return put_plane(table, link, pose, jnp.where(parent >= 0, above + own, own))

        return poses.each(one, table)

    empty = lax.empty((topology.n_links, 6, nq, poses.size), dtype)
    return counted(0, topology.n_links, outwards, empty), origin
