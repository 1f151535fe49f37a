"""The shoulder that is to reach a posture."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..forces import SoftStops, VariableSprings
from ..model import Model
from ..model._checks import is_concrete
from ..models import shoulder
from ._reach import Reach

_RANGES = {
    "elv_angle": (-60.0, 120.0),
    "shoulder_elv": (15.0, 150.0),
    "shoulder_rot": (-80.0, 15.0),
}
_BOX = ((0.0, 30.0, -40.0), (70.0, 90.0, 0.0))
_TORQUES = (10.0, 20.0, 2.0)
_DAMPING = (0.5, 0.5, 0.1)
_STIFFNESS = (200.0, 400.0, 40.0)
_TRANSITION = math.radians(10.0)


def shoulder_reach(
    drive: Literal["torque", "muscles"] = "torque",
    *,
    wrapping: bool = False,
    rhythm: Any = "de_groot",
    load: bool = True,
    box: Any = None,
    torques: Sequence[float] = _TORQUES,
    damping: Sequence[float] = _DAMPING,
    dt: Any = 0.02,
    substeps: int | None = None,
    horizon: int = 100,
    speed_weight: Any = 0.01,
    effort_weight: Any = 0.01,
    failure_cost: Any = 10.0,
) -> Reach:
    """The shoulder of `eb.models.shoulder`, to be brought into a posture and held there.

    Angles stay away from the hanging arm, where the plane of elevation has no meaning and
    next to no inertia: the task's ranges are -60 to 120°, 15 to 150° and -80 to 15° (plane,
    elevation, axial rotation). Springs hold them softly; an episode fails 10° beyond, or at
    50 rad/s.

    **Arguments:**

    - `drive`: "torque" (three actions) or "muscles" (excitations of the fourteen muscles).
    - `wrapping`: whether muscles slide over surfaces, at many times the cost.
    - `rhythm`, `load`: as for `eb.models.shoulder`; with the load, forearm and hand are there.
    - `box`: lower and upper ends (2, 3) of the postures to start from and to reach (rad); if
      absent, plane 0 to 70°, elevation 30 to 90°, rotation -40 to 0°.
    - `torques`: largest ones (N m), for action 1.
    - `damping`: of the joint (N m s/rad), one for each coordinate.
    - `dt`, `substeps`, `horizon`: control step (s), Runge-Kutta steps in it (4; 8 where muscles
      drive) and length of an episode in control steps.
    - `speed_weight`, `effort_weight`, `failure_cost`: of the reward, see `Reach`.

    Limits, damping and weights are the task's, not measured ones.
    """
    model = shoulder(rhythm, wrapping=wrapping, muscles=drive == "muscles", load=load)
    model = _held(model, _three("damping", damping))
    return Reach(
        model=model,
        torques=_three("torques", torques),
        box=_ends(model, np.deg2rad(_BOX) if box is None else box),
        dt=jnp.asarray(dt, dtype=float),
        margin=jnp.asarray(_TRANSITION, dtype=float),
        fastest=jnp.asarray(50.0, dtype=float),
        speed_weight=jnp.asarray(speed_weight, dtype=float),
        effort_weight=jnp.asarray(effort_weight, dtype=float),
        failure_cost=jnp.asarray(failure_cost, dtype=float),
        drive=drive,
        substeps=(4 if drive == "torque" else 8) if substeps is None else substeps,
        horizon=horizon,
    )


def _three(what: str, value: Any) -> Float[Array, "3"]:
    array = jnp.asarray(value, dtype=float)
    if array.shape != (3,):
        raise ValueError(f"{what} has shape {array.shape}; give three numbers, one per coordinate")
    return array


def _held(model: Model, damping: Float[Array, "3"]) -> Model:
    """With the task's ranges, held softly, and damped."""
    names = model.coordinate_names
    low, high = np.deg2rad([_RANGES[name] for name in names]).T
    stops = SoftStops(names, low, high, _STIFFNESS, _STIFFNESS, transition=_TRANSITION)
    ends = [jnp.asarray(end, dtype=float) for end in (low, high)]
    ranged = eqx.tree_at(lambda m: (m.lower, m.upper), model, ends)
    return ranged.with_forces([stops, VariableSprings(names, damping=damping)])


def _ends(model: Model, box: Any) -> Float[Array, "2 3"]:
    ends = jnp.asarray(box, dtype=float)
    if ends.shape != (2, 3):
        raise ValueError(f"box has shape {ends.shape}; give (2, 3): lower and upper ends")
    if is_concrete(ends):
        for k, name in enumerate(model.coordinate_names):
            low, high = float(ends[0, k]), float(ends[1, k])
            least, most = float(model.lower[k]), float(model.upper[k])
            if not least <= low <= high <= most:
                raise ValueError(
                    f"box gives {name!r} from {low:.6g} to {high:.6g} rad; the task's range is "
                    f"{least:.6g} to {most:.6g} rad"
                )
    return ends
