"""Which excitation is not a number, or none between 0 and 1, and when."""

import warnings

import jax.numpy as jnp
import numpy as np

from ..model import Model
from ..muscles import HillState
from ._muscles import Drive
from ._solution import Solution


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


_FAR = 2.0
"""Reflexes and filters may overshoot; beyond this it looks like a mistake of units."""


def warn_of_percent(model: Model, solution: Solution) -> None:
    """What an excitation function returns is held between 0 and 1, as documented; but where it is
    far beyond, say so."""
    if solution.excitation is None:
        return
    values = np.asarray(solution.excitation)
    far = np.argwhere(np.nan_to_num(np.abs(values)) > _FAR)
    if far.size:
        row, k = far[0]
        warnings.warn(
            f"the excitation of muscle {model.muscle_names[k]!r} is {values[row, k]:.6g} at t = "
            f"{float(solution.ts[row]):.6g} s, and acts as {float(values[row, k] > 0):.0f}: "
            "excitations go from 0 to 1 (in percent?)",
            UserWarning,
            stacklevel=3,
        )
