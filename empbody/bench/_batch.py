"""How much lanes wait in a batch of adaptive simulations."""

import jax
import jax.numpy as jnp
import numpy as np

from ..batch import simulate_batch
from ..simulation import Solution, simulate
from ._timing import Figure
from ._trees import shoulder_sized

_RUNS, _CHUNK, _LANES = 4096, 1024, 32
_TIMES = np.linspace(0.0, 1.0, 11)
_RTOL, _ATOL = 1e-6, 1e-8


def run() -> dict[str, Figure]:
    """Of shoulder-sized models that swing for a second from random starts."""
    model = shoulder_sized()
    rng = np.random.default_rng(0)
    q0, qd0 = 0.4 * rng.normal(size=(_RUNS, 3)), 2.0 * rng.normal(size=(_RUNS, 3))
    batch = simulate_batch(
        model, q0, qd0, _TIMES, rtol=_RTOL, atol=_ATOL, batch_size=_CHUNK, lanes=_LANES
    )

    def alone(q: jax.Array, qd: jax.Array) -> Solution:
        return simulate(model, q, qd, _TIMES, rtol=_RTOL, atol=_ATOL, throw=False)

    steps = np.asarray(jax.vmap(alone)(jnp.asarray(q0), jnp.asarray(qd0)).stats["num_steps"])
    return {
        "batch_waiting_fraction": Figure.of(
            [batch.stats["waiting_fraction"]],
            lanes=_LANES,
            under_vmap=float(1.0 - steps.mean() / steps.max()),
        )
    }
