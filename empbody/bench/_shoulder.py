"""The shoulder's tracking task: our ODE against the stabilised DAE, at equal accuracy.

Both follow the manuscript's motion by computed torque from a start that is 0.02 rad/s off, so
that the exact answer is known in closed form. Both run the same solver at the loosest
tolerance of a ladder that meets the accuracy, and both give torques at the saved rows; the
time is that of a warm, compiled solve.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..control import MANUSCRIPT_GAINS, as_reference, manuscript_reference, track, track_dae
from ..model import Model
from ..models import shoulder
from ._timing import Figure, interleaved

ACCURACY = 1e-8
"""RMS error of all joint variables over the motion, in radians, that both must reach."""
LATE = 0.02
"""Error of the elevation's rate at the start (rad/s), as large as the manuscript reports."""
_LADDER = 10.0 ** -np.arange(4.0, 12.01, 0.5)
_ROWS = 301


def run() -> dict[str, Figure]:
    return {
        "shoulder_ode_over_dae": compare(every_stage=True),
        "shoulder_ode_over_dae_as_tracked": compare(),
    }


def compare(
    model: Model | None = None,
    *,
    solver: str = "rkf45",
    accuracy: float = ACCURACY,
    every_stage: bool = False,
    repeats: int = 9,
) -> Figure:
    """DAE over ODE cost of the manuscript's tracking task, both at the same accuracy.

    The DAE is the quicker of two stabilisations, projection of the speeds and Baumgarte's.
    The ODE integrates q̈ = Q_d, the second line of Eq. 200, and finds torques at the saved
    rows; with `every_stage` it finds them at every stage, as the DAE's system does.
    """
    model = shoulder(muscles=False) if model is None else model
    motion = manuscript_reference()
    ts = np.linspace(0.0, float(motion.duration), _ROWS)
    reference = as_reference(model, motion)
    start = reference(jnp.zeros(()))
    late = jnp.zeros(model.nq).at[1].set(LATE)
    common: dict[str, Any] = {
        "gains": MANUSCRIPT_GAINS,
        "q0": start.q,
        "qd0": start.qd + late,
        "solver": solver,
        "throw": False,
    }
    joints = jax.jit(jax.vmap(model.rhythm))
    truth = joints(exact(model, ts))

    def ode(tol: float) -> Any:
        return track(model, reference, ts, every_stage=every_stage, rtol=tol, atol=tol, **common)

    def dae(kind: Any) -> Callable[[float], Any]:
        return lambda tol: track_dae(
            model, reference, ts, stabilisation=kind, rtol=tol, atol=tol, **common
        )

    ways = {"ode": ode, "projection": dae("projection"), "baumgarte": dae("baumgarte")}
    chosen = {}
    for name, way in ways.items():
        for tol in _LADDER.tolist():
            found = way(tol)
            f = joints(found.q) if name == "ode" else found.f
            error = float(jnp.sqrt(jnp.mean((f - truth) ** 2)))
            if error < accuracy:
                chosen[name] = tol, found, error
                break
    if "ode" not in chosen or len(chosen) < 2:
        return Figure.missing(f"no tolerance of the ladder reaches {accuracy} rad", solver=solver)
    works = [lambda way=ways[n], tol=chosen[n][0]: way(tol).torques for n in chosen]
    spent = dict(zip(chosen, interleaved(works, repeats), strict=True))
    peer = min((n for n in chosen if n != "ode"), key=lambda n: float(np.median(spent[n])))
    more: dict[str, Any] = {"solver": solver, "accuracy_rad": accuracy, "stabilisation": peer}
    for label, name in (("ode", "ode"), ("dae", peer)):
        tol, found, error = chosen[name]
        more[f"{label}_ms"] = float(np.median(spent[name])) * 1e3
        more[f"{label}_tolerance"] = tol
        more[f"{label}_steps"] = int(found.stats["num_steps"])
        more[f"{label}_rms_error_rad"] = error
    ours, theirs = chosen["ode"][1].torques, chosen[peer][1].torques
    more["torque_difference_n_m"] = float(jnp.max(jnp.abs(ours - theirs)))
    more["dae_drift_rad"] = float(jnp.max(chosen[peer][1].drift))
    ratios = [b / a for a, b in zip(spent["ode"], spent[peer], strict=True)]
    return Figure.of(ratios, **more)


def exact(model: Model, ts: np.ndarray) -> jax.Array:
    """Coordinates of the task: the reference plus a critically damped error."""
    reference = manuscript_reference()
    q = jax.vmap(reference)(jnp.asarray(ts))
    gain = MANUSCRIPT_GAINS[1]
    return q.at[:, 1].add(LATE * ts * np.exp(-gain * ts))
