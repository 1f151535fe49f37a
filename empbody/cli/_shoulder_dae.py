"""The shoulder's tracking as a DAE, beside the ODE."""

from typing import Any

import numpy as np
from jaxtyping import Float

from ..control import AbstractReference, Tracking, track_dae
from ..model import Model
from ._case import Options
from ._progress import Progress, Timed, timed


def beside_dae(
    model: Model,
    reference: AbstractReference,
    followed: Tracking,
    ode: Timed,
    gains: Float[np.ndarray, " nq"],
    options: Options,
    progress: Progress,
) -> dict[str, Any]:
    """The same task and solver at the same tolerance, all joint variables unknown and the
    rhythm as constraints; how far it is off, and how much longer it takes."""
    with progress.stage("the same as a DAE, with the rhythm as constraints"):
        found, times = timed(
            lambda: track_dae(
                model, reference, followed.ts, gains=gains, q0=followed.q[0], qd0=followed.qd[0],
                solver=options.solver, rtol=options.rtol, atol=options.atol,
                max_steps=options.max_steps,
            )
        )  # fmt: skip
    return {
        "q_difference_max_rad": float(np.max(np.abs(found.q - followed.q))),
        "torque_difference_max_N_m": float(np.max(np.abs(found.torques - followed.torques))),
        "drift_max_rad": float(np.max(found.drift)),
        "steps": {"accepted": int(found.stats["num_accepted_steps"])},
        "wall_times_s": times.as_json(),
        "dae_over_ode": times.run / ode.run,
    }


def words(dae: dict[str, Any]) -> str:
    return (
        f"DAE     {dae['steps']['accepted']} steps, {1e3 * dae['wall_times_s']['run']:.1f} ms: "
        f"{dae['dae_over_ode']:.1f} times the ODE's; {dae['q_difference_max_rad']:.0e} rad and "
        f"{dae['torque_difference_max_N_m']:.0e} N m from it, rhythm kept to "
        f"{dae['drift_max_rad']:.0e} rad"
    )
