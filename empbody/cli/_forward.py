"""Forward dynamics of a mechanism as a plain ODE, and as a DAE beside it."""

import dataclasses
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dae import DAESolution, Loop, constrained, simulate_dae
from ..dynamics import kinetic_energy, mechanical_energy
from ..kinematics import joint_variables
from ..model import Model
from ..simulation import Solution, simulate
from ._case import Options
from ._progress import Progress, Timed, timed


@dataclasses.dataclass(frozen=True)
class Forward:
    """A simulated motion and its figures."""

    time: Float[np.ndarray, " rows"]
    q: Float[np.ndarray, "rows nq"]
    qd: Float[np.ndarray, "rows nq"]
    joints: Float[np.ndarray, "rows nj"]
    dae: DAESolution | None
    summary: dict[str, Any]


def forward(
    model: Model,
    loop: Loop,
    q0: Float[np.ndarray, " nq"],
    time: Float[np.ndarray, " rows"],
    options: Options,
    progress: Progress,
    drive: Float[np.ndarray, " nq"] | None = None,
) -> Forward:
    """Released from rest at q0. `drive` is a constant generalised force that works on the
    model; its work is taken off the energy, so that what is left should not change."""
    still = np.zeros_like(q0)
    with progress.stage(f"simulating as an ODE ({options.solver}, rtol {options.rtol:g})"):
        solution, times = timed(
            lambda: simulate(
                model, q0, still, time, solver=options.solver, rtol=options.rtol,
                atol=options.atol, max_steps=options.max_steps, progress=progress.bar,
            )
        )  # fmt: skip
        work = jnp.zeros(model.nq) if drive is None else jnp.asarray(drive)
        joints, energy, kinetic, open_by = _monitor(model, loop, solution.q, solution.qd, work)
    summary = {
        "steps": _steps(solution),
        "energy": {
            "conserved": "E - drive · q" if drive is not None else "E",
            "drift_J": float(jnp.max(jnp.abs(energy - energy[0]))),
            "drift_over_largest_kinetic": float(
                jnp.max(jnp.abs(energy - energy[0])) / jnp.max(kinetic)
            ),
        },
        "constraint_residual_max_m": float(jnp.max(open_by)),
        "wall_times_s": times.as_json(),
    }
    dae = None
    if options.dae:
        with progress.stage(f"the same as a DAE ({options.solver}, velocity projection)"):
            dae, dae_times = timed(lambda: _as_dae(model, loop, q0, time, options))
        summary["dae"] = _compare(dae, dae_times, solution, times)
        if "failed" in summary["dae"]:
            dae = None
    arrays = (np.asarray(x) for x in (solution.q, solution.qd, joints))
    return Forward(time, *arrays, dae=dae, summary=summary)


@eqx.filter_jit
def _monitor(
    model: Model,
    loop: Loop,
    q: Float[Array, "rows nq"],
    qd: Float[Array, "rows nq"],
    drive: Float[Array, " nq"],
):
    """Joint variables, conserved energy, kinetic energy and open loops, row by row."""

    def row(x: Float[Array, " nq"], v: Float[Array, " nq"]):
        f = joint_variables(model, x)
        energy = mechanical_energy(model, x, v) - drive @ x
        return f, energy, kinetic_energy(model, x, v), jnp.max(jnp.abs(loop.constraint(f)))

    return jax.vmap(row)(q, qd)


def _as_dae(
    model: Model, loop: Loop, q0: np.ndarray, time: np.ndarray, options: Options
) -> DAESolution:
    return simulate_dae(
        constrained(model, loop), q0, np.zeros_like(q0), time, solver=options.solver,
        rtol=options.rtol, atol=options.atol, max_steps=options.max_steps, projection="velocity",
        throw=False,
    )  # fmt: skip


def _steps(solution: Solution | DAESolution) -> dict[str, int]:
    names = {"accepted": "num_accepted_steps", "rejected": "num_rejected_steps"}
    return {name: int(solution.stats[key]) for name, key in names.items()}


def _compare(dae: DAESolution, times: Timed, ode: Solution, ode_times: Timed) -> dict[str, Any]:
    if bool(dae.result != diffrax.RESULTS.successful):
        reason = " ".join(diffrax.RESULTS[dae.result].split())
        return {"failed": reason, "steps": _steps(dae), "wall_times_s": times.as_json()}
    apart = np.asarray(dae.q - ode.q)
    apart_rate = np.asarray(dae.qd - ode.qd)
    return {
        "formulation": "index 1 in joint variables, projected onto velocity constraints",
        "steps": _steps(dae),
        "drift_max_m": float(jnp.max(dae.drift)),
        "drift_at_end_m": float(dae.end_drift[0]),
        "drift_rate_max_m_per_s": float(jnp.max(dae.drift_rate)),
        "wall_times_s": times.as_json(),
        "wall_time_over_ode": times.run / ode_times.run,
        "q_rms_difference": rms(apart),
        "qd_rms_difference": rms(apart_rate),
    }


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def dae_words(dae: dict[str, Any], unit: str) -> str:
    """The DAE's figures in one line."""
    if "failed" in dae:
        return f"DAE     failed: {dae['failed']}"
    steps, walls = dae["steps"], dae["wall_times_s"]
    return (
        f"DAE     {steps['accepted']} steps ({steps['rejected']} rejected), "
        f"{1e3 * walls['run']:.1f} ms; loops open by {dae['drift_max_m']:.1e} m, "
        f"{dae['q_rms_difference']:.1e} {unit} RMS from the ODE"
    )


def linkage_words(
    errors: dict[str, Any], summary: dict[str, Any], under: str, unit: str
) -> tuple[str, ...]:
    """What a linkage's run found, for a person; `under` names what drives the release."""
    lines = [
        f"point p {errors['velocity_relative']:.1e} (velocity) and "
        f"{errors['acceleration_relative']:.1e} (acceleration) from the constraint Jacobian",
        f"ODE     {summary['steps']['accepted']} steps {under}, "
        f"energy kept to {summary['energy']['drift_over_largest_kinetic']:.1e}, "
        f"loops closed to {summary['constraint_residual_max_m']:.1e} m",
    ]
    if "dae" in summary:
        lines.append(dae_words(summary["dae"], unit))
    return tuple(lines)
