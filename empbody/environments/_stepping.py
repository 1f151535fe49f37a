"""A model moved over one control step by fixed steps, whatever it is given."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..dynamics import forward_dynamics
from ..model import Model
from ..muscles import HillState
from ..muscles._forces import without_muscles
from ..simulation._muscles import Drive, muscle_rates

Moving = tuple[Float[Array, " nq"], Float[Array, " nq"], HillState | None]
"""q, q̇ and the muscles' state, or their rates."""


def rates(
    model: Model,
    bounds: tuple[Array, Array, Array],
    action: Float[Array, " na"],
    moving: Moving,
) -> Moving:
    """Time derivatives under torques, or under excitations where there are muscles.

    Outside `bounds` (lowest q, highest q, largest |q̇|) the model is asked at the bound: what
    it answers is then finite, and so is the next state.
    """
    q, qd, muscles = moving
    lowest, highest, fastest = bounds
    q = jnp.clip(q, lowest, highest)
    qd = jnp.clip(qd, -fastest, fastest)
    if muscles is None:
        return qd, forward_dynamics(model, q, qd, action), None
    torques, rate = muscle_rates(model, Drive(action, False), 0.0, q, qd, muscles)
    return qd, forward_dynamics(without_muscles(model), q, qd, torques), rate


def advance(
    slope: Callable[[Moving], Moving], moving: Moving, duration: Float[Array, ""], substeps: int
) -> Moving:
    """The classical fourth-order Runge-Kutta method, in `substeps` equal steps."""
    h = duration / substeps
    # Backwards, what led to a slope is computed again: to keep it costs more.
    slope = jax.checkpoint(slope, prevent_cse=False)

    def stepped(a: Moving, scale: Any, b: Moving) -> Moving:
        return jax.tree.map(lambda x, y: x + scale * y, a, b)

    # Loops, not copies: the model's equations are compiled once.
    def stage(carry: tuple[Moving, Moving, Moving], factors: Array) -> tuple[Any, None]:
        now, last, total = carry
        found = slope(stepped(now, h * factors[0], last))
        return (now, found, stepped(total, h * factors[1], found)), None

    def once(now: Moving, _: None) -> tuple[Moving, None]:
        nothing = jax.tree.map(jnp.zeros_like, now)
        factors = jnp.asarray(_RUNGE_KUTTA, dtype=h.dtype)
        return jax.lax.scan(stage, (now, nothing, now), factors)[0][2], None

    return jax.lax.scan(once, moving, None, length=substeps)[0]


_RUNGE_KUTTA = ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6))
"""For each stage, how far along the last slope it is taken, and its weight."""
