"""Which excitation is not a number, and when."""

import jax.numpy as jnp
import numpy as np

from ..model import Model
from ..muscles import HillState
from ._muscles import Drive


def why_not_excited(
    model: Model,
    drive: Drive | None,
    t: float,
    q: np.ndarray,
    qd: np.ndarray,
    muscles: HillState | None,
    reach: float = 0.0,
) -> str | None:
    """One sentence on an excitation that is NaN or infinite, or None where all are numbers.

    The function is asked at t and, with `reach` (s), a little later up to t + reach, where
    the state is guessed from where it was: a solver cannot step beyond the last good time.
    """
    if drive is None or muscles is None or not callable(drive.value):
        return None
    for step in (0.0, *(np.geomspace(1e-6 * reach, reach, 13) if reach > 0.0 else ())):
        there = jnp.asarray(q + step * qd)
        numbers = np.asarray(drive(jnp.asarray(t + step), there, jnp.asarray(qd), muscles))
        wrong = np.flatnonzero(~np.isfinite(numbers))
        if wrong.size:
            k = int(wrong[0])
            said = "NaN" if np.isnan(numbers[k]) else "infinite"
            others = f", and {wrong.size - 1} more" if wrong.size > 1 else ""
            return (
                f"the excitation of muscle {model.muscle_names[k]!r} is {said} at t = "
                f"{t + step:.6g} s{others}: what was given as excitation returns it"
            )
    return None
