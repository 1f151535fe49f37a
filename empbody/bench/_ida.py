"""The squeezer as our ODE against SUNDIALS' IDA on the DAE, at equal accuracy.

IDA gets the same mechanics in joint variables, as compiled residual and Jacobian, in two
stabilised forms of which the quicker counts: the constraint twice differentiated (index 1),
and that of Gear, Gupta and Leimkuhler (1985), with the constraint and its rate both kept and
an extra multiplier (index 2).
"""

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dae import Constrained, constrained
from ..dae._constraints import slopes
from ..dynamics import inverse_dynamics
from ..models import Q0_TEST_SET, SqueezerLoop, squeezer
from ..simulation import simulate
from ._squeezer import ACCURACY, TIMES, loosest, reference
from ._timing import Figure, interleaved, seconds

KEY = "squeezer_speedup_vs_ida"
_CALLS = 1000
_REPEATS = 9
_NOT_TESTED = 1e6
"""Absolute tolerance of multipliers: large enough to keep them out of the error test."""


class Problem(NamedTuple):
    """F(y, ẏ) = 0 with y = (f, ḟ, λ) or (f, ḟ, λ, μ)."""

    residual: Callable[[Array, Array], Array]
    jacobian: Callable[[Array, Array, Array], Array]
    """∂F/∂y + c ∂F/∂ẏ"""
    y0: Float[np.ndarray, " n"]
    yp0: Float[np.ndarray, " n"]
    algebraic: np.ndarray
    """Places of the multipliers."""


def problem(dae: Constrained, q0: float, stabilised: bool) -> Problem:
    """Index 1, or `stabilised`: the form of Gear, Gupta and Leimkuhler."""
    nj, nc = dae.model.nj, dae.n_constraints

    def residual(y: Array, yp: Array) -> Array:
        f, fd, pull, shift = jnp.split(y, (nj, 2 * nj, 2 * nj + nc))
        speed, fdd = yp[:nj], yp[nj : 2 * nj]
        g, jacobian, rate, curvature = slopes(dae.loop, f, fd)
        need = inverse_dynamics(dae.tree, f, fd, fdd, elements=True) + jacobian.T @ pull
        if stabilised:
            return jnp.concatenate([speed - fd + jacobian.T @ shift, need, g, rate])
        return jnp.concatenate([speed - fd, need, jacobian @ fdd + curvature])

    def jacobian(y: Array, yp: Array, c: Array) -> Array:
        return jax.jacfwd(lambda d: residual(y + d, yp + c * d))(jnp.zeros_like(y))

    f, fd = dae.start(jnp.asarray([q0]), jnp.zeros(1))
    found = dae.accelerations(0.0, f, fd)
    extra = nc if stabilised else 0
    y0 = np.concatenate([f, fd, found.multipliers, np.zeros(extra)])
    yp0 = np.concatenate([fd, found.fdd, np.zeros(nc + extra)])
    return Problem(jax.jit(residual), jax.jit(jacobian), y0, yp0, np.arange(2 * nj, len(y0)))


class Solved(NamedTuple):
    """What IDA found, and what it took."""

    q: Float[np.ndarray, "rows 1"]
    residuals: int
    """calls of the residual"""
    jacobians: int
    callbacks: float
    """time spent in both (s)"""


class Ida:
    """IDA on a problem: calls of its residual and Jacobian go through Python."""

    def __init__(self, solver: Any, given: Problem):
        """`solver` is the class `sksundae.ida.IDA`."""
        self._solver = solver
        self.given = given
        self.calls = [0, 0]
        self.spent = 0.0

    def _residual(self, t: float, y: Any, yp: Any, res: Any) -> None:
        begin = time.perf_counter()
        res[:] = self.given.residual(y, yp)
        self.calls[0] += 1
        self.spent += time.perf_counter() - begin

    def _jacobian(self, t: float, y: Any, yp: Any, res: Any, cj: Any, out: Any) -> None:
        begin = time.perf_counter()
        out[:, :] = self.given.jacobian(y, yp, cj)
        self.calls[1] += 1
        self.spent += time.perf_counter() - begin

    def solve(self, tolerance: Any) -> Solved:
        """**Raises:** `RuntimeError` where IDA gives up."""
        tolerance = float(tolerance)
        absolute = np.full(len(self.given.y0), tolerance)
        absolute[self.given.algebraic] = _NOT_TESTED
        solver = self._solver(
            self._residual,
            jacfn=self._jacobian,
            algebraic_idx=self.given.algebraic.tolist(),
            rtol=tolerance,
            atol=absolute,
            max_num_steps=100_000,
        )
        self.calls, self.spent = [0, 0], 0.0
        found = solver.solve(TIMES, self.given.y0, self.given.yp0)
        if not found.success or len(found.t) != len(TIMES):
            raise RuntimeError(f"IDA stopped at {found.t[-1]:.3g} s: {found.message}")
        residuals, jacobians = self.calls
        return Solved(np.asarray(found.y)[:, :1], residuals, jacobians, self.spent)


def compiled_seconds(given: Problem) -> tuple[float, float]:
    """One evaluation of residual and of Jacobian in a compiled loop."""
    yp = jnp.asarray(given.yp0)

    def turns(function: Callable[[Array], Array]) -> float:
        @jax.jit
        def loop(y: Array) -> Array:
            # The next state depends on all results before: nothing can be left out.
            return jax.lax.fori_loop(0, _CALLS, lambda _, y: y + 1e-30 * jnp.sum(function(y)), y)

        y = jnp.asarray(given.y0)
        jax.block_until_ready(loop(y))
        return min(seconds(lambda: loop(y)) for _ in range(3)) / _CALLS

    scale = jnp.asarray(1e3)
    return turns(lambda y: given.residual(y, yp)), turns(lambda y: given.jacobian(y, yp, scale))


def run() -> dict[str, Figure]:
    try:
        solver: Any = importlib.import_module("sksundae.ida").IDA
    except ImportError:
        return _missing("SUNDIALS (pip: scikit-sundae) is not installed")
    model = squeezer(rhythm="fourier")
    dae = constrained(squeezer(), SqueezerLoop(), alpha=0.0, beta=0.0)
    forms = {
        "index 1": Ida(solver, problem(dae, Q0_TEST_SET, False)),
        "Gear-Gupta-Leimkuhler": Ida(solver, problem(dae, Q0_TEST_SET, True)),
    }
    truth = reference()
    q0, zero = np.array([Q0_TEST_SET]), np.zeros(1)

    def ours(tol: Any) -> Any:
        return simulate(model, q0, zero, TIMES, rtol=tol, atol=tol)

    mine = loosest(ours, truth)
    reached = {form: loosest(peer.solve, truth) for form, peer in forms.items()}
    ready = {form: tol for form, tol in reached.items() if tol is not None}
    if mine is None or not ready:
        return _missing(f"no tolerance of the ladder reaches {ACCURACY} rad")
    spent: dict[str, list[Solved]] = {form: [] for form in ready}
    works: list[Callable[[], Any]] = [lambda: ours(mine).q]
    works += [lambda f=f, t=t: spent[f].append(forms[f].solve(t)) for f, t in ready.items()]
    fast, *slow = interleaved(works, _REPEATS)
    times = dict(zip(ready, slow, strict=True))
    form = min(times, key=lambda f: _ms(times[f]))
    solved = spent[form][1:]  # the first one warmed up
    counts = np.array([solved[0].residuals, solved[0].jacobians])
    needed = compiled_seconds(forms[form].given)
    compiled = float(counts @ np.array(needed))
    bare = [t - s.callbacks + compiled for t, s in zip(times[form], solved, strict=True)]
    more: dict[str, Any] = {
        "form": form,
        "ode_ms": _ms(fast),
        "ode_tolerance": mine,
        "ida_tolerance": ready[form],
        "residual_calls": solved[0].residuals,
        "jacobian_calls": solved[0].jacobians,
    }
    forms_ms = {f: _ms(t) for f, t in times.items()}
    compiled_us = [1e6 * t for t in needed]
    return {
        KEY: Figure.ratio(times[form], fast, **more, ida_ms=_ms(times[form]), forms_ms=forms_ms),
        f"{KEY}_without_python": Figure.ratio(
            bare, fast, **more, ida_ms=_ms(bare), compiled_us=compiled_us
        ),
    }


def _missing(reason: str) -> dict[str, Figure]:
    return {key: Figure.missing(reason) for key in (KEY, f"{KEY}_without_python")}


def _ms(times: Sequence[float]) -> float:
    return float(np.median(times)) * 1e3
