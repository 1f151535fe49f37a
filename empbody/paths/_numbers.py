"""What lengths and moment arms of all units follow from, body by body."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..kinematics._lanes import mix
from ..kinematics._links import LaneTree, link_transforms, screws
from ..model import Model, PathLayout, Topology
from ..rhythms import Jet
from ._geometry import (
    Frames,
    LanePaths,
    carried_frames,
    conditions,
    moving_jets,
    moving_locations,
    needed_bodies,
    turned_slopes,
)
from ._plan import Plan, plan_of


class Structure(NamedTuple):
    """What is known before any number is."""

    plan: Plan
    layout: PathLayout
    bodies: tuple[int, ...]
    """Bodies in the order of their frames, the ground (-1) last."""
    lengths: bool
    """Whether lengths are asked for."""
    topology: Topology


class PathNumbers(NamedTuple):
    """Numbers of all paths at a pose; with lanes as the last axis, or for one sample without."""

    frames: Float[Array, "nb 3 4 *lanes"]
    """Of the bodies that paths need, in their order, the ground last."""
    location: Float[Array, "3 np *lanes"]
    alive: Bool[Array, "nc *lanes"] | None
    """For conditional points: whether the path goes through them."""
    moved: Float[Array, "3 nv *lanes"] | None
    """Locations of moving points in their bodies, and their slopes in the ground frame."""
    slope: Float[Array, "nv 3 nq *lanes"] | None
    translation: Float[Array, "3 ns *lanes"]
    """Of surfaces in their bodies; and so are their rotations."""
    rotation: Float[Array, "3 3 ns *lanes"]
    size: Float[Array, "3 ns *lanes"]
    motion: Float[Array, "nj 6 nq *lanes"] | None
    """Motion of each link per coordinate, about the origin; only if arms are asked for."""
    origin: Float[Array, "3 *lanes"] | None


def numbers_of(
    model: Model,
    paths: LanePaths,
    frames: Frames,
    q: Float[Array, "nq lanes"],
    lengths: bool,
    motion: Float[Array, "nj 6 nq lanes"] | None,
    origin: Float[Array, "3 lanes"] | None,
) -> tuple[Structure, PathNumbers]:
    layout, lanes = model.paths.layout, q.shape[-1]
    bodies = tuple(sorted(frames))
    alive = conditions(model, paths, q)
    moved = slope = None
    if layout.moving:
        moved, slope = moving_locations(model, paths, frames, q)
    numbers = PathNumbers(
        frames=_stacked(frames, bodies, q.dtype, lanes),
        location=paths.location,
        alive=jnp.stack([alive[p] for p, _ in layout.conditional]) if alive else None,
        moved=moved,
        slope=slope,
        translation=paths.surface_translation,
        rotation=paths.surface_rotation,
        size=paths.surface_size,
        motion=motion,
        origin=origin,
    )
    plan = plan_of(layout, model.topology)
    return Structure(plan, layout, (*bodies, -1), lengths, model.topology), numbers


class JointNumbers(NamedTuple):
    """The same before anything is known of the bodies: joint variables, and what the tree is
    made of."""

    value: Float[Array, "nj *lanes"]
    jacobian: Float[Array, "nj nq *lanes"] | None
    """Only if arms are asked for."""
    tree: LaneTree
    location: Float[Array, "3 np *lanes"]
    alive: Bool[Array, "nc *lanes"] | None
    moved: Float[Array, "3 nv *lanes"] | None
    slope: Float[Array, "nv 3 nq *lanes"] | None
    """In body frames."""
    translation: Float[Array, "3 ns *lanes"]
    rotation: Float[Array, "3 3 ns *lanes"]
    size: Float[Array, "3 ns *lanes"]

    def placed(
        self,
        frames: Float[Array, "nb 3 4 *lanes"],
        slope: Float[Array, "nv 3 nq *lanes"] | None,
        motion: Float[Array, "nj 6 nq *lanes"] | None,
        origin: Float[Array, "3 *lanes"] | None,
    ) -> PathNumbers:
        return PathNumbers(
            frames=frames,
            location=self.location,
            alive=self.alive,
            moved=self.moved,
            slope=slope,
            translation=self.translation,
            rotation=self.rotation,
            size=self.size,
            motion=motion,
            origin=origin,
        )


def joint_numbers_of(
    model: Model,
    paths: LanePaths,
    tree: LaneTree,
    jet: Jet,
    q: Float[Array, "nq lanes"],
    lengths: bool,
    arms: bool,
) -> tuple[Structure, JointNumbers]:
    layout = model.paths.layout
    alive = conditions(model, paths, q)
    moved = slope = None
    if layout.moving:
        moved, slope = moving_jets(model, paths, q)
    numbers = JointNumbers(
        value=jet.value,
        jacobian=jet.jacobian if arms else None,
        tree=tree,
        location=paths.location,
        alive=jnp.stack([alive[p] for p, _ in layout.conditional]) if alive else None,
        moved=moved,
        slope=slope,
        translation=paths.surface_translation,
        rotation=paths.surface_rotation,
        size=paths.surface_size,
    )
    plan, bodies = plan_of(layout, model.topology), (*needed_bodies(model), -1)
    return Structure(plan, layout, bodies, lengths, model.topology), numbers


def with_frames(structure: Structure, given: JointNumbers, lanes: int) -> PathNumbers:
    """Where the bodies are and how they move, for all lanes at once."""
    topology, layout = structure.topology, structure.layout
    transform = link_transforms(given.tree, given.value)
    moving = structure.bodies[:-1]
    frames = carried_frames(topology, moving, transform, given.tree.bodies)
    motion = origin = None
    if given.jacobian is not None:
        # Results do not depend on this point, so neither do their derivatives.
        origin = jax.lax.stop_gradient(transform[topology.order[-1], :, 3])
        screw = screws(given.tree, transform, origin[None])
        motion = mix(topology.ancestors, screw[:, :, None] * given.jacobian[:, None])
    slope = None if given.slope is None else turned_slopes(layout, frames, given.slope)
    return given.placed(_stacked(frames, moving, transform.dtype, lanes), slope, motion, origin)


def _stacked(
    frames: Frames, bodies: tuple[int, ...], dtype: jnp.dtype, lanes: int
) -> Float[Array, "nb 3 4 lanes"]:
    still = jnp.eye(3, 4, dtype=dtype)[:, :, None]
    stacked = [*(frames[body] for body in bodies), still]
    return jnp.stack([jnp.broadcast_to(frame, (3, 4, lanes)) for frame in stacked])
