"""Torques for given accelerations, and the accelerations that they give: one look at a model."""

import functools
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..dynamics._assemble import composite_is_cheaper, mass_and_bias
from ..dynamics._batching import lanes_under_vmap
from ..dynamics._bodies import LaneBodies
from ..dynamics._solve import solve_positive
from ..dynamics._terms import _is_identity, _lane_forces
from ..kinematics._lanes import lanes_last
from ..kinematics._links import LaneTree, lane_jet, link_motion
from ..model import Model


def forced(
    model: Model,
    q: Float[Array, " nq"],
    qd: Float[Array, " nq"],
    wanted: Float[Array, " nq"],
    *,
    t: Any = 0.0,
) -> tuple[Float[Array, " nq"], Float[Array, " nq"]]:
    """q̈ and τ of inverse dynamics followed by forward dynamics, M, N and G made once.

    τ = M `wanted` + N q̇ - G - force elements; q̈ is the model's answer to it, equal to
    `wanted` up to rounding.
    """
    time = jnp.asarray(t, dtype=q.dtype)
    elements = bool(model.forces)
    respond = lanes_under_vmap(
        functools.partial(_respond, elements=elements),
        batches_well=not composite_is_cheaper(model.topology, model.nq, _is_identity(model)),
        alone=functools.partial(_respond, elements=elements, stored=False),
    )
    both = respond((model, q, qd, wanted, time))
    return both[: model.nq], both[model.nq :]


def _respond(
    arguments: Any, batched: Any, size: int, *, elements: bool, stored: bool = True
) -> Float[Array, "rows lanes"]:
    """q̈ and τ below each other, lanes last; `stored` is that of `LaneTree`."""
    model, *state = arguments
    of_model, *flags = batched
    state = [lanes_last(x, flag) for x, flag in zip(state, flags, strict=True)]
    q, qd, wanted, t = (jnp.broadcast_to(x, (*x.shape[:-1], size)) for x in state)
    jet = lane_jet(model.rhythm, q, qd, of_model.rhythm)
    tree = LaneTree.of(model, of_model, stored)
    motion = link_motion(tree, q, qd, jet, _is_identity(model))
    mass, need = mass_and_bias(LaneBodies.of(model, of_model), motion)
    own = _lane_forces(model, of_model, motion, t) if elements else jnp.zeros_like(q)
    tau = jnp.sum(mass * wanted[None], axis=1) + need - own
    return jnp.concatenate([solve_positive(mass, tau + own - need), tau])
