"""Force sharing of a model's muscles."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics._arguments import coordinates
from ..model import Model
from ..model._checks import is_concrete
from ..muscles._fibre import fibre_forces, rigid
from ..muscles._forces import hill_muscles, without_muscles
from ..paths import lengths_and_arms
from ..paths._report import out_of_range, require_ranges
from ._share import Sharing, share

_CHUNK = 512


def capacities(
    model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"]
) -> tuple[Float[Array, "nq nm"], Float[Array, " nm"], Float[Array, " nm"]]:
    """Moment arms R, force that full activation adds and force without any (N), along tendons.

    Tendons keep their slack length, whatever the muscles' `tendon`. The force at no
    activation holds the passive element and the fibre's damping. A fibre that shortens too
    fast to pull has no capacity.
    """
    q, qd = coordinates(model, q=q, qd=qd)
    muscles = hill_muscles(model)
    length, arms = lengths_and_arms(without_muscles(model), q)
    p = muscles.parameters
    placed, velocity, taut = rigid(p, length, -(qd @ arms))
    forces = fibre_forces(p, muscles.curves, placed.length, velocity, jnp.ones_like(length))
    newton = p.max_isometric_force * placed.cosine * taut
    active = newton * jnp.maximum(forces.active, 0.0)
    return arms, active, newton * (forces.passive + forces.damping)


def share_forces(
    model: Model,
    q: Float[Array, " nq"],
    qd: Float[Array, " nq"],
    tau: Float[Array, " nq"],
    *,
    cost: str = "activation_squared",
    weights: Any = None,
    reserves: Any = None,
    passive: bool = True,
    lower: Any = 0.0,
    upper: Any = 1.0,
) -> Sharing:
    """Activations of least cost whose muscle forces F give R F + reserves = τ.

    One pose; batch with `jax.vmap`, or `empbody.sharing.share_frames` for long motions. `tau`
    is usually `inverse_dynamics(model, q, qd, qdd)`. Tendons are taken as rigid, so that
    F is the passive force plus the activation times the capacity at this length and speed
    (for Thelen's curves, whose speed dependence varies with activation, that at full
    activation).

    **Arguments:**

    - `passive`: whether passive and damping forces of the fibres bear their part; if not, they
      are left out of the balance and of `forces`.
    - the others as for `empbody.sharing.share`. `lower` below the muscles' minimum activation
      means less force than a simulation can have.

    **Raises:** `ValueError` where q is outside the range of a moving point; under jit, vmap
    or grad that is not looked at.
    """
    require_ranges(model, q)
    options = {"cost": cost, "weights": weights, "reserves": reserves, "passive": passive}
    return _one(model, q, qd, tau, **options, lower=lower, upper=upper)


@eqx.filter_jit
def _one(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    *,
    cost: str,
    weights: Any,
    reserves: Any,
    passive: bool,
    lower: Any,
    upper: Any,
) -> Sharing:
    q, qd, tau = coordinates(model, q=q, qd=qd, tau=tau)
    arms, capacity, slack = capacities(model, q, qd)
    slack = slack if passive else jnp.zeros_like(slack)
    return share(
        arms,
        capacity,
        slack,
        tau,
        cost=cost,
        weights=weights,
        reserves=reserves,
        lower=lower,
        upper=upper,
    )


@eqx.filter_jit
def _chunk(model: Model, q: Array, qd: Array, tau: Array, options: dict[str, Any]) -> Sharing:
    return jax.vmap(lambda *frame: share_forces(model, *frame, **options))(q, qd, tau)


def _require_ranges(model: Model, q: Float[Array, "_ nq"]) -> None:
    """Of all frames, if their numbers are known."""
    if not is_concrete((q, model.paths)):
        return
    low, high = (np.asarray(x) for x in model.paths.known_range())
    rows = np.asarray(q)
    beyond = (rows < low[None]) | (rows > high[None])
    for frame in np.flatnonzero(beyond.any(axis=1)).tolist():
        problems = out_of_range(model, rows[frame])
        if problems:
            raise ValueError(f"frame {frame + 1} of {len(rows)}: {problems[0]}")


def share_frames(
    model: Model,
    q: Float[Array, "_ nq"],
    qd: Float[Array, "_ nq"],
    tau: Float[Array, "_ nq"],
    *,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Sharing:
    """`share_forces` on every frame of a motion; arrays have the frames first.

    `progress(done, total)` is called after every few hundred frames. `options` are those of
    `share_forces`.

    **Raises:** `ValueError`, naming frame and muscle, where a frame is outside the range of a
    moving point.
    """
    q, qd, tau = (jnp.asarray(x, dtype=float) for x in (q, qd, tau))
    total = q.shape[0]
    for name, value in (("q", q), ("qd", qd), ("tau", tau)):
        if value.shape != (total, model.nq):
            raise ValueError(f"{name} has shape {value.shape} for {total} frames of {model.nq}")
    if not total:
        raise ValueError("there are no frames")
    _require_ranges(model, q)
    size = min(_CHUNK, total)
    parts = []
    for start in range(0, total, size):
        # The last chunk reaches back, so that one shape is compiled.
        first = min(start, total - size)
        frames = slice(first, first + size)
        part = _chunk(model, q[frames], qd[frames], tau[frames], options)
        parts.append(jax.tree.map(lambda x, skip=start - first: x[skip:], part))
        if progress is not None:
            jax.block_until_ready(part)
            progress(min(start + size, total), total)
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
