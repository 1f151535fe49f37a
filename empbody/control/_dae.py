"""The same tracking with the constrained formulation, for comparison."""

from typing import Any, Literal

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..dae import Constrained, RhythmLoop, constrained, simulate_dae
from ..model import Model
from ..simulation._inputs import state_vector, times
from ._reference import Desired, as_reference
from ._torque import ComputedTorque, as_gains
from ._track import along, check_range, check_times

BAUMGARTE = 50.0
"""α = β of Baumgarte's stabilisation (1/s): errors of the constraint halve in 33 ms."""


class DAETracking(eqx.Module):
    """A motion of all joint variables under computed torque, the rhythm as constraints."""

    ts: Float[Array, " nt"]
    q: Float[Array, "nt nq"]
    qd: Float[Array, "nt nq"]
    f: Float[Array, "nt nj"]
    """Joint variables (rad or m), the unknowns of the equations."""
    torques: Float[Array, "nt nq"]
    """N m or N"""
    desired: Desired
    drift: Float[Array, " nt"]
    """Largest violation of the rhythm (rad or m)."""
    stats: dict[str, Any]

    @property
    def errors(self) -> Float[Array, "*batch nt nq"]:
        """q - q_des (rad or m)."""
        return self.q - self.desired.q

    @property
    def rate_errors(self) -> Float[Array, "*batch nt nq"]:
        """q̇ - q̇_des (rad/s or m/s)."""
        return self.qd - self.desired.qd


def as_dae(
    model: Model, stabilisation: Literal["projection", "baumgarte"] = "projection"
) -> Constrained:
    """A model in all its joint variables, held together by its rhythm as constraints.

    Each coordinate must be a joint variable of the same name.
    """
    if stabilisation not in ("projection", "baumgarte"):
        raise ValueError(f"stabilisation = {stabilisation!r}: 'projection' or 'baumgarte'")
    absent = [name for name in model.coordinate_names if name not in model.joint_names]
    if absent:
        raise ValueError(
            f"coordinates without a joint variable of their name: {', '.join(absent)}; make the "
            "constrained model with dae.constrained and a loop of your own"
        )
    independent = [model.joint_index(name) for name in model.coordinate_names]
    pull = BAUMGARTE if stabilisation == "baumgarte" else 0.0
    return constrained(model, RhythmLoop(model.rhythm, independent), alpha=pull, beta=pull)


def track_dae(
    model: Model,
    reference: Any,
    ts: Any,
    *,
    gains: Any,
    q0: Any = None,
    qd0: Any = None,
    stabilisation: Literal["projection", "baumgarte"] = "projection",
    solver: str | diffrax.AbstractSolver = "rkf45",
    rtol: Any = 1e-10,
    atol: Any = 1e-10,
    max_steps: int = 65536,
    throw: bool = True,
) -> DAETracking:
    """`track` by the index-1 equations in joint variables (Ehsani 2016, section 4-4 C).

    Unknowns of each right-hand side are the accelerations of all joint variables, the
    multipliers of the rhythm's constraints and the torques, from one linear system (see
    `dae.Constrained.servo`). Other arguments as for `track`.

    - `stabilisation`: "projection" moves the speeds onto the constraints after each step, as
      the manuscript does; "baumgarte" pulls positions and speeds back with α = β = 50/s.
    """
    follow = as_reference(model, reference)
    when = times(ts)
    check_times(follow, when)
    desired = along(follow, when)
    check_range(model, when, desired)
    start = desired.q[0] if q0 is None else state_vector("q0", q0, model)
    rate = desired.qd[0] if qd0 is None else state_vector("qd0", qd0, model)
    law = ComputedTorque(model, follow, as_gains(model, gains))
    found = simulate_dae(
        as_dae(model, stabilisation),
        start,
        rate,
        when,
        servo=law.acceleration,
        solver=solver,
        projection="velocity" if stabilisation == "projection" else "none",
        rtol=jnp.asarray(rtol, dtype=float),
        atol=jnp.asarray(atol, dtype=float),
        max_steps=max_steps,
        throw=throw,
    )
    assert found.torques is not None
    return DAETracking(
        when, found.q, found.qd, found.f, found.torques, desired, found.drift, found.stats
    )
