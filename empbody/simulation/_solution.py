"""The result of a simulation."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from ..dynamics import mechanical_energy
from ..model import Model
from ..muscles import HillState, MuscleState
from ._loops import closure_error, failing_softly
from ._muscles import outputs_along
from ._status import SimulationStatus, succeeded


class Solution(eqx.Module):
    """States at the times asked for, and how the simulation went.

    Rows of q and qd that were not reached (after an event or a failure) are NaN;
    `reached` tells which were. The model is not kept, so that batches stay small: hand it
    to the methods that need it.
    """

    ts: Float[Array, " nt"]
    """Times asked for (s)."""
    q: Float[Array, "nt nq"]
    """Coordinates (rad or m)."""
    qd: Float[Array, "nt nq"]
    """Their rates (rad/s or m/s)."""
    reached: Bool[Array, " nt"]
    """Which times were reached."""
    t_final: Float[Array, ""]
    """Where the simulation ended (s): the last of ts, the event, or the last good state."""
    q_final: Float[Array, " nq"]
    qd_final: Float[Array, " nq"]
    status: SimulationStatus
    """Outcome; compare with `==`. `SimulationStatus[solution.status]` is the reason."""
    result: diffrax.RESULTS
    """What Diffrax itself reports."""
    stats: dict[str, Int[Array, ""] | int]
    """num_steps, num_accepted_steps, num_rejected_steps, max_steps."""
    events: Bool[Array, " ne"] | None
    """Which of the events stopped it, in the order given; None without events."""
    monitors: dict[str, Array]
    """What `monitors=` asked for, along ts."""
    interpolation: diffrax.DenseInterpolation | None
    muscles: HillState | None = None
    """Activations and fibre states along ts, (nt, nm) each; None where muscles took no part."""
    muscles_final: HillState | None = None
    excitation: Float[Array, "nt nm"] | None = None
    """What the muscles were given, along ts."""

    @property
    def succeeded(self) -> Bool[Array, "..."]:
        """Whether the end of ts or an event was reached; one answer per sample of a batch."""
        return succeeded(self.status)

    def evaluate(self, t: ArrayLike) -> tuple[Float[Array, "... nq"], Float[Array, "... nq"]]:
        """q and q̇ at any time or times between the start and `t_final`; needs `dense=True`."""
        path = self.interpolation
        if path is None:
            raise ValueError("no dense output was kept; call simulate(..., dense=True)")
        times = jnp.asarray(t, dtype=self.ts.dtype)
        y = jax.vmap(path.evaluate)(times.reshape(-1)).reshape(*times.shape, -1)
        nq = self.q.shape[-1]
        return y[..., :nq], y[..., nq : 2 * nq]

    def energy(self, model: Model) -> Float[Array, " nt"]:
        """Kinetic plus potential energy at every time, in joules."""
        return energies(model, self.q, self.qd)

    def energy_drift(self, model: Model) -> Float[Array, ""]:
        """Largest change of the energy since the start, in joules. A measure of error
        only where nothing dissipates or drives."""
        energy = self.energy(model)
        return jnp.max(jnp.where(self.reached, jnp.abs(energy - energy[0]), 0.0))

    def muscle_outputs(self, model: Model) -> MuscleState:
        """Forces, lengths, speeds and powers of the muscles, (nt, nm) each."""
        if self.muscles is None or self.excitation is None:
            raise ValueError("muscles took no part in this simulation; give simulate an excitation")
        return outputs_along(model, self.q, self.qd, self.muscles, self.excitation)

    def closure_error(self, model: Model) -> Float[Array, " nt"]:
        """Largest residual of the model's loop closures at every time; NaN without loops."""
        return closure_errors(model, self.q)


@eqx.filter_jit
def energies(
    model: Model, q: Float[Array, "nt nq"], qd: Float[Array, "nt nq"]
) -> Float[Array, " nt"]:
    # rows that were not reached are NaN: no reason to raise
    soft = failing_softly(model)
    return jax.vmap(lambda x, v: mechanical_energy(soft, x, v))(q, qd)


@eqx.filter_jit
def closure_errors(model: Model, q: Float[Array, "nt nq"]) -> Float[Array, " nt"]:
    return jax.vmap(lambda x: closure_error(model, x))(q)
