"""Levenberg-Marquardt with bounds for many small problems at once.

Problems stand side by side on the last axis ("lanes"). A coordinate that stands at a bound
and is pushed beyond it is left out of the step, and steps are cut at the bounds; so a
solution satisfies the first-order conditions of the bounded problem.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..dynamics._solve import solve_positive


class Normal(NamedTuple):
    """½ Σ r² of every lane with its gradient and Gauss-Newton matrix."""

    cost: Float[Array, " lanes"]
    """What is not finite counts as never better."""
    gradient: Float[Array, "nq lanes"]
    matrix: Float[Array, "nq nq lanes"]
    distances: Float[Array, "n lanes"]
    """Whatever else is wanted at the solution."""


class Found(NamedTuple):
    q: Float[Array, "nq lanes"]
    normal: Normal
    converged: Bool[Array, " lanes"]
    iterations: Int[Array, ""]


class _State(NamedTuple):
    q: Float[Array, "nq lanes"]
    here: Normal
    damping: Float[Array, " lanes"]
    growth: Float[Array, " lanes"]
    """Factor of the damping after a step that fails."""
    done: Bool[Array, " lanes"]
    round: Int[Array, ""]


_FIRST, _LEAST, _MOST = 1e-3, 1e-12, 1e12


def least_squares(
    normal: Callable[[Float[Array, "nq lanes"]], Normal],
    q0: Float[Array, "nq lanes"],
    n: int,
    lower: Float[Array, "nq 1"],
    upper: Float[Array, "nq 1"],
    tolerance: Float[Array, ""] | float,
    max_iterations: int,
) -> Found:
    """Minimise from q0 until no coordinate moves by more than `tolerance`, or until a step
    lowers the cost by less than its share `tolerance`.

    The damping follows the ratio of the gain to the one predicted (Nielsen 1999, Damping
    parameter in Marquardt's method).
    `n` is the number of distances. Lanes that are done stand still while others go on.
    Not differentiable.
    """
    nq, lanes = q0.shape
    start = jnp.clip(q0, lower, upper)
    # The first round evaluates the start; so the function is compiled only once.
    here = Normal(
        jnp.full(lanes, jnp.inf, dtype=q0.dtype),
        jnp.zeros((nq, lanes), dtype=q0.dtype),
        jnp.zeros((nq, nq, lanes), dtype=q0.dtype),
        jnp.full((n, lanes), jnp.nan, dtype=q0.dtype),
    )

    def advance(state: _State) -> _State:
        step, predicted = _step(state, lower, upper)
        trial = jnp.clip(state.q + step, lower, upper)
        there = normal(trial)
        first = state.round == 0
        gain = jnp.where(first, 0.0, state.here.cost - there.cost)
        better = there.cost < state.here.cost
        moved = jnp.max(jnp.abs(trial - state.q), axis=0)
        # A short step that brings nothing is as far as rounding lets one go.
        small = (moved <= tolerance) | (better & (gain <= tolerance * state.here.cost))
        take = better & ~state.done
        ratio = gain / jnp.where(predicted > 0, predicted, 1.0)
        ease = jnp.maximum(0.2, 1.0 - (2.0 * jnp.minimum(ratio, 1.0) - 1.0) ** 3)
        damping = state.damping * jnp.where(better, jnp.where(first, 1.0, ease), state.growth)
        return _State(
            q=jnp.where(take[None], trial, state.q),
            here=_choose(take, there, state.here),
            damping=jnp.clip(damping, _LEAST, _MOST),
            growth=jnp.where(better, 2.0, 2.0 * state.growth),
            done=state.done | (small & ~first),
            round=state.round + 1,
        )

    def going(state: _State) -> Bool[Array, ""]:
        return jnp.any(~state.done) & (state.round < max_iterations)

    damping = jnp.full(lanes, _FIRST, dtype=q0.dtype)
    growth = jnp.full(lanes, 2.0, dtype=q0.dtype)
    state = _State(start, here, damping, growth, jnp.zeros(lanes, dtype=bool), jnp.asarray(0))
    state = jax.lax.while_loop(going, advance, state)
    return Found(state.q, state.here, state.done & jnp.isfinite(state.here.cost), state.round)


def _step(
    state: _State, lower: Array, upper: Array
) -> tuple[Float[Array, "nq lanes"], Float[Array, " lanes"]]:
    """The damped step of what may move, and how much it should lower the cost."""
    q, damping = state.q, state.damping
    gradient, matrix = state.here.gradient, state.here.matrix
    stuck = ((q <= lower) & (gradient > 0)) | ((q >= upper) & (gradient < 0))
    free = (~stuck).astype(q.dtype)
    matrix = matrix * free[:, None] * free[None]
    diagonal = jnp.stack([matrix[i, i] for i in range(q.shape[0])])
    largest = jnp.max(diagonal, axis=0)
    # What no residual depends on still needs a pivot; it then stays where it is.
    tiny = jnp.asarray(jnp.finfo(q.dtype).tiny, dtype=q.dtype) ** 0.5
    floor = jnp.maximum(1e-9 * largest, tiny)[None]
    scale = jnp.maximum(diagonal, floor)
    eye = jnp.eye(q.shape[0], dtype=q.dtype)[:, :, None]
    added = damping[None] * scale + floor
    step = solve_positive(matrix + eye * added[None], -gradient * free)
    step = jnp.where(jnp.isfinite(step), step, 0.0)
    return step, 0.5 * jnp.sum(step * (added * step - gradient * free), axis=0)


def _choose(take: Bool[Array, " lanes"], yes: Normal, no: Normal) -> Normal:
    return Normal(
        jnp.where(take, yes.cost, no.cost),
        jnp.where(take[None], yes.gradient, no.gradient),
        jnp.where(take[None, None], yes.matrix, no.matrix),
        jnp.where(take[None], yes.distances, no.distances),
    )
