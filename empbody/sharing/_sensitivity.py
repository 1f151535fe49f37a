"""How the solution of a problem along time answers to its numbers.

One Newton step on the optimality conditions, with the matrix held: its value is next to zero at
the solution, its derivative is that of the solution (implicit function theorem).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from . import _banded
from ._augmented import Multipliers, all_terms, plain_lagrangian
from ._collocation import Frames, Steps, Terms, Trajectory

_STIFFNESS = 1e5
_SWEEPS = 6


@eqx.filter_custom_jvp
def answering(
    problem: Trajectory, x: Float[Array, "nt n"], held: Multipliers
) -> Float[Array, "nt n"]:
    """A solution x, with the derivatives that it has; they cost nothing if not asked for."""
    return x


@answering.def_jvp
def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
    problem, x, held = primals
    _, change = eqx.filter_jvp(lambda p: _step(p, x, held), (problem,), (tangents[0],))
    return x, change


def _step(problem: Trajectory, x: Float[Array, "nt n"], held: Multipliers) -> Float[Array, "nt n"]:
    """The Newton step from x."""
    fixed, x, held = jax.lax.stop_gradient((problem, x, held))
    active = Multipliers(*(Terms(h.cost, jnp.ones_like(h.equal), h.below > 0.0) for h in held))
    diagonal, upper = _hessian(fixed, x, held)
    jacobians = _jacobians(fixed, x, active)
    bent, beside = _squares(jacobians)
    matrix = diagonal + _STIFFNESS * bent, upper + _STIFFNESS * beside
    factors = jax.lax.stop_gradient(_banded.factor(*matrix))

    slope = jax.grad(lambda y: plain_lagrangian(problem, y, held))(x)
    misses = [_miss(t, a) for t, a in zip(all_terms(problem, x), active, strict=True)]
    push = [jnp.zeros_like(m) for m in misses]
    change = jnp.zeros_like(x)
    for _ in range(_SWEEPS):
        pull = [p + _STIFFNESS * m for p, m in zip(push, misses, strict=True)]
        change = -_banded.solve(factors, slope + _transposed(jacobians, pull))
        moved = _forward(jacobians, change)
        push = [p + _STIFFNESS * (m + d) for p, m, d in zip(push, misses, moved, strict=True)]
    good = jnp.all(jnp.isfinite(jax.lax.stop_gradient(change)))
    return jnp.where(good, change, 0.0)


def _miss(terms: Terms, active: Terms) -> Array:
    return jnp.concatenate([terms.equal, jnp.where(active.below, terms.below, 0.0)], axis=1)


def _hessian(
    problem: Trajectory, x: Array, held: Multipliers
) -> tuple[Float[Array, "nt n n"], Float[Array, "_ n n"]]:
    """Of the Lagrangian; costs by Gauss-Newton's part and the constraints' curvature."""

    def total(terms: Terms, own: Terms) -> Array:
        cost = 0.5 * jnp.sum(terms.cost**2)
        return cost + jnp.sum(own.equal * terms.equal) + jnp.sum(own.below * terms.below)

    def frame(x: Array, frame: Frames, own: Terms) -> Array:
        return jax.hessian(lambda z: total(problem.at_frame(z, frame), own))(x)

    def interval(x: Array, y: Array, step: Steps, own: Terms) -> Array:
        both = jnp.concatenate([x, y])
        n = x.shape[0]
        return jax.hessian(lambda z: total(problem.between(z[:n], z[n:], step), own))(both)

    diagonal = jax.vmap(frame)(x, problem.frames, held.frames)
    pairs = jax.vmap(interval)(x[:-1], x[1:], problem.steps, held.between)
    n = x.shape[1]
    diagonal = diagonal.at[:-1].add(pairs[:, :n, :n]).at[1:].add(pairs[:, n:, n:])
    return diagonal, pairs[:, :n, n:]


def _jacobians(
    problem: Trajectory, x: Array, active: Multipliers
) -> tuple[Array, tuple[Array, Array]]:
    """Of the constraints that hold as equations: at frames, and to both ends of intervals."""

    def frame(x: Array, frame: Frames, own: Terms) -> Array:
        return jax.jacfwd(lambda z: _one(problem.at_frame(z, frame), own))(x)

    def interval(x: Array, y: Array, step: Steps, own: Terms) -> tuple[Array, Array]:
        return jax.jacfwd(lambda z, w: _one(problem.between(z, w, step), own), (0, 1))(x, y)

    own = jax.vmap(frame)(x, problem.frames, active.frames)
    pairs = jax.vmap(interval)(x[:-1], x[1:], problem.steps, active.between)
    return own, pairs


def _one(terms: Terms, active: Terms) -> Array:
    return jnp.concatenate([terms.equal, jnp.where(active.below, terms.below, 0.0)])


def _squares(
    jacobians: tuple[Array, tuple[Array, Array]],
) -> tuple[Float[Array, "nt n n"], Float[Array, "_ n n"]]:
    own, (first, second) = jacobians
    diagonal = jnp.einsum("kri,krj->kij", own, own)
    diagonal = diagonal.at[:-1].add(jnp.einsum("kri,krj->kij", first, first))
    diagonal = diagonal.at[1:].add(jnp.einsum("kri,krj->kij", second, second))
    return diagonal, jnp.einsum("kri,krj->kij", first, second)


def _transposed(jacobians: tuple[Array, tuple[Array, Array]], pull: list[Array]) -> Array:
    own, (first, second) = jacobians
    out = jnp.einsum("kri,kr->ki", own, pull[0])
    out = out.at[:-1].add(jnp.einsum("kri,kr->ki", first, pull[1]))
    return out.at[1:].add(jnp.einsum("kri,kr->ki", second, pull[1]))


def _forward(jacobians: tuple[Array, tuple[Array, Array]], change: Array) -> list[Array]:
    own, (first, second) = jacobians
    between = jnp.einsum("kri,ki->kr", first, change[:-1])
    between = between + jnp.einsum("kri,ki->kr", second, change[1:])
    return [jnp.einsum("kri,ki->kr", own, change), between]
