"""Rates of the state of a simulation."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..dynamics import forward_dynamics
from ..model import Model
from ..muscles import HillState
from ..muscles._forces import without_muscles
from ._feedback import AbstractFeedback
from ._muscles import Drive, as_state, as_vector, muscle_rates


class Args(eqx.Module):
    """What the rates depend on besides time and state."""

    model: Model
    tau: Any
    drive: Drive | None
    like: HillState | None
    """What the muscles' part of the state holds."""
    moving: Bool[Array, ""]


@eqx.filter_jit
def rates(t: Any, y: Array, args: Args) -> Array:
    """(q̇, q̈, ...) of the state (q, q̇, ...); zero throughout when the start is not usable."""
    nq = args.model.nq
    q, qd = y[:nq], y[nq : 2 * nq]
    tau = args.tau
    if isinstance(tau, AbstractFeedback):
        qdd, _ = tau.respond(args.model, t, q, qd)
        return jnp.where(args.moving, jnp.concatenate([qd, qdd]), 0.0)
    if callable(tau):
        tau = jnp.asarray(tau(t, q, qd), dtype=y.dtype)
        if tau.shape != q.shape:
            raise ValueError(f"tau(t, q, qd) has shape {tau.shape} for {q.shape[0]} coordinates")
    if args.drive is None or args.like is None:
        qdd = forward_dynamics(args.model, q, qd, tau, t=t)
        return jnp.where(args.moving, jnp.concatenate([qd, qdd]), 0.0)
    state = as_state(args.like, y[2 * nq :])
    pull, rate = muscle_rates(args.model, args.drive, t, q, qd, state)
    tau = pull if tau is None else pull + tau
    qdd = forward_dynamics(without_muscles(args.model), q, qd, tau, t=t)
    return jnp.where(args.moving, jnp.concatenate([qd, qdd, as_vector(rate)]), 0.0)


def unpacking(args: Args) -> tuple[Callable, list[Array]]:
    """The same rates with the arrays of `args` in a list: Diffrax 0.7.2 cannot backsolve
    with an empty tuple, such as a model's forces may be, among the arguments."""
    arrays, rest = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def field(t: Any, y: Array, leaves: list[Array]) -> Array:
        return rates(t, y, eqx.combine(jax.tree.unflatten(structure, leaves), rest))

    return field, leaves
