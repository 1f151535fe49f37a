"""The augmented Lagrangian of a problem along time, with Optax as the driver.

All terms join neighbouring frames only, so Gauss-Newton matrices are block-tridiagonal and
a step costs as much as a sweep over the motion. An Optax chain turns gradients into steps:
division by that matrix, then a backtracking line search.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from . import _banded
from ._collocation import Frames, Steps, Terms, Trajectory

_RIDGE = 1e-9


class Multipliers(NamedTuple):
    """Of what is to be zero and of what is to be zero or less, at frames and between."""

    frames: Terms
    between: Terms


class Solved(NamedTuple):
    """Where the solver stopped."""

    x: Float[Array, "nt n"]
    multipliers: Multipliers
    violation: Float[Array, ""]
    """Largest violation of any constraint, scaled."""
    steps: Int[Array, ""]


def all_terms(problem: Trajectory, x: Float[Array, "nt n"]) -> tuple[Terms, Terms]:
    here = jax.vmap(problem.at_frame)(x, problem.frames)
    there = jax.vmap(problem.between)(x[:-1], x[1:], problem.steps)
    return here, there


def _residual(terms: Terms, held: Terms, stiffness: Array) -> Array:
    """Residuals whose half sum of squares is the augmented Lagrangian, but for a constant."""
    root = jnp.sqrt(stiffness)
    equal = root * terms.equal + held.equal / root
    below = jnp.maximum(root * terms.below + held.below / root, 0.0)
    return jnp.concatenate([terms.cost, equal, below])


def lagrangian(
    problem: Trajectory, x: Float[Array, "nt n"], held: Multipliers, stiffness: Array
) -> Float[Array, ""]:
    terms = all_terms(problem, x)
    total = jnp.zeros((), dtype=x.dtype)
    for here, own in zip(terms, held, strict=True):
        rows = jax.vmap(lambda a, b: _residual(a, b, stiffness))(here, own)
        total = total + 0.5 * jnp.sum(rows**2)
    return total


def plain_lagrangian(
    problem: Trajectory, x: Float[Array, "nt n"], held: Multipliers
) -> Float[Array, ""]:
    """The plain Lagrangian."""
    total = jnp.zeros((), dtype=x.dtype)
    for terms, own in zip(all_terms(problem, x), held, strict=True):
        total = total + 0.5 * jnp.sum(terms.cost**2)
        total = total + jnp.sum(own.equal * terms.equal) + jnp.sum(own.below * terms.below)
    return total


def _blocks(
    problem: Trajectory, x: Float[Array, "nt n"], held: Multipliers, stiffness: Array
) -> tuple[Float[Array, "nt n n"], Float[Array, "_ n n"]]:
    """The Gauss-Newton matrix."""

    def frame(x: Array, frame: Frames, own: Terms) -> Array:
        return jax.jacfwd(lambda z: _residual(problem.at_frame(z, frame), own, stiffness))(x)

    def interval(x: Array, y: Array, step: Steps, own: Terms) -> tuple[Array, Array]:
        def both(z: Array, w: Array) -> Array:
            return _residual(problem.between(z, w, step), own, stiffness)

        return jax.jacfwd(both, argnums=(0, 1))(x, y)

    own = jax.vmap(frame)(x, problem.frames, held.frames)
    first, second = jax.vmap(interval)(x[:-1], x[1:], problem.steps, held.between)
    diagonal = jnp.einsum("kri,krj->kij", own, own)
    diagonal = diagonal.at[:-1].add(jnp.einsum("kri,krj->kij", first, first))
    diagonal = diagonal.at[1:].add(jnp.einsum("kri,krj->kij", second, second))
    ridge = _RIDGE * (1.0 + stiffness) * jnp.eye(x.shape[1], dtype=x.dtype)
    return diagonal + ridge[None], jnp.einsum("kri,krj->kij", first, second)


def by_gauss_newton() -> optax.GradientTransformationExtraArgs:
    """Steps from gradients: minus the inverse of `blocks`, which `update` is handed."""

    def init(params: Any) -> optax.EmptyState:
        return optax.EmptyState()

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        return -_banded.solve(_banded.factor(*extra["blocks"]), updates), state

    return optax.GradientTransformationExtraArgs(init, update)


def solve(
    problem: Trajectory,
    x: Float[Array, "nt n"],
    *,
    rounds: int,
    steps: int,
    stiffness: float,
    tolerance: float,
) -> Solved:
    """Minimise by rounds of Gauss-Newton steps and updates of the multipliers."""
    dtype = x.dtype
    search = optax.scale_by_backtracking_linesearch(
        16, decrease_factor=0.5, increase_factor=1e6, store_grad=False
    )
    optimiser = optax.chain(by_gauss_newton(), search)
    here, there = all_terms(problem, x)
    held = Multipliers(
        *(jax.tree.map(jnp.zeros_like, Terms(t.cost, t.equal, t.below)) for t in (here, there))
    )

    def descend(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        x, held, rho, state, count, _ = carry

        def value(y: Array, blocks: Any = None) -> Array:
            return lagrangian(problem, y, held, rho)

        now, slope = jax.value_and_grad(value)(x)
        blocks = _blocks(problem, x, held, rho)
        change: Any
        change, state = optimiser.update(
            slope, state, x, value=now, grad=slope, value_fn=value, blocks=blocks
        )
        moved: Any = optax.apply_updates(x, change)
        better = value(moved) < now
        return (
            jnp.where(better, moved, x),
            held,
            rho,
            state,
            count + 1,
            jnp.where(better, jnp.max(jnp.abs(change)), 0.0),
        )

    def one_round(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        x, held, rho, miss, total, k = carry
        far = jnp.asarray(jnp.inf, dtype=dtype)
        start = (x, held, rho, optimiser.init(x), jnp.asarray(0), far)
        small = 0.1 * tolerance

        def unfinished(c: tuple[Any, ...]) -> Array:
            return (c[4] < steps) & (c[5] > small)

        x, _, _, _, count, _ = jax.lax.while_loop(unfinished, descend, start)
        terms = all_terms(problem, x)
        held = Multipliers(*(_raised(t, h, rho) for t, h in zip(terms, held, strict=True)))
        now = violation(terms)
        rho = jnp.where(now > 0.25 * miss, jnp.minimum(5.0 * rho, 1e7), rho)
        return x, held, rho, now, total + count, k + 1

    start = (
        x,
        held,
        jnp.asarray(stiffness, dtype=dtype),
        jnp.asarray(jnp.inf, dtype=dtype),
        jnp.asarray(0),
        jnp.asarray(0),
    )
    x, held, _, miss, total, _ = jax.lax.while_loop(
        lambda c: (c[5] < rounds) & (c[3] > tolerance), one_round, start
    )
    return Solved(x, held, miss, total)


def _raised(terms: Terms, held: Terms, stiffness: Array) -> Terms:
    equal = held.equal + stiffness * terms.equal
    below = jnp.maximum(held.below + stiffness * terms.below, 0.0)
    return Terms(held.cost, equal, below)


def violation(terms: tuple[Terms, Terms]) -> Float[Array, ""]:
    parts = [jnp.abs(t.equal).reshape(-1) for t in terms]
    parts += [jnp.maximum(t.below, 0.0).reshape(-1) for t in terms]
    return jnp.max(jnp.concatenate(parts))
