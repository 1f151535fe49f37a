"""Chord iteration for the implicit stages of Runge-Kutta solvers."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx
from jaxtyping import Array, PyTree


class _ChordState(eqx.Module):
    operator: lx.AbstractLinearOperator
    factors: PyTree
    size: Array
    rate: Array
    count: Array
    result: optx.RESULTS


class StageChord(optx.AbstractRootFinder):
    """Newton's iteration with the Jacobian and its factorisation held for a whole step.

    Works like `diffrax.VeryChord` and may replace it in any implicit Diffrax solver, but
    goes on until it has converged: that of Diffrax 0.7.2 gives up whenever two
    iterations were not enough, which rejects good steps at tight tolerances. Sizes are
    measured in units of atol + rtol |x|. With update sizes s_k and θ = s_k / s_{k-1},
    it has converged when s_k < κ, or when the error left, θ s_k / (1 - θ), is below κ;
    it has diverged when θ > 2 or a value is not finite (Hairer and Wanner, Solving
    Ordinary Differential Equations II, IV.8).

    **Arguments:** `rtol`, `atol`, the `norm` of scaled updates, κ as `kappa`, and the
    `linear_solver`. Wrap it as `diffrax.with_stepsize_controller_tols(StageChord)()` to
    take the first three over from the step size controller.
    """

    rtol: float
    atol: float
    norm: Callable[[PyTree], Array] = optx.max_norm
    kappa: float = 1e-2
    linear_solver: lx.AbstractLinearSolver = lx.AutoLinearSolver(well_posed=None)

    def init(
        self,
        fn: Callable,
        y: PyTree,
        args: PyTree,
        options: dict[str, Any],
        f_struct: PyTree,
        aux_struct: PyTree,
        tags: frozenset[object],
    ) -> _ChordState:
        """The factorised Jacobian at y, or the one handed over as `options["init_state"]`."""
        del f_struct, aux_struct
        if "init_state" in options:
            return options["init_state"]
        operator = lx.linearise(
            lx.JacobianLinearOperator(lambda x, a: fn(x, a)[0], y, args, tags=tags)
        )
        arrays, static = eqx.partition(self.linear_solver.init(operator, options={}), eqx.is_array)
        dtype = jnp.finfo(jnp.result_type(float, *jax.tree.leaves(y))).dtype
        return _ChordState(
            operator=operator,
            factors=eqx.combine(jax.lax.stop_gradient(arrays), static),
            size=jnp.asarray(jnp.inf, dtype),
            rate=jnp.asarray(0.0, dtype),
            count=jnp.asarray(0),
            result=optx.RESULTS.successful,
        )

    def step(
        self,
        fn: Callable,
        y: PyTree,
        args: PyTree,
        options: dict[str, Any],
        state: _ChordState,
        tags: frozenset[object],
    ) -> tuple[PyTree, _ChordState, Any]:
        """One update with the held factorisation."""
        del options, tags
        value, aux = fn(y, args)
        factors = jax.lax.stop_gradient(state.factors)
        solution = lx.linear_solve(
            state.operator, value, self.linear_solver, state=factors, throw=False
        )
        y = jax.tree.map(lambda a, b: a - b, y, solution.value)
        with jax.numpy_dtype_promotion("standard"):
            scaled = jax.tree.map(
                lambda d, a: d / (self.atol + self.rtol * jnp.abs(a)), solution.value, y
            )
            size = self.norm(scaled).astype(state.size.dtype)
        state = _ChordState(
            operator=state.operator,
            factors=state.factors,
            size=size,
            # two zero updates in a row are convergence, not 0/0
            rate=size / jnp.where(state.size == 0, 1, state.size),
            count=state.count + 1,
            result=optx.RESULTS.promote(solution.result),
        )
        return y, state, aux

    def terminate(
        self,
        fn: Callable,
        y: PyTree,
        args: PyTree,
        options: dict[str, Any],
        state: _ChordState,
        tags: frozenset[object],
    ) -> tuple[Array, optx.RESULTS]:
        """Whether to stop, and whether that is a success."""
        del fn, y, args, options, tags
        settled = (state.count >= 2) & (state.rate < 1)
        left = state.size * state.rate / jnp.where(settled, 1 - state.rate, 1)
        converged = (state.size < self.kappa) | (settled & (left < self.kappa))
        started = state.count >= 1
        diverged = started & ~converged & ~(state.rate <= 2)
        result = optx.RESULTS.where(
            diverged, optx.RESULTS.nonlinear_divergence, optx.RESULTS.successful
        )
        failed = state.result != optx.RESULTS.successful
        result = optx.RESULTS.where(failed, state.result, result)
        return failed | diverged | (started & converged), result

    def postprocess(
        self,
        fn: Callable,
        y: PyTree,
        aux: Any,
        args: PyTree,
        options: dict[str, Any],
        state: _ChordState,
        tags: frozenset[object],
        result: optx.RESULTS,
    ) -> tuple[PyTree, Any, dict[str, Any]]:
        """Nothing to add."""
        del fn, args, options, state, tags, result
        return y, aux, {}
