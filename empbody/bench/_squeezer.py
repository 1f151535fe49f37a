"""The squeezer as our ODE against the stabilised DAE, at equal accuracy.

Both run the same solver at the loosest tolerance of a ladder that meets the accuracy; the
time is that of a warm, compiled solve with the same saved rows.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..dae import Constrained, constrained, simulate_dae
from ..model import Model
from ..models import Q0_TEST_SET, SqueezerLoop, squeezer
from ..simulation import simulate
from ._timing import Figure, interleaved

ACCURACY = 1e-5
"""RMS error of q over 0.05 s, in radians, that both must reach."""
_LADDER = 10.0 ** -np.arange(4.0, 12.01, 0.5)
_STARTS = 256
TIMES = np.linspace(0.0, 0.05, 201)
"""Saved rows (s)."""


def run() -> dict[str, Figure]:
    model = squeezer()
    fourier = squeezer(rhythm="fourier")
    dae = constrained(model, SqueezerLoop(), alpha=0.0, beta=0.0)
    q0 = np.array([Q0_TEST_SET])
    zero = np.zeros(1)
    truth = reference()

    def ode(which: Any, solver: str) -> Callable:
        return lambda tol: simulate(
            which, q0, zero, TIMES, solver=solver, rtol=tol, atol=tol, max_steps=200_000
        )

    def constraint(solver: str) -> Callable:
        return lambda tol: simulate_dae(
            dae,
            q0,
            zero,
            TIMES,
            solver=solver,
            projection="velocity",
            rtol=tol,
            atol=tol,
            throw=False,
        )

    figures = {}
    for key, solver in (
        ("squeezer_ode_over_dae", "tsit5"),  # the manuscript's way of making the rhythm
        ("squeezer_ode_over_dae_dopri8", "dopri8"),
        ("squeezer_ode_over_dae_kvaerno5", "kvaerno5"),
    ):
        figures[key] = _compare(ode(fourier, solver), constraint(solver), truth, solver=solver)
    figures["squeezer_implicit_ode_over_dae"] = _compare(
        ode(model, "tsit5"), constraint("tsit5"), truth, solver="tsit5"
    )
    figures["squeezer_ode_over_dae_batched"] = _batched(fourier, dae, figures)
    return figures


def reference() -> np.ndarray:
    """q at `TIMES` to rounding, with the loops closed exactly."""
    start = np.array([Q0_TEST_SET])
    tight: dict[str, Any] = {"solver": "dopri8", "rtol": 1e-13, "atol": 1e-13}
    return np.asarray(simulate(squeezer(), start, np.zeros(1), TIMES, **tight).q)


def _batched(model: Model, dae: Constrained, figures: dict[str, Figure]) -> Figure:
    """Many starts at once, at the tolerances that one start needed."""
    found = figures["squeezer_ode_over_dae"]
    if found["value"] is None:
        return Figure.missing("no tolerance was found for one start")
    starts = jnp.asarray(Q0_TEST_SET + np.linspace(-1e-3, 1e-3, _STARTS))[:, None]
    zero = jnp.zeros(1)

    @jax.jit
    def ours(q0: Any) -> Any:
        tol = found["ode_tolerance"]
        return simulate(model, q0, zero, TIMES, rtol=tol, atol=tol, throw=False).q

    @jax.jit
    def theirs(q0: Any) -> Any:
        tol = found["dae_tolerance"]
        return simulate_dae(dae, q0, zero, TIMES, rtol=tol, atol=tol, throw=False).q

    fast, slow = interleaved([lambda: jax.vmap(ours)(starts), lambda: jax.vmap(theirs)(starts)], 5)
    ratios = [b / a for a, b in zip(fast, slow, strict=True)]
    each = 1e3 / _STARTS
    ode_ms, dae_ms = float(np.median(fast)) * each, float(np.median(slow)) * each
    return Figure.of(ratios, starts=_STARTS, ode_ms=ode_ms, dae_ms=dae_ms)


def _compare(ours: Callable, theirs: Callable, truth: np.ndarray, **note: Any) -> Figure:
    mine, other = loosest(ours, truth), loosest(theirs, truth)
    if mine is None or other is None:
        return Figure.missing(f"no tolerance of the ladder reaches {ACCURACY} rad", **note)
    fast, slow = interleaved([lambda: ours(mine).q, lambda: theirs(other).q], 9)
    ratios = [b / a for a, b in zip(fast, slow, strict=True)]
    return Figure.of(
        ratios,
        **note,
        ode_ms=float(np.median(fast)) * 1e3,
        dae_ms=float(np.median(slow)) * 1e3,
        ode_tolerance=float(mine),
        dae_tolerance=float(other),
        ode_steps=int(ours(mine).stats["num_steps"]),
        dae_steps=int(theirs(other).stats["num_steps"]),
    )


def loosest(solve: Callable, truth: np.ndarray) -> float | None:
    """The first tolerance of the ladder that meets the accuracy."""
    for tolerance in _LADDER:
        error = np.sqrt(np.mean((np.asarray(solve(jnp.asarray(tolerance)).q) - truth) ** 2))
        if error < ACCURACY:
            return float(tolerance)
    return None
