"""The result of tracking."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..io import Motion
from ..model import Model
from ..pipeline import MotionDynamics
from ..pipeline._coordinates import moment_labels
from ..simulation import SimulationStatus
from ..simulation._status import succeeded
from ._reference import Desired


class Tracking(eqx.Module):
    """A motion under computed torque, and what it was to be.

    Rows that were not reached are NaN.
    """

    ts: Float[Array, " nt"]
    """Times (s)."""
    q: Float[Array, "nt nq"]
    """Coordinates (rad or m)."""
    qd: Float[Array, "nt nq"]
    qdd: Float[Array, "nt nq"]
    """Accelerations that the torques gave the plant, by forward dynamics."""
    torques: Float[Array, "nt nq"]
    """What the controller applied (N m or N)."""
    desired: Desired
    """The reference at the same times."""
    reached: Bool[Array, " nt"]
    status: SimulationStatus
    stats: dict[str, Int[Array, ""] | int]
    """num_steps, num_accepted_steps, num_rejected_steps, max_steps."""

    @property
    def errors(self) -> Float[Array, "*batch nt nq"]:
        """q - q_des (rad or m)."""
        return self.q - self.desired.q

    @property
    def rate_errors(self) -> Float[Array, "*batch nt nq"]:
        """q̇ - q̇_des (rad/s or m/s)."""
        return self.qd - self.desired.qd

    @property
    def power(self) -> Float[Array, "*batch nt"]:
        """τ · q̇: what the controller puts in (W)."""
        return jnp.sum(self.torques * self.qd, axis=-1)

    @property
    def succeeded(self) -> Bool[Array, "..."]:
        return succeeded(self.status)

    def motion(self, model: Model, name: str = "tracking") -> Motion:
        """The realised motion, for `eb.write_motion`."""
        return Motion.of(model, self.ts, self.q, self.qd, name)

    def dynamics(self, model: Model) -> MotionDynamics:
        """Motion and torques as inverse dynamics gives them, with OpenSim's labels."""
        rows = (np.asarray(x) for x in (self.ts, self.q, self.qd, self.qdd, self.torques))
        return MotionDynamics(*rows, labels=moment_labels(model))
