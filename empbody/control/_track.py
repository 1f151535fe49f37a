"""`track`: a model made to follow a reference by computed torque."""

from typing import Any, Literal

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dynamics import forward_dynamics
from ..io import Motion
from ..model import Model
from ..model._checks import is_concrete
from ..simulation import SimulationError, SimulationStatus, Solution, simulate
from ..simulation._inputs import state_vector, times
from ..simulation._loops import failing_softly, why_open
from ._forced import forced
from ._reference import AbstractReference, CurveReference, Desired, as_reference
from ._torque import ComputedLoop, ComputedTorque, as_gains
from ._tracking import Tracking

_SLACK = 1e-6
"""How far out of a coordinate's range a reference may be, in widths of the range."""


def track(
    model: Model,
    reference: Any,
    ts: Any = None,
    *,
    gains: Any,
    q0: Any = None,
    qd0: Any = None,
    plant: Model | None = None,
    every_stage: bool = False,
    lowpass: float | None = None,
    spline: float | Literal["auto"] | None = None,
    solver: str | diffrax.AbstractSolver = "rkf45",
    rtol: Any = 1e-10,
    atol: Any = 1e-10,
    max_steps: int = 65536,
    **options: Any,
) -> Tracking:
    """Simulate a model under computed torque along a reference (Ehsani 2016, Eq. 200-201).

    τ = M Q_d + N q̇ - G - force elements, Q_d = q̈_des - 2 K (q̇ - q̇_des) - K² (q - q_des):
    critically damped, with one gain per coordinate. Muscles take no part. Works under jit,
    vmap (over the numbers of references, gains and models) and grad.

    The controller knows the model, so that q̈ = Q_d is what Eq. 200 gives and is integrated
    as such; torques follow at the saved rows, and `Tracking.qdd` is the model's answer to
    them by forward dynamics. With a `plant`, torques act through its forward dynamics at
    every step.

    **Arguments:**

    - `reference`: function of time, spline, `eb.Motion` or file: see `control.as_reference`,
      also for `lowpass` and `spline`.
    - `ts`: times to save at (s), increasing; the first is the start. A motion's or file's own
      times if absent.
    - `gains`: K (1/s), one number or one per coordinate. Explicit solvers need steps of about
      3/K at most, whatever the tolerance.
    - `q0`, `qd0`: start; the reference's own if absent.
    - `plant`: the model that moves, if it is not the one that the controller believes in: with
      other masses, say. The same model again is allowed.
    - `every_stage`: compute torques at every stage of the solver, as a controller in the loop
      does, and not only at the saved rows. The motion is the same; for comparisons of cost.
    - `solver`, `rtol`, `atol`, `max_steps`: as for `eb.simulate`, as are further `options`
      (`dt0`, `fixed_step`, `max_step`, `adjoint`, `progress`, `throw`).

    **Raises:** `ValueError` for references out of a coordinate's range (with coordinate, time
    and range) or asked for outside their time, and for gains of a wrong length;
    `SimulationError` as `eb.simulate`.
    """
    unknown = set(options) - {"dt0", "fixed_step", "max_step", "adjoint", "progress", "throw"}
    if unknown:
        raise ValueError(f"track does not know the options {', '.join(sorted(unknown))}")
    follow = as_reference(model, reference, lowpass=lowpass, spline=spline)
    when = times(_own_times(follow, reference) if ts is None else ts)
    wide = as_gains(model, gains)
    moved = model if plant is None else plant
    if moved.coordinate_names != model.coordinate_names:
        raise ValueError(
            f"the plant's coordinates are {', '.join(moved.coordinate_names)}, the model's "
            f"{', '.join(model.coordinate_names)}"
        )
    soft = failing_softly(model)
    check_times(follow, when)
    desired = along(follow, when)
    check_range(moved, when, desired)
    start = _start(moved, desired.q[0]) if q0 is None else state_vector("q0", q0, model)
    rate = desired.qd[0] if qd0 is None else state_vector("qd0", qd0, model)
    controller = ComputedTorque(soft, follow, wide)
    itself = plant is None or plant is model
    answer = "plant" if plant is model else "system" if every_stage else "wanted"
    loop = ComputedLoop(follow, wide, answer) if itself else controller
    solution = simulate(
        moved,
        start,
        rate,
        when,
        tau=loop,
        solver=solver,
        rtol=rtol,
        atol=atol,
        max_steps=max_steps,
        **options,
    )
    other = None if itself else failing_softly(moved)
    torques, qdd = _rows(controller, other, when, solution.q, solution.qd)
    found = Tracking(
        ts=when,
        q=solution.q,
        qd=solution.qd,
        qdd=qdd,
        torques=torques,
        desired=desired,
        reached=solution.reached,
        status=_status(solution, qdd),
        stats=solution.stats,
    )
    return _raising(moved, found) if options.get("throw", True) else found


def _status(solution: Solution, qdd: Float[Array, "nt nq"]) -> SimulationStatus:
    """Also a pose that the rhythm does not have is a failure."""
    codes = SimulationStatus
    fine = jnp.all(jnp.isfinite(qdd) | ~solution.reached[:, None])
    return codes.where(fine | ~solution.succeeded, solution.status, codes.not_finite)


def _raising(model: Model, found: Tracking) -> Tracking:
    if not is_concrete(found):
        checked = found.status.error_if((found.torques, found.qdd), ~found.succeeded)
        return eqx.tree_at(lambda f: (f.torques, f.qdd), found, checked)
    if not bool(found.succeeded):
        row = int(np.argmin(np.isfinite(np.asarray(found.qdd)).all(axis=1)))
        reason = why_open(model, np.asarray(found.q[row]))
        words = "forward dynamics has no value there" if reason is None else reason
        raise SimulationError(f"the reference fails at t = {float(found.ts[row]):.6g} s: {words}")
    return found


@eqx.filter_jit
def along(reference: AbstractReference, ts: Float[Array, " nt"]) -> Desired:
    """A reference at many times."""
    return jax.vmap(reference)(ts)


@eqx.filter_jit
def _rows(
    controller: ComputedTorque,
    plant: Model | None,
    ts: Float[Array, " nt"],
    q: Float[Array, "nt nq"],
    qd: Float[Array, "nt nq"],
) -> tuple[Float[Array, "nt nq"], Float[Array, "nt nq"]]:
    """Torques and accelerations at the saved rows; without a `plant`, of the model itself."""

    def row(t: Array, q: Array, qd: Array) -> tuple[Array, Array]:
        if plant is not None:
            torques = controller(t, q, qd)
            return torques, forward_dynamics(plant, q, qd, torques, t=t)
        wanted = controller.acceleration(t, q, qd)
        qdd, torques = forced(controller.model, q, qd, wanted, t=t)
        return torques, qdd

    return jax.vmap(row)(ts, q, qd)


def _own_times(follow: AbstractReference, reference: Any) -> Any:
    if isinstance(reference, Motion):
        return reference.time
    if isinstance(follow, CurveReference) and follow.bounded:
        (curve, *_) = follow.curves
        return getattr(curve, "breaks")  # noqa: B009  (curves of time have knots at samples)
    raise ValueError("ts is needed: a function of time does not say where it starts and ends")


def check_times(follow: AbstractReference, ts: Float[Array, " nt"]) -> None:
    """Refuse, where numbers are known, times that the reference does not cover."""
    span = follow.span
    if span is None or not is_concrete(ts):
        return
    first, last = span
    slack = 1e-9 * (last - first)
    outside = [float(t) for t in (ts[0], ts[-1]) if not first - slack <= t <= last + slack]
    if outside:
        raise ValueError(
            f"ts reaches t = {outside[0]:.6g} s, and the reference is known from {first:.6g} to "
            f"{last:.6g} s"
        )


def check_range(model: Model, ts: Float[Array, " nt"], desired: Desired) -> None:
    """Refuse, where numbers are known, a reference that the model cannot follow."""
    if not is_concrete((ts, desired, model.lower, model.upper)):
        return
    low, high, q = (np.asarray(x) for x in (model.lower, model.upper, desired.q))
    bad = ~np.isfinite(np.concatenate(desired, axis=1)).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"the reference is not finite at t = {float(ts[row]):.6g} s")
    slack = _slack(low, high)
    beyond = np.maximum(low - slack - q, q - high - slack)
    rows, columns = np.nonzero(beyond > 0.0)
    if rows.size:
        # the coordinate that leaves first
        row, k = int(rows[0]), int(columns[0])
        name = model.coordinate_names[k]
        worst = q[int(np.argmax(beyond[:, k])), k]
        raise ValueError(
            f"the reference takes coordinate {name!r} to {q[row, k]:.6g} at t = "
            f"{float(ts[row]):.6g} s (and to {worst:.6g} at most), outside its range "
            f"{low[k]:.6g} to {high[k]:.6g}"
        )


def _slack(low: Any, high: Any) -> Any:
    width = high - low
    return _SLACK * np.where(np.isfinite(width), width, 1.0)


def _start(model: Model, q: Float[Array, " nq"]) -> Float[Array, " nq"]:
    """A reference's rounding may put it just outside a range that it touches."""
    width = model.upper - model.lower
    slack = _SLACK * jnp.where(jnp.isfinite(width), width, 1.0)
    near = jnp.maximum(model.lower - q, q - model.upper) <= slack
    inside = jnp.where(q < model.lower, model.lower, jnp.where(q > model.upper, model.upper, q))
    return jnp.where(near, inside, q)
