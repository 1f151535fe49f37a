"""The dual of force sharing: nq multipliers by a safeguarded semismooth Newton method.

The dual is concave and, for a cost in squares, piecewise quadratic, so Newton's method with a
line search ends after a few active sets. Samples are the last axis ("lanes").
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..dynamics._batching import lanes_under_vmap
from ..dynamics._solve import solve_positive
from ..kinematics._lanes import lanes_last
from ._problem import (
    Problem,
    answer,
    answer_and_slope,
    beyond_reach,
    curvature,
    imbalance,
    pseudo_inverse,
    times,
    transposed_times,
)

MOST_STEPS = 40
"""Newton steps at most, and twice as many again for the last resort; a few are usual."""
_FIRST_RESORT = 1e5
"""How much more compliance than the last resort's a lost lane begins with. It falls to the last
one tenfold at a time: nearly all muscles stand at a bound then, and Newton's method must
know beforehand which do not."""
_SHORTENINGS = 6
_REFINEMENTS = 2
_DONE = 450
"""Imbalance that counts as none, in units of rounding of the scaled torques."""


class Climb(NamedTuple):
    """Where the climb on the dual stands, lane by lane."""

    multipliers: Float[Array, "nq lanes"]
    z: Float[Array, "nm lanes"]
    slope: Float[Array, "nm lanes"]
    """da/dz"""
    ahead: Float[Array, "nq lanes"]
    """Imbalance: the dual's gradient."""
    miss: Float[Array, " lanes"]
    """Its largest entry."""
    proof: Bool[Array, " lanes"]
    """Whether muscles alone are proved unable."""
    steps: Int[Array, " lanes"]
    busy: Bool[Array, " lanes"]
    resort: Float[Array, " lanes"]
    """Compliance in units of the last resort's; 0 as long as the demand may be met."""


def first_guess(problem: Problem, cubed: bool) -> Array:
    """Multipliers that would balance if activations had no bounds."""
    n = problem.demand.shape[0]
    eye = jnp.eye(n, dtype=problem.demand.dtype)[..., None]
    least = jnp.sum(problem.effect * problem.offset[None], axis=1)
    matrix = curvature(problem, problem.gain) + 1e-6 * eye
    multipliers = solve_positive(matrix, problem.demand - least)
    if not cubed:
        return multipliers
    # The direction is kept; its length is such that the work of the demand is met.
    z = transposed_times(problem.effect, multipliers)
    work = jnp.sum(z * jnp.sqrt(jnp.maximum(problem.gain * z, 0.0)), axis=0)
    asked = jnp.sum(multipliers * problem.demand, axis=0)
    ratio = asked / jnp.where(work > 0.0, work, 1.0)
    return multipliers * jnp.where(work > 0.0, jnp.clip(ratio, 1e-6, 1e2) ** 2, 1.0)[None]


def climb(problem: Problem, cubed: bool) -> Climb:
    """Multipliers of all lanes; where the demand cannot be met, those of the last resort."""
    dtype = problem.demand.dtype
    eps = float(jnp.finfo(dtype).eps)
    n, lanes = problem.demand.shape
    eye = jnp.eye(n, dtype=dtype)[..., None]
    no_reserves = jnp.all(problem.compliance == 0.0, axis=0)

    def look(multipliers: Array, resort: Array, steps: Array, busy: Array) -> Climb:
        soft = softened(problem, resort[None])
        z = transposed_times(soft.effect, multipliers)
        a, slope = answer_and_slope(soft, z, cubed)
        ahead = soft.demand - times(soft.effect, a) - soft.compliance * multipliers
        miss = jnp.max(jnp.abs(ahead), axis=0)
        proof = beyond_reach(soft, z, multipliers)
        return Climb(multipliers, z, slope, ahead, miss, proof, steps, busy, resort)

    def judged(new: Climb, last_miss: Array) -> Climb:
        tolerance = rounding(new.multipliers)
        # Rounding may leave a little more than the tolerance; then steps stop helping.
        stuck = (new.miss < 30.0 * tolerance) & (new.miss > 0.5 * last_miss)
        tolerance = jnp.where(new.resort > 1.0, jnp.maximum(tolerance, 1e-6), tolerance)
        lost = new.resort > 0.0
        hopeless = new.proof & no_reserves & ~lost
        most = jnp.where(lost, 3 * MOST_STEPS, MOST_STEPS)
        on = (new.miss > tolerance) & ~stuck & ~hopeless & (new.steps < most)
        return new._replace(busy=new.busy & on)

    def step(state: Climb) -> Climb:
        soft = softened(problem, state.resort[None])
        # A little of the identity, for where too few muscles are free to answer and no
        # reserve does.
        stiffest = jnp.min(soft.compliance, axis=0)
        ridge = jnp.where(stiffest > 0.0, 0.0, 1e-3 * jnp.minimum(state.miss, 1.0)) + 64 * eps
        matrix = curvature(soft, state.slope) + eye * ridge[None, None]
        way = solve_positive(matrix, state.ahead)
        share = _share_of_step(soft, state, way, cubed)
        moved = state.multipliers + share[None] * way
        multipliers = jnp.where(state.busy[None], moved, state.multipliers)
        steps = state.steps + state.busy
        new = judged(look(multipliers, state.resort, steps, state.busy), state.miss)
        ended = state.busy & ~new.busy
        lost = ended & (new.resort == 0.0) & ~(new.miss <= met(new.multipliers))
        further = ended & (new.resort > 1.0) & (new.steps < 3 * MOST_STEPS)
        return jax.lax.cond(
            jnp.any(lost | further), lambda: resorting(new, lost, further), lambda: new
        )

    def resorting(state: Climb, lost: Array, further: Array) -> Climb:
        less = jnp.maximum(0.1 * state.resort, 1.0)
        resort = jnp.where(lost, _FIRST_RESORT, jnp.where(further, less, state.resort))
        multipliers = jnp.where(lost[None], _first_resort(problem, state), state.multipliers)
        return look(multipliers, resort, state.steps, state.busy | lost | further)

    guess = first_guess(problem, cubed)
    nowhere = jnp.zeros(lanes, dtype=dtype)
    steps = jnp.zeros(lanes, dtype=jnp.int32)
    sound = jnp.all(jnp.isfinite(guess), axis=0)
    state = look(guess, nowhere, steps, sound)
    state = state._replace(busy=sound & (state.miss > rounding(guess)))
    return jax.lax.while_loop(lambda s: jnp.any(s.busy), step, state)


def rounding(multipliers: Array) -> Array:
    """Scaled imbalance that is left by rounding."""
    eps = float(jnp.finfo(multipliers.dtype).eps)
    return eps * (_DONE + 8.0 * jnp.max(jnp.abs(multipliers), axis=0))


def softened(problem: Problem, resort: Array) -> Problem:
    """The problem with so many times the last resort in the place of absent reserves.

    On the way to the last resort, expensive reserves are made as cheap.
    """
    own, soft = problem.compliance, resort * problem.last_resort
    helped = jnp.where(resort > 1.0, jnp.maximum(own, soft), own)
    return problem._replace(compliance=jnp.where(own == 0.0, soft, helped))


def _first_resort(problem: Problem, state: Climb) -> Array:
    """Multipliers to begin with: along a proof of a gap, the gap over ε."""
    z, multipliers = state.z, state.multipliers
    most = jnp.sum(jnp.maximum(z * problem.lower, z * problem.upper), axis=0)
    gap = jnp.sum(multipliers * problem.demand, axis=0) - most
    weight = jnp.sum(_FIRST_RESORT * problem.last_resort * multipliers**2, axis=0)
    size = jnp.where(weight > 0.0, gap / jnp.where(weight > 0.0, weight, 1.0), 0.0)
    return multipliers * jnp.where(state.proof, size, 1.0)[None]


def _share_of_step(problem: Problem, state: Climb, way: Array, cubed: bool) -> Array:
    """Share of the Newton step at which the dual's slope along it comes to zero.

    The slope falls along the step. If it is still up at the end, the whole step is taken.
    Else it is looked at after shorter ones; between the two where it changes sign, it is
    closed in on by regula falsi.
    """
    z, dz = state.z, transposed_times(problem.effect, way)
    fixed = jnp.sum(way * (problem.demand - problem.compliance * state.multipliers), axis=0)
    bend = jnp.sum(way * problem.compliance * way, axis=0)
    at_start = jnp.sum(way * state.ahead, axis=0)

    def slope(t: Array) -> Array:
        return fixed - t * bend - jnp.sum(dz * answer(problem, z + t[None] * dz, cubed), axis=0)

    at_end = slope(jnp.ones_like(fixed))
    whole = (at_end >= -1e-3 * at_start) | ~state.busy

    def search() -> Array:
        shares = 0.25 ** jnp.arange(1, _SHORTENINGS, dtype=z.dtype)[:, None]
        slopes = jax.vmap(slope)(jnp.broadcast_to(shares, (_SHORTENINGS - 1, z.shape[-1])))
        up = slopes >= 0.0
        low = jnp.max(jnp.where(up, shares, 0.0), axis=0)
        high = jnp.min(jnp.where(up, 1.0, shares), axis=0)
        low_slope = jnp.min(jnp.where(up, slopes, at_start[None]), axis=0)
        high_slope = jnp.max(jnp.where(up, at_end[None], slopes), axis=0)
        share = high
        for _ in range(_REFINEMENTS):
            gap = low_slope - high_slope
            part = jnp.where(gap > 0.0, low_slope / jnp.where(gap > 0.0, gap, 1.0), 0.5)
            share = low + (high - low) * jnp.clip(part, 0.1, 0.9)
            now = slope(share)
            climbs = now >= 0.0
            low, high = jnp.where(climbs, share, low), jnp.where(climbs, high, share)
            low_slope = jnp.where(climbs, now, low_slope)
            high_slope = jnp.where(climbs, high_slope, now)
        return jnp.where(whole, 1.0, jnp.where(low > 0.0, low, share))

    return jax.lax.cond(jnp.all(whole), lambda: jnp.ones_like(fixed), search)


class Found(NamedTuple):
    """Solution of one problem."""

    multipliers: Float[Array, " nq"]
    close: Float[Array, ""]
    """1 where the imbalance is down to rounding."""
    proof: Float[Array, ""]
    """1 where the multipliers prove that muscles alone cannot meet the demand."""
    gave_up: Float[Array, ""]
    """1 where `Problem.last_resort` was taken for the reserves' compliance."""
    steps: Float[Array, ""]


def met(multipliers: Array) -> Array:
    """Largest scaled imbalance that counts as balance."""
    return jnp.maximum(1e-11, 30.0 * rounding(multipliers))


def _solve_lanes(problem: Problem, cubed: bool) -> Float[Array, "rows lanes"]:
    end = climb(problem, cubed)
    close = (end.miss <= met(end.multipliers)) & (end.resort <= 1.0)
    rest = [close, end.proof, end.resort > 0.0, end.steps]
    return jnp.concatenate([end.multipliers, jnp.stack([x.astype(end.miss.dtype) for x in rest])])


def _lanes(cubed: bool):
    def run(problem: Problem, batched: Any, size: int) -> Array:
        moved = jax.tree.map(lanes_last, problem, batched)
        wide = [jnp.broadcast_to(x, (*x.shape[:-1], size)) for x in moved]
        return _solve_lanes(Problem(*wide), cubed)

    return lanes_under_vmap(run, batches_well=True)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _packed(problem: Problem, cubed: bool) -> Float[Array, " rows"]:
    return _lanes(cubed)(problem)


@_packed.defjvp
def _(cubed: bool, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The imbalance stays zero: (B D Bᵀ + ε) dλ = change of the imbalance at fixed λ."""
    (problem,), (change,) = primals, tangents
    rows = _packed(problem, cubed)
    n = problem.demand.shape[0]
    multipliers, gave_up = rows[:n], rows[n + 2]
    soft = softened(problem, gave_up)
    taken = (gave_up > 0.0) & (problem.compliance == 0.0)
    slack = jnp.where(taken, change.last_resort, change.compliance)
    change = change._replace(compliance=slack)
    _, shift = jax.jvp(lambda p: imbalance(p, multipliers, cubed), (soft,), (change,))
    slope = answer_and_slope(soft, transposed_times(soft.effect, multipliers), cubed)[1]
    moved = times(pseudo_inverse(curvature(soft, slope)), shift)
    return rows, jnp.concatenate([moved, jnp.zeros_like(rows[n:])])


def solve(problem: Problem, cubed: bool) -> Found:
    """Multipliers of one problem, differentiated implicitly.

    Under `jax.vmap` a batch is solved as a whole, in chunks.
    """
    rows = _packed(problem, cubed)
    n = problem.demand.shape[0]
    return Found(rows[:n], *rows[n:])
