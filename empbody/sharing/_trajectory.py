"""Force sharing with elastic tendons and activation dynamics: a whole motion as one problem."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..model import Model
from ..model._checks import is_concrete
from ..muscles._fibre import fibre_of_tension
from ..muscles._forces import hill_muscles, without_muscles
from ..paths import lengths_and_arms
from ._augmented import solve
from ._collocation import Frames, Steps, Trajectory
from ._model import capacities, share_forces
from ._sensitivity import answering
from ._share import COSTS, _wide
from ._status import SharingStatus


class TrajectorySharing(eqx.Module):
    """How the muscles share the torques of a motion, their own dynamics included."""

    ts: Float[Array, " nt"]
    activations: Float[Array, "nt nm"]
    excitations: Float[Array, "nt nm"]
    """Constant from each frame to the next; the last row repeats the one before."""
    forces: Float[Array, "nt nm"]
    """Tendon forces (N)."""
    fibre_lengths: Float[Array, "nt nm"]
    """m"""
    tendon_lengths: Float[Array, "nt nm"]
    """m"""
    reserves: Float[Array, "nt nq"]
    """Generalised forces of the reserves (N m or N); 0 without any."""
    residual: Float[Array, "nt nq"]
    """τ - R F - reserves (N m or N)."""
    relative_residual: Float[Array, " nt"]
    """Largest entry of the residual in each frame, over what the muscles could give."""
    status: SharingStatus
    """One per frame."""
    violation: Float[Array, ""]
    """Largest violation of any equation or bound, over its unit: torques over what muscles could
    give, fibre and tendon balance over the maximum isometric force, activations as they are."""
    steps: Int[Array, ""]
    """Gauss-Newton steps."""


def share_trajectory(
    model: Model,
    ts: Any,
    q: Any,
    qd: Any,
    tau: Any,
    *,
    cost: str = "activation_squared",
    weights: Any = None,
    reserves: Any = None,
    lower: Any = None,
    upper: Any = 1.0,
    rounds: int = 30,
    steps: int = 30,
    stiffness: float = 30.0,
    tolerance: float = 1e-6,
) -> TrajectorySharing:
    """Activations of least cost along a motion, with the dynamics of muscles and tendons.

    minimise Σ over frames of the cost, subject at every frame to R F + reserves = τ and the
    bounds, to the balance of fibre and tendon, and to excitations within bounds that lead from
    each activation to the next. Rates are those of the step that ends at a frame (implicit
    Euler: first order in the step, without oscillations). Elastic or rigid tendons and activation
    dynamics as the model's muscles have them. The state at the first frame is free.

    The problem is solved as a whole, by an augmented Lagrangian with Optax, from the static
    solution of every frame. Derivatives (reverse and forward mode) to all arrays are those of
    the solution.

    **Arguments:**

    - `ts`: times of the frames (s), increasing; q, qd, tau have one row per frame. Steps much
      longer than the activation's time constants blur what the muscles do between frames.
    - `cost`, `weights`, `reserves`, `upper`: as for `share_forces`; `reserves=None` or 0 is
      none.
    - `lower`: least activation; the muscles' own minimum if absent.
    - `rounds`, `steps`: updates of the multipliers, and Gauss-Newton steps between them, at
      most.
    - `stiffness`: weight of violated constraints to begin with; it grows where need be.
    - `tolerance`: largest violation (see `TrajectorySharing.violation`) that counts as none.

    Frames that are not met have the status `infeasible` where static sharing proves that
    muscles cannot, and `unsolved` elsewhere.
    """
    if cost not in COSTS:
        raise ValueError(f"cost is {cost!r}; choose from {', '.join(map(repr, COSTS))}")
    times, q, qd, tau = (jnp.asarray(x, dtype=float) for x in (ts, q, qd, tau))
    muscles = hill_muscles(model)
    if times.ndim != 1 or times.shape[0] < 3:
        raise ValueError(f"ts has shape {times.shape}; at least three frames are needed")
    for name, value in (("q", q), ("qd", qd), ("tau", tau)):
        if value.shape != (times.shape[0], model.nq):
            raise ValueError(
                f"{name} has shape {value.shape} for {times.shape[0]} frames of {model.nq} "
                "coordinates"
            )
    if is_concrete(times) and np.any(np.diff(np.asarray(times)) <= 0.0):
        raise ValueError("ts must increase from frame to frame")
    with_reserves = reserves is not None and not (
        is_concrete(reserves) and np.all(np.asarray(reserves) == 0.0)
    )
    least = muscles.parameters.minimum_activation if lower is None else lower
    own = reserves if with_reserves else 0.0
    given = {
        "weights": _wide("weights", 1.0 if weights is None else weights, (model.nm,), "muscle"),
        "reserves": _wide("reserves", own, (model.nq,), "coordinate"),
        "lower": _wide("lower", least, (model.nm,), "muscle"),
        "upper": _wide("upper", upper, (model.nm,), "muscle"),
    }
    fixed = (cost, with_reserves, rounds, steps, float(stiffness), float(tolerance))
    return _solve(model, times, q, qd, tau, given, fixed)


@eqx.filter_jit
def _solve(
    model: Model,
    ts: Float[Array, " nt"],
    q: Float[Array, "nt nq"],
    qd: Float[Array, "nt nq"],
    tau: Float[Array, "nt nq"],
    given: dict[str, Array],
    fixed: tuple[Any, ...],
) -> TrajectorySharing:
    cost, with_reserves, rounds, steps, stiffness, tolerance = fixed
    muscles = hill_muscles(model)
    newton = muscles.parameters.max_isometric_force
    skeleton = without_muscles(model)
    length, arms = jax.vmap(lambda x: lengths_and_arms(skeleton, x))(q)
    speed = -jnp.einsum("kj,kjm->km", qd, arms)
    _, capacity, passive = jax.vmap(lambda x, v: capacities(model, x, v))(q, qd)
    scale = jax.lax.stop_gradient(_torque_scale(arms, newton, tau))
    step = jnp.diff(ts)
    frames = Frames(
        arms=arms * newton[None, None] / scale[None, :, None],
        tau=tau / scale[None],
        capacity=capacity / newton[None],
        passive=passive / newton[None],
        share=jnp.concatenate([step[:1], step[:-1] + step[1:], step[-1:]]) / (2.0 * jnp.mean(step)),
    )
    between = Steps(
        duration=step,
        length=length[1:],
        speed=speed[1:],
        start_length=length[:-1],
        start_speed=speed[:-1],
        first=jnp.zeros_like(step).at[0].set(1.0),
    )
    problem = Trajectory(
        frames=frames,
        steps=between,
        muscles=muscles,
        weights=given["weights"],
        reserves=given["reserves"] / scale,
        lower=given["lower"],
        upper=given["upper"],
        cost=cost,
        with_reserves=with_reserves,
    )
    static = jax.vmap(
        lambda *frame: share_forces(
            model,
            *frame,
            cost=cost,
            weights=given["weights"],
            reserves=given["reserves"],
            lower=given["lower"],
            upper=given["upper"],
        )
    )(q, qd, tau)
    fixed_problem, fixed_static = jax.lax.stop_gradient((problem, static))
    start = [fixed_static.activations]
    if problem.elastic:
        start.append(jnp.maximum(fixed_static.forces / newton[None], 1e-3))
    if with_reserves:
        unit = jnp.where(given["reserves"] > 0.0, given["reserves"], 1.0)
        start.append(fixed_static.reserves / unit[None])
    first = jax.lax.stop_gradient(jnp.nan_to_num(jnp.concatenate(start, axis=1)))
    found = solve(
        fixed_problem,
        first,
        rounds=rounds,
        steps=steps,
        stiffness=stiffness,
        tolerance=tolerance,
    )
    x = answering(problem, found.x, found.multipliers)
    return _told(problem, ts, x, found, static, scale, length, tolerance)


def _torque_scale(arms: Array, newton: Array, tau: Array) -> Array:
    """Torque that the muscles could give together, coordinate by coordinate."""
    rows = jnp.sqrt(jnp.mean(jnp.sum((arms * newton[None, None]) ** 2, axis=2), axis=0))
    largest = jnp.max(rows)
    return jnp.maximum(rows, 1e-6 * jnp.where(largest > 0.0, largest, 1.0 + jnp.max(jnp.abs(tau))))


def _told(
    problem: Trajectory,
    ts: Array,
    x: Float[Array, "nt n"],
    found: Any,
    static: Any,
    scale: Array,
    length: Array,
    tolerance: float,
) -> TrajectorySharing:
    muscles, frames = problem.muscles, problem.frames
    p = muscles.parameters
    a, tendon, reserve = problem.split(x)
    forces = jax.vmap(problem.forces)(x, frames)
    missing = jax.vmap(problem.missing)(x, frames)
    excitations = a
    if muscles.activation_dynamics is not None:
        rows = jax.vmap(problem.excitation)(x[:-1], x[1:], problem.steps.duration)
        excitations = jnp.concatenate([rows, rows[-1:]])
    if tendon is None:
        slack = jnp.broadcast_to(p.tendon_slack_length, length.shape)
        along = jnp.maximum(length - slack, 0.0)
        fibre = jnp.sqrt(along**2 + (p.optimal_fibre_length * jnp.sin(p.pennation))[None] ** 2)
    else:
        placed = jax.vmap(lambda f, x: fibre_of_tension(p, muscles.curves, f, x))(tendon, length)
        slack = placed.tendon_length * p.tendon_slack_length[None]
        fibre = placed.fibre.length * p.optimal_fibre_length[None]
    relative = jnp.max(jnp.abs(missing), axis=1)
    sound = jnp.all(jnp.isfinite(x), axis=1)
    status = jax.vmap(_status)(relative <= 10.0 * tolerance, sound, static.status)
    given = jnp.zeros_like(missing)
    if problem.with_reserves:
        given = reserve * (problem.reserves * scale)[None]
    return TrajectorySharing(
        ts=ts,
        activations=a,
        excitations=excitations,
        forces=forces * p.max_isometric_force[None],
        fibre_lengths=fibre,
        tendon_lengths=slack,
        reserves=given,
        residual=missing * scale[None],
        relative_residual=relative,
        status=status,
        violation=found.violation,
        steps=found.steps,
    )


def _status(met: Array, sound: Array, static: SharingStatus) -> SharingStatus:
    """Of one frame, with what static sharing says about it."""
    codes = SharingStatus
    told = codes.where(static == codes.needs_reserves, codes.needs_reserves, codes.balanced)
    lost = codes.where(static == codes.infeasible, codes.infeasible, codes.unsolved)
    status = codes.where(met, told, lost)
    return codes.where(sound & (static != codes.bad_input), status, codes.bad_input)
