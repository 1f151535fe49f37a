"""Markers on a model: where they are, and how they move with the coordinates."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics import on_link
from ..kinematics._lanes import cross, mix, rotate, select
from ..kinematics._links import LaneTree, lane_jet, link_transforms, screws
from ..model import Model

Places = Mapping[str, tuple[str, Any]]
"""Body and point in the body's frame (m), by marker."""


class MarkerSet(eqx.Module):
    """Points fixed on links of a model; link -1 is the ground."""

    local: Float[Array, "n 3"]
    """In the link's frame (m)."""
    names: tuple[str, ...] = eqx.field(static=True)
    links: tuple[int, ...] = eqx.field(static=True)

    @staticmethod
    def of(model: Model, names: Sequence[str], places: Places | None = None) -> "MarkerSet":
        """The named markers of a model, or of `places` instead of its own."""
        known = model_markers(model) if places is None else places
        missing = [name for name in names if name not in known]
        if missing:
            raise ValueError(
                f"the model has no marker {missing[0]!r}; its markers: {', '.join(known) or 'none'}"
            )
        found = [on_link(model, *known[name]) for name in names]
        return MarkerSet(
            local=jnp.stack([local for _, local in found]),
            names=tuple(names),
            links=tuple(link for link, _ in found),
        )


def model_markers(model: Model) -> dict[str, tuple[str, Any]]:
    """The model's own markers: body and point in its frame, by name."""
    return {marker.name: (marker.body, marker.location) for marker in model.markers}


def marker_motion(
    model: Model, markers: MarkerSet, q: Float[Array, "nq lanes"]
) -> tuple[Float[Array, "n 3 lanes"], Float[Array, "n 3 nq lanes"]]:
    """Positions in the ground frame (m) and their derivatives to q, lanes last.

    The derivative passes through the rhythm, so coupled joints cost one small product.
    """
    jet = lane_jet(model.rhythm, q, jnp.zeros_like(q))
    tree = LaneTree.of(model)
    transform = link_transforms(tree, jet.value)
    origin = jnp.zeros((1, 3, 1), dtype=q.dtype)
    screw = screws(tree, transform, origin)
    carriers = sorted({link for link in markers.links if link >= 0})
    row = {link: i for i, link in enumerate(carriers)}
    lanes, n = q.shape[-1], len(markers.links)
    if not carriers:  # all on the ground
        still = jnp.broadcast_to(markers.local[:, :, None], (n, 3, lanes))
        return still, jnp.zeros((n, 3, q.shape[0], lanes), dtype=q.dtype)
    carried = np.asarray(model.topology.ancestors)[carriers]
    swept = mix(carried, screw[:, :, None] * jet.jacobian[:, None])
    placed = select(transform, tuple(carriers))
    rows = tuple(row.get(link, 0) for link in markers.links)
    on_ground = np.asarray([link < 0 for link in markers.links])
    at = select(placed, rows)
    local = markers.local[:, :, None]
    position = rotate(at[:, :, :3], local) + at[:, :, 3]
    motion = select(swept, rows)
    jacobian = motion[:, 3:] + cross(motion[:, :3], position[:, :, None])
    if on_ground.any():
        fixed = jnp.asarray(on_ground)
        position = jnp.where(fixed[:, None, None], local, position)
        jacobian = jnp.where(fixed[:, None, None, None], 0.0, jacobian)
    return position, jacobian


@eqx.filter_jit
def marker_positions(
    model: Model, markers: MarkerSet, q: Float[Array, "rows nq"]
) -> Float[Array, "rows n 3"]:
    """Where the markers are (m, ground frame) in every pose."""
    position, _ = marker_motion(model, markers, jnp.moveaxis(q, 0, -1))
    return jnp.moveaxis(position, -1, 0)
