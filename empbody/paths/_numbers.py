"""What lengths and moment arms of all units follow from, body by body."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..model import Model, PathLayout
from ._geometry import Frames, LanePaths, conditions, moving_locations
from ._plan import Plan, plan_of


class Structure(NamedTuple):
    """What is known before any number is."""

    plan: Plan
    layout: PathLayout
    bodies: tuple[int, ...]
    """Bodies in the order of their frames, the ground (-1) last."""
    lengths: bool
    """Whether lengths are asked for."""


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
    bodies = sorted(frames)
    still = jnp.eye(3, 4, dtype=q.dtype)[:, :, None]
    stacked = [*(frames[body] for body in bodies), still]
    alive = conditions(model, paths, q)
    moved = slope = None
    if layout.moving:
        moved, slope = moving_locations(model, paths, frames, q)
    numbers = PathNumbers(
        frames=jnp.stack([jnp.broadcast_to(frame, (3, 4, lanes)) for frame in stacked]),
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
    return Structure(plan, layout, (*bodies, -1), lengths), numbers
