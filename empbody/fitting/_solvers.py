"""Ways to the least sum of squares: exact, Levenberg-Marquardt, gradient descent."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optax
import optimistix as optx
import scipy.sparse
import scipy.sparse.csgraph
from jaxtyping import Array, Float

from ._problem import Problem, jacobian

Report = Callable[[int, int], None]
_CHUNK = 25


class Found(NamedTuple):
    z: Float[Array, " r"]
    value: float
    converged: bool
    steps: int
    undetermined: int
    """Directions in the coefficients that the data leave open."""
    history: tuple[float, ...] = ()
    """Best value (that which is watched) before every step, and in the end."""


def exact(problem: Problem) -> Found:
    """The minimum of a problem that is linear in its unknowns, by singular values."""
    zero = jnp.zeros(problem.map.shape[1], dtype=problem.start.dtype)
    residual, slope = jacobian(problem, zero)
    z, open_ = np.zeros(slope.shape[1]), 0
    for columns in unknowns_apart(slope):
        part = slope[:, columns]
        rows = np.flatnonzero(np.any(part != 0.0, axis=1))
        z[columns], undetermined = _least(part[rows], residual[rows])
        open_ += undetermined
    value = float(np.sum((residual + slope @ z) ** 2))
    return Found(jnp.asarray(z, dtype=problem.start.dtype), value, True, 1, open_)


def unknowns_apart(slope: np.ndarray) -> list[np.ndarray]:
    """Groups of unknowns that share no residual: most families have one for each target."""
    used = (slope != 0.0).astype(np.float32)
    graph = scipy.sparse.csr_matrix(used.T @ used)
    count, label = scipy.sparse.csgraph.connected_components(graph, directed=False)
    return [np.flatnonzero(label == k) for k in range(count)]


def _least(slope: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, int]:
    """z with the least |residual + slope z|, and the number of directions left open."""
    if not len(slope):
        return np.zeros(slope.shape[1]), slope.shape[1]
    norms = np.linalg.norm(slope, axis=0)
    # Columns of unit length: the rank then does not depend on units.
    norms = np.where(norms <= 1e-12 * norms.max(), 1.0, norms)
    scaled, aim = slope / norms, residual
    if len(slope) > slope.shape[1]:
        q, scaled = np.linalg.qr(scaled)
        aim = q.T @ residual
    u, s, vt = np.linalg.svd(scaled, full_matrices=False)
    kept = s > max(slope.shape) * np.finfo(np.float64).eps * s.max()
    inverse = np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0)
    z = -(vt.T @ (inverse * (u.T @ aim))) / norms
    return z, slope.shape[1] - int(kept.sum())


def levenberg_marquardt(
    problem: Problem, starts: Float[Array, "s r"], tolerance: float, steps: int
) -> Found:
    """The best of several starts, all at once."""
    z, values, done, taken = _marquardt(problem, starts, tolerance, steps)
    values = np.where(np.isfinite(np.asarray(values)), np.asarray(values), np.inf)
    best = int(np.argmin(values))
    return Found(z[best], float(values[best]), bool(done[best]), int(taken[best]), 0)


@eqx.filter_jit
def _marquardt(problem: Problem, starts: Array, tolerance: float, steps: int) -> tuple[Any, ...]:
    # Normal equations: damping keeps them well posed, and they cost far less than a QR
    # factorisation of all residuals in every step.
    linear = lx.Normal(lx.Cholesky())
    solver = optx.LevenbergMarquardt(rtol=tolerance, atol=tolerance, linear_solver=linear)

    def one(z0: Array) -> tuple[Array, Array, Array, Array]:
        found = optx.least_squares(
            lambda z, p: p.vector(z), solver, z0, problem, max_steps=steps, throw=False
        )
        done = found.result == optx.RESULTS.successful
        return found.value, problem.value(found.value), done, found.stats["num_steps"]

    return jax.vmap(one)(starts)


@runtime_checkable
class Descendable(Protocol):
    """What gradient descent can be asked for: a loss of one vector. Its arrays may change
    from call to call without compiling anew, so it must be a tree of JAX."""

    def value(self, z: Float[Array, " r"], /) -> Float[Array, ""]: ...


def named_optimiser(name: Any, rate: float | None) -> optax.GradientTransformationExtraArgs:
    """An Optax optimiser from a name ("adam", "lbfgs", ...), or itself."""
    return _by_name(name, rate) if isinstance(name, str) else _extended(name)


# The same name gives the same functions, so what was compiled with them is found again.
@functools.cache
def _by_name(name: str, rate: float | None) -> optax.GradientTransformationExtraArgs:
    if name == "lbfgs":
        return optax.lbfgs() if rate is None else optax.lbfgs(rate)
    make: Any = getattr(optax, name, None)
    if not callable(make):
        raise ValueError(
            f'solver = "{name}"; "auto", "exact", "lm", or an optimiser of Optax such as "adam" '
            'or "lbfgs" is expected'
        )
    made = cast(optax.GradientTransformation, make(1e-2 if rate is None else rate))
    return optax.with_extra_args_support(made)


@functools.lru_cache(maxsize=16)
def _extended(optimiser: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    return optax.with_extra_args_support(optimiser)


@eqx.filter_jit
def _chunk(problem: Any, carry: Any, optimiser: Any, watch: Any) -> Any:
    """Some steps: (z, the optimiser's state, best value seen, z there), and best values."""

    def step(carry: Any, _: None) -> tuple[Any, Array]:
        z, state, best, kept = carry
        now, slope = jax.value_and_grad(problem.value)(z)
        seen = now if watch is None else watch(problem, z)
        better = seen < best
        best, kept = jnp.where(better, seen, best), jnp.where(better, z, kept)
        updates, state = optimiser.update(
            slope, state, z, value=now, grad=slope, value_fn=problem.value
        )
        return (optax.apply_updates(z, updates), state, best, kept), best

    return jax.lax.scan(step, carry, None, length=_CHUNK)


@eqx.filter_jit
def _look(problem: Any, z: Array, watch: Any) -> tuple[Array, Array]:
    now = problem.value(z)
    return now, now if watch is None else watch(problem, z)


def descend(
    problem: Descendable,
    z0: Float[Array, " r"],
    optimiser: optax.GradientTransformationExtraArgs,
    *,
    steps: int,
    patience: int,
    tolerance: float,
    watch: Callable[[Any, Array], Array] | None = None,
    progress: Report | None = None,
) -> Found:
    """Gradient descent by any Optax optimiser, stopped when `patience` steps bring nothing.

    "Nothing" is a gain of less than `tolerance` of the value. `watch` is what is looked at
    for that (a validation loss), instead of what is minimised; the best z seen is kept.
    Compiled once for problems of one structure and optimisers of one name and rate.
    """
    best = jnp.asarray(jnp.inf, dtype=z0.dtype)
    carry = (z0, optimiser.init(z0), best, z0)
    reference, since, done, taken = np.inf, 0, False, 0
    history: list[float] = []
    while taken < steps and not done:
        carry, trace = _chunk(problem, carry, optimiser, watch)
        for now in np.asarray(trace).tolist():
            taken += 1
            history.append(now)
            if now < reference - tolerance * abs(reference) or not np.isfinite(reference):
                reference, since = now, 0
            else:
                since += 1
        done = since >= patience
        if progress is not None:
            progress(min(taken, steps), steps)
    # The last step's point has not been looked at yet.
    now, last = (float(x) for x in _look(problem, carry[0], watch))
    best, z = float(carry[2]), carry[0]
    if not np.isfinite(best) and not np.isfinite(last):
        raise ValueError("the loss is not finite from the start; check the data and the rhythm")
    if not last < best:
        z, last = carry[3], best
        now = best if watch is None else float(_look(problem, z, watch)[0])
    return Found(z, now, done, taken, 0, (*history, last))
