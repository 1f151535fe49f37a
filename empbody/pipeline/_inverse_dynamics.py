"""Inverse dynamics of a whole motion."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from ..dynamics import inverse_dynamics
from ..io import Motion, Table
from ..model import Model
from ..signals import Smoothed, low_pass, rows_at_ends, smooth
from ..simulation._loops import failing_softly
from ._blocks import in_blocks
from ._coordinates import moment_labels


@dataclasses.dataclass(frozen=True)
class MotionDynamics:
    """A motion with its derivatives and the generalised forces that it needs."""

    time: Float[np.ndarray, " rows"]
    """s"""
    q: Float[np.ndarray, "rows nq"]
    """Coordinates (rad or m), after smoothing."""
    qd: Float[np.ndarray, "rows nq"]
    qdd: Float[np.ndarray, "rows nq"]
    tau: Float[np.ndarray, "rows nq"]
    """Generalised forces (N m or N)."""
    labels: tuple[str, ...]
    """OpenSim's labels of the columns of tau."""
    end_rows: int = 0
    """Rows at each end whose forces lean on what the low-pass filter guesses beyond the data."""

    def table(self) -> Table:
        """What OpenSim's inverse dynamics writes."""
        name = "Inverse Dynamics Generalized Forces"
        return Table(self.time, self.labels, self.tau, name=name)


def inverse_dynamics_along(
    model: Model,
    motion: Motion,
    *,
    lowpass: float | None = None,
    spline: float | Literal["auto"] | None = None,
    elements: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> MotionDynamics:
    """Generalised forces M q̈ + N q̇ - G that a measured motion of the skeleton needs.

    Derivatives are those of quintic splines, which pass through every point unless
    `spline` says otherwise.

    **Arguments:**

    - `motion`: as `read_motion` gives it, or `Motion.of(model, time, q)`.
    - `lowpass`: cutoff (Hz) of a fourth-order Butterworth filter without lag, which the motion
      passes first; none if absent. `end_rows` of the result tells how many rows at each end
      lean on what the filter guesses beyond the data; take them as doubtful.
    - `spline`: cutoff (Hz) of smoothing splines; "auto" lets the noise in the data decide
      (generalised cross-validation).
    - `elements`: whether what the model's springs, dampers and other force elements give is
      taken off. Muscles never are.
    - `progress`: called with the number of rows done and of all rows.

    **Raises:** `ValueError` for a motion of another model, or one that cannot be smoothed.
    """
    times, smoothed = smooth_motion(model, motion, lowpass, spline)
    smooth, qd, qdd = smoothed
    soft = failing_softly(model)
    tau = in_blocks(
        lambda *rows: _block(soft, elements, *rows), smooth, qd, qdd, times, progress=progress
    )
    bad = ~np.all(np.isfinite(tau), axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"the model has no pose in row {row + 1} (time {times[row]:g} s): its rhythm "
            "has no value there"
        )
    ends = 0 if lowpass is None else rows_at_ends(times, cutoff=lowpass)
    return MotionDynamics(times, smooth, qd, qdd, tau, moment_labels(model), ends)


@eqx.filter_jit
def _block(
    model: Model, elements: bool, q: Array, qd: Array, qdd: Array, t: Array
) -> Float[Array, "rows nq"]:
    return jax.vmap(lambda x, v, a, t: inverse_dynamics(model, x, v, a, t=t, elements=elements))(
        q, qd, qdd, t
    )


def smooth_motion(
    model: Model, motion: Motion, lowpass: float | None, spline: float | Literal["auto"] | None
) -> tuple[np.ndarray, Smoothed]:
    """Times, and coordinates with their derivatives."""
    if motion.coordinates != model.coordinate_names:
        raise ValueError(
            f"a motion of {', '.join(motion.coordinates)} for a model of "
            f"{', '.join(model.coordinate_names)}"
        )
    q = motion.q if lowpass is None else low_pass(motion.time, motion.q, cutoff=lowpass)
    if spline is None:
        return motion.time, smooth(motion.time, q, smoothing=0.0)
    return motion.time, smooth(motion.time, q, cutoff=None if spline == "auto" else spline)
