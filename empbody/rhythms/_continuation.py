"""Following one assembly mode of g(q, f) = 0 over a grid of coordinates, at construction.

Runs on the host with one compiled step, so that it can halve its step, find a fold and
say in words where and why it stopped.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from empbody.rhythms._closure_derivatives import Residual, closure_jacobian, value_and_slope
from empbody.rhythms._small_lu import SmallLU

_CORRECTIONS = 5
_SMALLEST_FRACTION = 2.0**-14


def at(q) -> str:
    """A coordinate vector as it appears in messages."""
    return "q = [" + ", ".join(f"{x:.6g}" for x in np.atleast_1d(np.asarray(q))) + "]"


@eqx.filter_jit
def _slope(residual, q, f):
    return value_and_slope(residual, q, f)


@eqx.filter_jit
def _advance(residual, q0, f0, q1):
    """One trial step of every lane: Euler prediction, then Newton corrections."""

    def lane(q0, f0, q1):
        move = jnp.sum(closure_jacobian(residual, q0, f0) * (q1 - q0)[None, :], axis=1)

        def correct(_, carry):
            f, total, _last, _det = carry
            g, by_f = value_and_slope(residual, q1, f)
            factors = SmallLU(by_f)
            step = factors.solve(g)
            return f - step, total + step, step, factors.determinant

        zero = jnp.zeros_like(f0)
        start = (f0 + move, zero, zero, jnp.zeros((), f0.dtype))
        f, total, last, det = jax.lax.fori_loop(0, _CORRECTIONS, correct, start)
        return f, jnp.max(jnp.abs(move)), jnp.max(jnp.abs(total)), jnp.max(jnp.abs(last)), det

    return jax.vmap(lane)(q0, f0, q1)


def assemble(
    residual: Residual, guess_q: Float[np.ndarray, " nq"], guess_f: Float[np.ndarray, " nf"]
) -> tuple[Float[np.ndarray, " nf"], int]:
    """The solution of g(q, ·) = 0 near the guess, by damped Newton steps, and the sign of
    det ∂g/∂f there, which no assembly mode changes without a fold."""
    q, f = jnp.asarray(guess_q, dtype=float), jnp.asarray(guess_f, dtype=float)
    shape = jax.eval_shape(lambda a, b: residual(a, b), q, f).shape
    if shape != f.shape:
        raise ValueError(
            f"the residual has shape {shape} for {f.shape[0]} unknowns: a loop closure "
            "needs as many equations as unknowns"
        )
    eps = float(jnp.finfo(f.dtype).eps)
    tiny = 1e3 * eps
    g, by_f = (np.asarray(x) for x in _slope(residual, q, f))
    # The size of ∂g/∂f is the natural unit of the residual for unknowns of order one.
    scale = np.max(np.abs(by_f))
    for _ in range(60):
        if not (np.all(np.isfinite(g)) and np.all(np.isfinite(by_f))):
            raise ValueError(f"the loop closure gives NaN or infinity at {at(q)}")
        scale = max(scale, np.max(np.abs(by_f)))
        step = np.linalg.lstsq(by_f, g, rcond=1e2 * eps)[0]
        step /= max(1.0, np.max(np.abs(step)))
        size, fraction = np.linalg.norm(g), 1.0
        while fraction > 1e-6:
            trial = f - fraction * jnp.asarray(step, dtype=f.dtype)
            new_g, new_by_f = (np.asarray(x) for x in _slope(residual, q, trial))
            if np.linalg.norm(new_g) < size * (1 - 1e-4 * fraction):
                break
            fraction /= 2
        else:
            break
        f, g, by_f = trial, new_g, new_by_f
    size = np.max(np.abs(g))
    if not size <= tiny * scale:
        raise ValueError(
            f"does not assemble: the residual stays at {size:.1e} at {at(q)}; check the "
            "lengths, or give a nearer start guess"
        )
    condition = np.linalg.cond(by_f)
    if not condition < 1e-2 / eps**0.5:
        raise ValueError(
            f"singular configuration at the seed {at(q)}: condition {condition:.1e} of ∂g/∂f"
        )
    return np.asarray(f), int(np.sign(np.linalg.det(by_f)))


def _march(residual, sign, q0, f0, q1):
    """Carry solutions f0 at q0 (lanes, nq) along straight lines to q1."""
    done, fraction = 0.0, 1.0
    start, span = np.asarray(q0), np.asarray(q1) - np.asarray(q0)
    f, q = f0, start
    tolerance = float(np.finfo(f0.dtype).eps) ** 0.5
    while done < 1.0:
        fraction = min(fraction, 1.0 - done)
        target = start + (done + fraction) * span
        new, move, total, last, det = (
            np.asarray(x) for x in _advance(residual, *(x.astype(f.dtype) for x in (q, f, target)))
        )
        # A correction small against the step itself means the curve was followed.
        kept = (total <= 0.1 * move + tolerance) & (last <= tolerance) & (np.sign(det) == sign)
        if np.all(kept):
            q, f = target, new
            done += fraction
            fraction *= 2.0
        elif fraction > _SMALLEST_FRACTION:
            fraction /= 2.0
        else:
            _explain_stop(residual, q, f, target, int(np.argmin(kept)))
    return f


def _explain_stop(residual, q, f, target, lane):
    dtype = f.dtype
    by_f = np.asarray(_slope(residual, q[lane].astype(dtype), f[lane])[1])
    ahead = np.asarray(_slope(residual, target[lane].astype(dtype), f[lane])[0])
    if not np.all(np.isfinite(ahead)):
        raise ValueError(
            f"the loop closure gives NaN or infinity near {at(target[lane])}; "
            f"last good {at(q[lane])}"
        )
    raise ValueError(
        f"singular configuration (fold) inside the range near {at(target[lane])}: the assembly "
        f"mode ends after the last good {at(q[lane])}, where ∂g/∂f has determinant "
        f"{np.linalg.det(by_f):.2e} and condition {np.linalg.cond(by_f):.1e}; shorten the range"
    )


def follow(
    residual: Residual,
    seed_q: Float[np.ndarray, " nq"],
    seed_f: Float[np.ndarray, " nf"],
    axes: Sequence[Float[np.ndarray, " _"]],
) -> tuple[Float[np.ndarray, "*grid nf"], int]:
    """f on the tensor grid of `axes`, reached from the seed neighbour by neighbour, and the
    sign of det ∂g/∂f on this assembly mode.

    The seed is solved first, carried to the nearest node, then along the first axis both
    ways, then every node found so far along the second axis, and so on.
    """
    seed = np.asarray(seed_q, dtype=float)
    f, sign = assemble(residual, seed, np.asarray(seed_f, dtype=float))
    nearest = [int(np.argmin(np.abs(axis - x))) for axis, x in zip(axes, seed, strict=True)]
    q = np.array([axis[i] for axis, i in zip(axes, nearest, strict=True)])
    lanes_q, lanes_f = q[None], f[None]
    if not np.array_equal(seed, q):
        lanes_f = _march(residual, sign, seed[None], lanes_f, lanes_q)
    for k, (axis, middle) in enumerate(zip(axes, nearest, strict=True)):
        nodes: dict[int, np.ndarray] = {middle: lanes_f}
        for direction in (1, -1):
            here, value = lanes_q, lanes_f
            i = middle + direction
            while 0 <= i < len(axis):
                there = here.copy()
                there[:, k] = axis[i]
                value = _march(residual, sign, here, value, there)
                nodes[i], here = value, there
                i += direction
        lanes_f = np.stack([nodes[i] for i in range(len(axis))], axis=1)
        lanes_q = np.repeat(lanes_q[:, None, :], len(axis), axis=1)
        lanes_q[:, :, k] = axis
        lanes_q = lanes_q.reshape(-1, seed.size)
        lanes_f = lanes_f.reshape(-1, f.size)
    return lanes_f.reshape(*(len(axis) for axis in axes), f.size), sign


def node_coordinates(axes: Sequence[Float[np.ndarray, " _"]]) -> Float[np.ndarray, "*grid nq"]:
    """Coordinates of every node of a tensor grid, last axis the coordinate."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def closing_jump(
    values: Float[np.ndarray, "*grid nf"], axis: int, name: str
) -> Float[np.ndarray, " nf"]:
    """f(upper) - f(lower) of a periodic axis: a whole number of turns for each unknown."""
    jump = np.take(values, -1, axis=axis) - np.take(values, 0, axis=axis)
    turns = np.round(jump.reshape(-1, jump.shape[-1])[0] / (2 * np.pi))
    miss = np.max(np.abs(jump - 2 * np.pi * turns))
    if not miss <= 1e2 * float(jnp.finfo(jnp.asarray(values).dtype).eps) ** 0.5:
        raise ValueError(
            f"not periodic in {name}: after one period the unknowns miss a whole number of "
            f"turns by {miss:.1e}; give the range of one full period, or periodic=False"
        )
    return 2 * np.pi * turns


def coordinate_names(names: Sequence[str] | None, nq: int) -> tuple[str, ...]:
    """Names for messages: those given, or q, or q1, q2, …"""
    if names is None:
        return ("q",) if nq == 1 else tuple(f"q{k + 1}" for k in range(nq))
    if len(names) != nq:
        raise ValueError(f"{len(names)} coordinate names for {nq} coordinates")
    return tuple(names)


def per_input(value, nq: int, kind: type) -> list:
    """One figure for each coordinate, from one for all or one each."""
    values = np.asarray(value)
    if values.ndim == 0:
        values = np.broadcast_to(values, (nq,))
    if values.shape != (nq,):
        raise ValueError(f"{values.size} figures for {nq} coordinates")
    return [kind(x) for x in values]


def uniform_axes(
    lower: Sequence[float],
    upper: Sequence[float],
    n: int | Sequence[int] | None,
    step: float | Sequence[float] | None,
    names: Sequence[str],
) -> list[Float[np.ndarray, " _"]]:
    """Uniform nodes over each coordinate's range, by number of cells or by step.

    The step is rounded so that a whole number of cells fills the range.
    """
    if (n is None) == (step is None):
        raise ValueError("give either n (cells) or step")
    axes = []
    for k, (name, low, high) in enumerate(zip(names, lower, upper, strict=True)):
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(f"range of {name} is [{low}, {high}]: give lower < upper, both finite")
        if n is not None:
            cells = per_input(n, len(names), int)[k]
        else:
            size = per_input(step, len(names), float)[k]
            if not size > 0:
                raise ValueError(f"step = {size} for {name}: a positive number is expected")
            cells = round((high - low) / size)
        if cells < 2:
            raise ValueError(f"{cells} cells over the range of {name}: at least 2 are needed")
        axes.append(np.linspace(low, high, cells + 1))
    return axes
