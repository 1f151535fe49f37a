"""Numerical differentiation of a rhythm on the computational molecule."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._samples import Numbers


class Molecule(AbstractRhythm):
    """Another rhythm with its derivatives replaced by central differences.

    The molecule (Ehsani 2016, section 3-3, Fig. 2) is the point itself, one step each way
    along every coordinate, and the four diagonal neighbours of every pair of coordinates:
    1 + 2 nq² evaluations, at each of which an implicit rhythm closes its loops. With
    `order=4` the differences at single and double steps are combined (Richardson), which
    doubles the molecule. All abscissae must lie within the inner rhythm's range.

    The value is the inner rhythm's. Rounding limits the Hessian to about ε / step².
    """

    rhythm: AbstractRhythm
    steps: Float[Array, " nq"]
    """Step along each coordinate, in its units."""
    order: int = eqx.field(static=True)

    def __init__(self, rhythm: AbstractRhythm, steps: Numbers | None = None, order: int = 2):
        """`steps`: one for all coordinates or one each; by default those that balance
        truncation and rounding in the Hessian, ε^(1/4) for order 2 and ε^(1/6) for 4."""
        if order not in (2, 4):
            raise ValueError(f"order = {order}: 2 or 4")
        nq = rhythm.n_in
        if steps is None:
            steps = float(jnp.finfo(jnp.zeros(()).dtype).eps) ** (1 / (order + 2))
        sizes = np.asarray(steps, dtype=float)
        if nq is None and sizes.ndim == 0:
            raise ValueError("a rhythm of any size needs one step for each coordinate")
        if nq is not None:
            if sizes.shape not in ((), (nq,)):
                raise ValueError(f"{sizes.size} steps for {nq} coordinates")
            sizes = np.broadcast_to(sizes, (nq,))
        if not np.all(np.isfinite(sizes) & (sizes > 0)):
            raise ValueError(f"steps = {sizes}: positive numbers are expected")
        self.rhythm = rhythm
        self.steps = jnp.asarray(sizes, dtype=float)
        self.order = order

    @property
    def n_in(self) -> int:
        return self.steps.shape[-1]

    @property
    def n_out(self) -> int | None:
        return self.rhythm.n_out

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        return self.rhythm(q)

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        self.check_coordinates(q)
        offsets = np.concatenate([scale * _axial(self.n_in) for scale in self._scales()])
        f = self._evaluate(q, offsets)
        return self._combine([self._slopes(part, s) for part, s in self._split(f)])

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        return self._all(q)[2]

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        value, jacobian, hessian = self._all(q)
        return Jet(value, jacobian, jnp.einsum("iab,a,b->i", hessian, qd, qd))

    def _scales(self) -> tuple[int, ...]:
        return (1,) if self.order == 2 else (1, 2)

    def _evaluate(self, q: Array, offsets: np.ndarray) -> Float[Array, "abscissae nj"]:
        points = q[None, :] + jnp.asarray(offsets, dtype=q.dtype) * self.steps[None, :]
        return jax.vmap(self.rhythm)(points)

    def _split(self, f: Array) -> list[tuple[Array, int]]:
        scales = self._scales()
        return list(zip(jnp.split(f, len(scales)), scales, strict=True))

    def _combine(self, estimates: list[Array]) -> Array:
        if self.order == 2:
            return estimates[0]
        return (4 * estimates[0] - estimates[1]) / 3

    def _slopes(self, axial: Array, scale: int) -> Float[Array, "nj nq"]:
        plus, minus = axial[: self.n_in], axial[self.n_in : 2 * self.n_in]
        return ((plus - minus) / (2 * scale * self.steps)[:, None]).T

    def _all(self, q: Float[Array, " nq"]):
        self.check_coordinates(q)
        nq = self.n_in
        molecule = np.concatenate([_axial(nq), _diagonal(nq)])
        offsets = np.concatenate([scale * molecule for scale in self._scales()])
        f = self._evaluate(q, np.concatenate([np.zeros((1, nq)), offsets]))
        centre, parts = f[0], self._split(f[1:])
        slopes = [self._slopes(part, scale) for part, scale in parts]
        bends = [self._bends(centre, part, scale) for part, scale in parts]
        return centre, self._combine(slopes), self._combine(bends)

    def _bends(self, centre: Array, part: Array, scale: int) -> Float[Array, "nj nq nq"]:
        nq, step = self.n_in, scale * self.steps
        along = (part[:nq] - 2 * centre[None, :] + part[nq : 2 * nq]) / (step**2)[:, None]
        hessian = jnp.zeros((centre.shape[0], nq, nq), dtype=part.dtype)
        axis = np.arange(nq)
        hessian = hessian.at[:, axis, axis].set(along.T)
        rows, columns = np.triu_indices(nq, 1)
        if rows.size == 0:
            return hessian
        pp, pm, mp, mm = jnp.split(part[2 * nq :], 4)
        mixed = ((pp - pm - mp + mm) / (4 * step[rows] * step[columns])[:, None]).T
        return hessian.at[:, rows, columns].set(mixed).at[:, columns, rows].set(mixed)


def _axial(nq: int) -> np.ndarray:
    return np.concatenate([np.eye(nq), -np.eye(nq)])


def _diagonal(nq: int) -> np.ndarray:
    rows, columns = np.triu_indices(nq, 1)
    unit = np.eye(nq)
    signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
    return np.concatenate([a * unit[rows] + b * unit[columns] for a, b in signs])
