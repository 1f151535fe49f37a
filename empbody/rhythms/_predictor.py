"""Tables that start Newton's method on the right assembly mode, found in constant time."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from empbody.rhythms._closure_derivatives import Residual, closure_hessian
from empbody.rhythms._continuation import node_coordinates


class HermiteTable(eqx.Module):
    """One input: quintic Hermite pieces from f, f', f'' at uniform nodes.

    The error is at most h⁶ max|f⁽⁶⁾| / 46080 for node distance h.
    """

    lower: Float[Array, ""]
    spacing: Float[Array, ""]
    coefficients: Float[Array, "cells 6 nf"]
    """Powers of the local variable in [0, 1], lowest first."""

    def __call__(self, q: Float[Array, " 1"]) -> Float[Array, " nf"]:
        """Predicted unknowns; outside the table its last piece continues."""
        x = (q[0] - self.lower) / self.spacing
        # NaN must not become an index.
        x = jnp.where(jnp.isfinite(x), x, 0.0)
        cell = jnp.clip(jnp.floor(x), 0, self.coefficients.shape[0] - 1)
        piece = self.coefficients[cell.astype(int)]
        s = x - cell
        value = piece[5]
        for power in (4, 3, 2, 1, 0):
            value = value * s + piece[power]
        return value


class TaylorTable(eqx.Module):
    """Several inputs: second-order expansion about the nearest node of a uniform grid.

    Stored by monomial (1, x_a, x_a x_b with a ≤ b) in units of the node distance.
    """

    lower: Float[Array, " nq"]
    spacing: Float[Array, " nq"]
    coefficients: Float[Array, "nodes terms nf"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nf"]:
        """Predicted unknowns; outside the grid its nearest node is used."""
        x = (q - self.lower) / self.spacing
        x = jnp.where(jnp.isfinite(x), x, 0.0)
        last = jnp.asarray(self.shape, dtype=x.dtype) - 1
        node = jnp.clip(jnp.round(x), 0, last)
        strides = np.array([math.prod(self.shape[k + 1 :]) for k in range(len(self.shape))])
        flat = sum(node[k].astype(int) * int(strides[k]) for k in range(len(self.shape)))
        terms = self.coefficients[flat]
        s = x - node
        rows, columns = np.triu_indices(len(self.shape))
        value = terms[0]
        for k in range(len(self.shape)):
            value = value + terms[1 + k] * s[k]
        for m, (a, b) in enumerate(zip(rows, columns, strict=True)):
            value = value + terms[1 + len(self.shape) + m] * (s[a] * s[b])
        return value


@eqx.filter_jit
def _derivatives(residual, q, f):
    return jax.vmap(lambda x, y: closure_hessian(residual, x, y))(q, f)


def tabulate(
    residual: Residual,
    axes: list[Float[np.ndarray, " _"]],
    values: Float[np.ndarray, "*grid nf"],
) -> HermiteTable | TaylorTable:
    """The table of a sampled assembly mode, with derivatives taken at every node."""
    nf, nq = values.shape[-1], len(axes)
    q = jnp.asarray(node_coordinates(axes).reshape(-1, nq), dtype=float)
    f = jnp.asarray(values.reshape(-1, nf), dtype=float)
    slope, bend = (np.asarray(x, dtype=np.float64) for x in _derivatives(residual, q, f))
    spacing = np.array([axis[1] - axis[0] for axis in axes])
    f = np.asarray(f, dtype=np.float64)
    if nq == 1:
        h = spacing[0]
        pieces = _quintic(f, h * slope[:, :, 0], h**2 * bend[:, :, 0, 0])
        return HermiteTable(_array(axes[0][0]), _array(h), _array(pieces))
    terms = [f, *(slope[:, :, k] * spacing[k] for k in range(nq))]
    for a, b in zip(*np.triu_indices(nq), strict=True):
        weight = 0.5 if a == b else 1.0
        terms.append(weight * bend[:, :, a, b] * spacing[a] * spacing[b])
    lower = np.array([axis[0] for axis in axes])
    shape = tuple(len(axis) for axis in axes)
    return TaylorTable(_array(lower), _array(spacing), _array(np.stack(terms, axis=1)), shape)


def _array(x) -> Array:
    return jnp.asarray(x, dtype=float)


def _quintic(f, d, c):
    """Power coefficients of the pieces on [0, 1] from value, slope and curvature at nodes."""
    f0, f1, d0, d1, c0, c1 = f[:-1], f[1:], d[:-1], d[1:], c[:-1], c[1:]
    rise = f1 - f0 - d0 - 0.5 * c0
    turn = d1 - d0 - c0
    bend = c1 - c0
    cubic = 10 * rise - 4 * turn + 0.5 * bend
    quartic = -15 * rise + 7 * turn - bend
    quintic = 6 * rise - 3 * turn + 0.5 * bend
    return np.stack([f0, d0, 0.5 * c0, cubic, quartic, quintic], axis=1)
