"""Force sharing by descent: the same problem by an augmented Lagrangian, with Optax.

Slower than the dual and less exact, but it needs nothing beyond gradients, so costs and
force laws that have no closed-form answer can take the same way.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ._dual import Found
from ._problem import Problem, beyond_reach, times, transposed_times
from ._share import Sharing, finish, gather, scaled


def share_by_descent(
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
    rounds: int = 60,
    steps: int = 100,
    stiffness: float = 10.0,
    tolerance: float = 1e-6,
) -> Sharing:
    """What `share` gives, by projected descent on the activations.

    `rounds` updates of the multipliers with `steps` steps of accelerated gradient descent
    each; `stiffness` weighs the imbalance in the augmented Lagrangian, relative to the
    muscles' cost. `tolerance` is the imbalance, over the muscles' own torque, that counts as
    balance. An infeasible demand is reported as unsolved or infeasible, with a residual near
    the smallest reserve. Other arguments as for `share`.
    """
    given = gather(arms, capacity, passive, tau, cost, weights, reserves, lower, upper)
    cubed = cost == "activation_cubed"
    problem, scaling = scaled(given, cost)
    safe_gain = jnp.where(problem.gain > 0.0, problem.gain, 1.0)

    def own_cost(a: Array) -> Array:
        """Σ φ, with φ' = z at the answer to z."""
        if cubed:
            return jnp.sum(a**3 / (3.0 * safe_gain))
        return jnp.sum(
            jnp.where(problem.gain > 0.0, (a - problem.offset) ** 2 / (2.0 * safe_gain), 0.0)
        )

    def reserve(a: Array, multipliers: Array) -> Array:
        """Best reserve for given activations."""
        open_ = problem.demand - times(problem.effect, a)
        soft = problem.compliance
        return soft * (multipliers + stiffness * open_) / (1.0 + stiffness * soft)

    def lagrangian(a: Array, multipliers: Array) -> Array:
        left = _left(problem, a, jax.lax.stop_gradient(reserve(a, multipliers)))
        return own_cost(a) + jnp.sum(multipliers * left) + 0.5 * stiffness * jnp.sum(left**2)

    steepest = jnp.max(1.0 / safe_gain) * (2.0 if cubed else 1.0)
    steepest = steepest + stiffness * jnp.sum(problem.effect**2)
    optimiser = optax.sgd(1.0 / steepest, momentum=0.9, nesterov=True)
    slope = jax.grad(lagrangian)

    def descend(carry: tuple[Any, ...], _: None) -> tuple[tuple[Any, ...], None]:
        a, state, multipliers = carry
        updates, state = optimiser.update(slope(a, multipliers), state, a)
        a = optax.projections.projection_box(
            optax.apply_updates(a, updates), problem.lower, problem.upper
        )
        return (a, state, multipliers), None

    def one_round(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        a, multipliers = carry
        start = (a, optimiser.init(a), multipliers)
        (a, _, _), _ = jax.lax.scan(descend, start, None, length=steps)
        multipliers = multipliers + stiffness * _left(problem, a, reserve(a, multipliers))
        return (a, multipliers), None

    start = 0.5 * (problem.lower + problem.upper), jnp.zeros_like(problem.demand)
    (a, multipliers), _ = jax.lax.scan(one_round, start, None, length=rounds)
    z = transposed_times(problem.effect, multipliers)
    proof = beyond_reach(problem, z, multipliers)
    miss = jnp.max(jnp.abs(_left(problem, a, problem.compliance * multipliers)))
    lost = (miss > tolerance) & proof
    close, proof, lost = (x.astype(miss.dtype) for x in ((miss <= tolerance) | lost, proof, lost))
    taken = jnp.asarray(rounds * steps, dtype=miss.dtype)
    found = Found(multipliers, close, proof, lost, taken)
    return finish(given, problem, scaling, a, found)


def _left(problem: Problem, a: Array, reserve: Array) -> Array:
    return problem.demand - times(problem.effect, a) - reserve
