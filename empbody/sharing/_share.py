"""Force sharing on arrays: muscle forces that give a torque at least cost."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._dual import Found, solve
from ._problem import Problem, answer, times, transposed_times
from ._status import SharingStatus

COSTS = ("activation_squared", "activation_cubed", "force_squared")

_LAST_RESORT = 1e-7
"""Compliance of the reserve by which an infeasible demand is met, in units of the muscles'."""


class Sharing(eqx.Module):
    """How the muscles share a torque."""

    activations: Float[Array, " nm"]
    forces: Float[Array, " nm"]
    """On the skeleton, passive force included (N); pulling is positive."""
    reserves: Float[Array, " nq"]
    """Generalised forces of the reserve actuators (N m or N); 0 without any."""
    residual: Float[Array, " nq"]
    """τ - R F - reserves: rounding where balanced. Where the demand is infeasible, the
    smallest additional generalised force, in the Euclidean norm, that would meet it."""
    multipliers: Float[Array, " nq"]
    """Slope of the least cost over τ; without meaning where the demand is infeasible."""
    status: SharingStatus
    steps: Int[Array, ""]
    """Newton steps."""


class Scaling(NamedTuple):
    """What leads from a scaled problem's numbers to those of the given one."""

    rows: Float[Array, " nq"]
    """Torque (N m or N) of 1 in the scaled problem."""
    worth: Float[Array, ""]
    able: Float[Array, " nm"]
    """Capacities, 0 where they are too small to count."""
    reserve: Float[Array, " nq"]


class Given(NamedTuple):
    """Arguments as arrays of full shape."""

    arms: Float[Array, "nq nm"]
    capacity: Float[Array, " nm"]
    passive: Float[Array, " nm"]
    tau: Float[Array, " nq"]
    weights: Float[Array, " nm"]
    reserves: Float[Array, " nq"]
    lower: Float[Array, " nm"]
    upper: Float[Array, " nm"]


def _wide(what: str, value: Any, shape: tuple[int, ...], per: str) -> Array:
    array = jnp.asarray(value, dtype=float)
    if array.shape not in ((), shape):
        hint = "; batch with jax.vmap" if array.ndim > len(shape) else ""
        raise ValueError(
            f"{what} has shape {array.shape}; give one number or {shape}, one per {per}{hint}"
        )
    return jnp.broadcast_to(array, shape)


def gather(
    arms: Any,
    capacity: Any,
    passive: Any,
    tau: Any,
    cost: str,
    weights: Any,
    reserves: Any,
    lower: Any,
    upper: Any,
) -> Given:
    """Arguments of `share`, checked and broadcast."""
    if cost not in COSTS:
        raise ValueError(f"cost is {cost!r}; choose from {', '.join(map(repr, COSTS))}")
    arms = jnp.asarray(arms, dtype=float)
    if arms.ndim != 2:
        raise ValueError(f"moment arms have shape {arms.shape}; give (nq, nm), batch with jax.vmap")
    nq, nm = arms.shape
    return Given(
        arms,
        _wide("capacity", capacity, (nm,), "muscle"),
        _wide("passive", passive, (nm,), "muscle"),
        _wide("tau", tau, (nq,), "coordinate"),
        _wide("weights", 1.0 if weights is None else weights, (nm,), "muscle"),
        _wide("reserves", 0.0 if reserves is None else reserves, (nq,), "coordinate"),
        _wide("lower", lower, (nm,), "muscle"),
        _wide("upper", upper, (nm,), "muscle"),
    )


def _sound(given: Given) -> Array:
    finite = jnp.stack([jnp.all(jnp.isfinite(x)) for x in given])
    return (
        jnp.all(finite)
        & jnp.all(given.weights > 0.0)
        & jnp.all(given.capacity >= 0.0)
        & jnp.all(given.reserves >= 0.0)
        & jnp.all(given.lower >= 0.0)
        & jnp.all(given.lower <= given.upper)
    )


def scaled(given: Given, cost: str) -> tuple[Problem, Scaling]:
    """The problem with rows and worth of order 1."""
    able = given.capacity > 1e-9 * jnp.max(given.capacity)
    capacity = jnp.where(able, given.capacity, 0.0)
    effect = given.arms * capacity[None]
    demand = given.tau - times(given.arms, given.passive)
    nothing = jnp.zeros_like(capacity)
    gain, offset = 1.0 / ((3.0 if cost == "activation_cubed" else 2.0) * given.weights), nothing
    if cost == "force_squared":
        safe = jnp.where(able, capacity, 1.0)
        gain = jnp.where(able, gain / safe**2, 0.0)
        offset = jnp.where(able, -given.passive / safe, given.lower)
    fixed = jax.lax.stop_gradient
    rows = jnp.sqrt(jnp.sum(fixed(effect * given.upper[None]) ** 2, axis=1))
    largest = jnp.max(rows)
    # Without any muscle that can pull, the demand is the measure.
    largest = jnp.where(largest > 0.0, largest, 1.0 + jnp.max(jnp.abs(fixed(demand))))
    # A coordinate that muscles hardly move is not blown up to the size of the others.
    rows = jnp.where(jnp.max(rows) > 0.0, jnp.maximum(rows, 1e-6 * largest), largest)
    effect = effect / rows[:, None]
    worth = jnp.mean(jnp.sum(fixed(effect) ** 2 * fixed(gain)[None], axis=1))
    worth = jnp.where(worth > 0.0, worth, 1.0)
    reserve = given.reserves**2 / (2.0 * rows**2 * worth)
    problem = Problem(
        effect,
        demand / rows,
        gain / worth,
        offset,
        given.lower,
        given.upper,
        reserve,
        _LAST_RESORT * (largest / rows) ** 2,
    )
    return problem, Scaling(rows, worth, capacity, reserve)


def finish(
    given: Given, problem: Problem, scaling: Scaling, activations: Array, found: Found
) -> Sharing:
    """Outcome in the units of the given problem."""
    forces = given.capacity * activations + given.passive
    codes = SharingStatus
    close = found.close > 0.0
    left = given.tau - times(given.arms, forces)
    # Expensive reserves make λ large; its rounding is theirs to bear.
    exact = close & (given.reserves > 0.0)
    reserves = jnp.where(exact, left, scaling.rows * problem.compliance * found.multipliers)
    residual = left - reserves
    gave_up = (found.gave_up > 0.0) & jnp.any(given.reserves == 0.0)
    proof = found.proof > 0.0
    status = codes.where(close & ~gave_up, codes.balanced, codes.unsolved)
    status = codes.where(close & ~gave_up & proof, codes.needs_reserves, status)
    status = codes.where(close & gave_up & proof, codes.infeasible, status)
    sound = _sound(given)
    status = codes.where(sound, status, codes.bad_input)

    def told(x: Array) -> Array:
        return jnp.where(sound, x, jnp.nan)

    return Sharing(
        told(activations),
        told(forces),
        told(reserves),
        told(residual),
        told(found.multipliers / (scaling.rows * scaling.worth)),
        status,
        jnp.where(sound, found.steps, 0.0).astype(jnp.int32),
    )


def share(
    arms: Float[Array, "nq nm"],
    capacity: Float[Array, " nm"],
    passive: Float[Array, " nm"] | float,
    tau: Float[Array, " nq"],
    *,
    cost: str = "activation_squared",
    weights: Any = None,
    reserves: Any = None,
    lower: Any = 0.0,
    upper: Any = 1.0,
) -> Sharing:
    """Activations of least cost with R (a · capacity + passive) + reserves = τ.

    The problem is convex; its dual, with one unknown per coordinate, is solved by Newton's
    method, and derivatives to all arrays are those of the solution (implicit). Batch with
    `jax.vmap`.

    **Arguments:**

    - `arms`: R = -∂L/∂q (m, or m per m).
    - `capacity`: force along the tendon that full activation adds (N).
    - `passive`: force at no activation (N).
    - `tau`: generalised forces asked for (N m or N).
    - `cost`: "activation_squared" Σ w a², "activation_cubed" Σ w a³, "force_squared" Σ w F².
    - `weights`: w, one number or one per muscle; 1 if None.
    - `reserves`: optimal force of the reserve actuators (N m or N), one number or one per
      coordinate; they add Σ (reserve / optimal force)² to the cost, so small numbers make them
      expensive, and 0 means none. They need no bounds and make every demand feasible.
    - `lower`, `upper`: bounds of the activations.
    """
    return _share(gather(arms, capacity, passive, tau, cost, weights, reserves, lower, upper), cost)


@eqx.filter_jit
def _share(given: Given, cost: str) -> Sharing:
    cubed = cost == "activation_cubed"
    problem, scaling = scaled(given, cost)
    found = solve(problem, cubed)
    activations = answer(problem, transposed_times(problem.effect, found.multipliers), cubed)
    return finish(given, problem, scaling, activations, found)
