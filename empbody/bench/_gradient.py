"""Reverse-mode gradient of a rollout to all parameters of a rhythm, against the rollout."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..model import Model
from ..simulation import simulate
from ._timing import Figure, compile_seconds, interleaved
from ._trees import shoulder_sized

_TIMES = np.linspace(0.0, 0.1, 11)
_STEP = 1e-3
_BATCH = 512
_REPEATS = 9


def run() -> dict[str, Figure]:
    model = shoulder_sized()
    q0 = jnp.array([0.1, 0.3, -0.2])
    starts = q0[None] + 0.1 * jnp.asarray(np.random.default_rng(0).normal(size=(_BATCH, 3)))

    def cost(rhythm: Any, starts: Any) -> Any:
        return jnp.sum(jax.vmap(lambda q: _cost(model.with_rhythm(rhythm), q))(starts))

    def one(rhythm: Any, q: Any) -> Any:
        return _cost(model.with_rhythm(rhythm), q)

    figures = {
        "grad_over_forward": _ratio(cost, model.rhythm, starts, batch=_BATCH),
        "grad_over_forward_single": _ratio(one, model.rhythm, q0, batch=1),
    }
    gradient = eqx.filter_value_and_grad(one)
    times = [compile_seconds(lambda q: gradient(model.rhythm, q), q0) for _ in range(2)]
    return figures | {"compile_grad_s": Figure.of(times)}


def _cost(model: Model, q0: Any) -> Any:
    """Of 100 steps of Tsit5 over 0.1 s, seen at 11 instants."""
    out = simulate(model, q0, jnp.zeros(3), _TIMES, fixed_step=_STEP, throw=False)
    return jnp.sum(out.q**2)


def _ratio(cost: Any, rhythm: Any, starts: Any, batch: int) -> Figure:
    forward, gradient = jax.jit(cost), jax.jit(jax.value_and_grad(cost))
    works = [lambda: forward(rhythm, starts), lambda: gradient(rhythm, starts)]
    fast, slow = interleaved(works, _REPEATS)
    ratios = [b / a for a, b in zip(fast, slow, strict=True)]
    return Figure.of(
        ratios,
        batch=batch,
        forward_ms=float(np.median(fast)) * 1e3,
        gradient_ms=float(np.median(slow)) * 1e3,
    )
