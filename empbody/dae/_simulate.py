"""Integrating the constrained equations."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree

from ..solvers import SOLVERS, by_name
from ._constrained import Constrained, Servo
from ._projecting import Projecting


class DAESolution(eqx.Module):
    """A constrained motion at the asked times."""

    ts: Float[Array, " nt"]
    q: Float[Array, "nt nq"]
    """Generalised coordinates, read off the joint variables."""
    qd: Float[Array, "nt nq"]
    f: Float[Array, "nt nj"]
    """Joint variables."""
    fd: Float[Array, "nt nj"]
    torques: Float[Array, "nt nq"] | None
    """With `servo`: what it takes to accelerate the coordinates as told (N m or N)."""
    drift: Float[Array, " nt"]
    """max |g| in each row. Rows between steps are interpolated, which opens the loops by
    the interpolant's error; `end_drift` is that of a step's end."""
    drift_rate: Float[Array, " nt"]
    """max |ġ| in each row."""
    end_drift: tuple[Float[Array, ""], Float[Array, ""]]
    """max |g| and max |ġ| of the last state, not interpolated."""
    stats: dict[str, Any]
    """Diffrax's counts of steps."""
    result: diffrax.RESULTS


def simulate_dae(
    dae: Constrained,
    q0: Any,
    qd0: Any,
    ts: Any,
    *,
    tau: Any = None,
    servo: Callable | None = None,
    solver: str | diffrax.AbstractSolver = "tsit5",
    projection: str = "velocity",
    rtol: ArrayLike = 1e-8,
    atol: ArrayLike = 1e-8,
    dt0: ArrayLike | None = None,
    max_steps: int | None = 100_000,
    stepsize_controller: diffrax.AbstractStepSizeController | None = None,
    adjoint: diffrax.AbstractAdjoint | None = None,
    throw: bool = True,
) -> DAESolution:
    """Motion from coordinates q0, q̇0 at ts[0], with rows at `ts` (s, increasing).

    **Arguments:**

    - `dae`: from `constrained`; its α and β add Baumgarte's stabilisation.
    - `tau`: generalised forces on the coordinates: none, constant (nq,), or a function of
      (t, q, qd); compiled in as that of `eb.simulate` is.
    - `servo`: instead of `tau`, a function of (t, q, qd) that gives the coordinates'
      accelerations; the torques for them are unknowns of the equations, as the multipliers
      are (see `Constrained.servo`). `control.ComputedTorque.acceleration` is such a function.
    - `solver`: "tsit5", "dopri8", "rkf45", "kvaerno5", "trbdf2", or any Diffrax solver.
    - `projection`: after each step onto ġ = 0 ("velocity", as the manuscript does), onto
      g = 0 as well ("both"), or not at all ("none").
    - `rtol`, `atol`: on all joint variables and their rates. `stepsize_controller`
      replaces both, for example `diffrax.ConstantStepSize()` together with `dt0`.
    - `dt0`, `max_steps`, `adjoint`, `throw`: as in `diffrax.diffeqsolve`.
    """
    if tau is not None and servo is not None:
        raise ValueError("give tau or servo, not both: torques are what a servo finds")
    if projection not in ("none", "velocity", "both"):
        raise ValueError(f"projection = {projection!r}: 'none', 'velocity' or 'both'")
    times = jnp.asarray(ts, dtype=float)
    if times.ndim != 1 or times.shape[0] < 2:
        raise ValueError(f"ts has shape {times.shape}: at least two times are needed")
    q, qd = (jnp.asarray(x, dtype=float).reshape(-1) for x in (q0, qd0))
    for name, value in (("q0", q), ("qd0", qd)):
        if value.shape != (dae.model.nq,):
            raise ValueError(f"{name} has {value.size} numbers for {dae.model.nq} coordinates")
    if tau is not None and not callable(tau):
        tau = jnp.asarray(tau, dtype=float)
        if tau.shape != (dae.model.nq,):
            raise ValueError(f"tau has shape {tau.shape} for {dae.model.nq} coordinates")
    solver = by_name("solver", solver, SOLVERS)
    # As arrays, so that new tolerances run what was compiled.
    if stepsize_controller is None:
        relative, absolute = (jnp.asarray(x, dtype=float) for x in (rtol, atol))
        stepsize_controller = diffrax.PIDController(rtol=relative, atol=absolute)
    options = {
        "dt0": None if dt0 is None else jnp.asarray(dt0, dtype=float),
        "max_steps": max_steps,
        "throw": throw,
        "adjoint": diffrax.RecursiveCheckpointAdjoint() if adjoint is None else adjoint,
    }
    drive = _Drive(tau, servo)
    return _solve(dae, q, qd, times, drive, solver, projection, stepsize_controller, options)


class _Drive(eqx.Module):
    """What acts on the coordinates: torques, or a law for their accelerations."""

    tau: Any
    servo: Callable | None

    def fdd(self, dae: Constrained, t: Any, f: Array, fd: Array) -> Float[Array, " nj"]:
        if self.servo is not None:
            return self._served(dae, t, f, fd).fdd
        tau: Any = self.tau
        if callable(tau):
            tau = jnp.asarray(tau(t, *jax.jvp(dae.loop.coordinates, (f,), (fd,))), dtype=f.dtype)
        return dae.accelerations(t, f, fd, tau).fdd

    def torques(self, dae: Constrained, t: Any, f: Array, fd: Array) -> Float[Array, " nq"]:
        return self._served(dae, t, f, fd).torques

    def _served(self, dae: Constrained, t: Any, f: Array, fd: Array) -> Servo:
        assert self.servo is not None
        q, qd = jax.jvp(dae.loop.coordinates, (f,), (fd,))
        return dae.servo(t, f, fd, self.servo(t, q, qd))


def vector_field(t: Any, y: Float[Array, " two_nj"], dae: Constrained) -> Float[Array, " two_nj"]:
    """ẏ of the state y = (f, ḟ) in one array, without torques."""
    return _driven(t, y, (dae, _Drive(None, None)))


def _driven(
    t: Any, y: Float[Array, " two_nj"], args: tuple[Constrained, _Drive]
) -> Float[Array, " two_nj"]:
    dae, drive = args
    f, fd = jnp.split(y, 2)
    return jnp.concatenate([fd, drive.fdd(dae, t, f, fd)])


class _Projector(eqx.Module):
    dae: Constrained
    position: bool = eqx.field(static=True)

    def __call__(self, y: Float[Array, " two_nj"]) -> Float[Array, " two_nj"]:
        f, fd = jnp.split(y, 2)
        return jnp.concatenate(self.dae.project(f, fd, self.position))


@eqx.filter_jit
def _solve(
    dae: Constrained,
    q0: Float[Array, " nq"],
    qd0: Float[Array, " nq"],
    ts: Float[Array, " nt"],
    drive: _Drive,
    solver: diffrax.AbstractSolver,
    projection: str,
    controller: diffrax.AbstractStepSizeController,
    options: dict[str, PyTree],
) -> DAESolution:
    if projection != "none":
        solver = Projecting(solver, _Projector(dae, projection == "both"))
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(_driven),
        solver,
        t0=ts[0],
        t1=ts[-1],
        y0=jnp.concatenate(dae.start(q0, qd0)),
        args=(dae, drive),
        saveat=diffrax.SaveAt(subs=(diffrax.SubSaveAt(ts=ts), diffrax.SubSaveAt(t1=True))),
        stepsize_controller=controller,
        **options,
    )
    assert found.ys is not None
    rows, last = found.ys
    f, fd = jnp.split(rows, 2, axis=1)
    q, qd = jax.vmap(lambda x, v: jax.jvp(dae.loop.coordinates, (x,), (v,)))(f, fd)
    torques = None
    if drive.servo is not None:
        torques = jax.vmap(lambda t, x, v: drive.torques(dae, t, x, v))(ts, f, fd)
    drift, drift_rate = jax.vmap(dae.drift)(f, fd)
    end = dae.drift(*jnp.split(last[0], 2))
    return DAESolution(ts, q, qd, f, fd, torques, drift, drift_rate, end, found.stats, found.result)
