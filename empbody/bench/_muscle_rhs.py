"""Right-hand side of a shoulder with its Hill muscles, wrapping included."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics import forward_dynamics
from ..model import Model
from ..models import shoulder
from ..muscles import initial_muscle_state
from ..muscles._forces import without_muscles
from ..simulation._muscles import Drive, muscle_rates
from ._moment_arms import poses, tabulated
from ._timing import Figure, at_length, interleaved

_BATCH = 1024
_REPEATS = 5
_TIMES = 20
"""How often a whole batch is run in one measurement."""


def run() -> dict[str, Figure]:
    wrapped = shoulder("holzbaur", wrapping=True)
    models = (wrapped, tabulated(wrapped), shoulder("holzbaur", wrapping=False))
    samples = interleaved([at_length(_work(model), _TIMES) for model in models], _REPEATS)
    each = 1e6 / (_TIMES * _BATCH)
    exact, looked_up, straight = ([t * each for t in times] for times in samples)
    note = {"batch": _BATCH, "without_wrapping_us": float(np.median(straight))}
    return {
        "rhs_shoulder_muscles_batched_us": Figure.of(exact, **note),
        "rhs_shoulder_muscles_tabulated_batched_us": Figure.of(looked_up, **note),
    }


def _work(model: Model) -> Any:
    """Accelerations and rates of the muscles' states at random poses, all muscles half
    excited, each state in balance at the first pose."""
    q = jnp.asarray(poses(_BATCH))
    qd = jnp.asarray(np.random.default_rng(1).normal(size=q.shape))
    state = initial_muscle_state(model, q[0])
    drive = Drive(jnp.full(model.nm, 0.5), False)

    def rates(q: Any, qd: Any) -> Any:
        pull, rate = muscle_rates(model, drive, 0.0, q, qd, state)
        return forward_dynamics(without_muscles(model), q, qd, pull), rate

    run = jax.jit(jax.vmap(rates))
    return lambda: run(q, qd)
