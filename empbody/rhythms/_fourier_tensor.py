"""Fourier series of two coordinates."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._harmonics import check_count, derivative, design, differentiate, harmonics
from empbody.rhythms._samples import Numbers, as_samples, least_squares


class FourierTensor(AbstractRhythm):
    """f(q) = winding q + Σ_ab coefficients[a, b] φ_a(q_0) φ_b(q_1).

    φ = (1, cos ωq … cos Kωq, sin ωq … sin Kωq) on each axis, with that axis's period and
    order. The series is defined for every q; it repeats itself, up to the winding, whose
    entry [i, a] is what joint variable i gains per unit of q_a.
    """

    coefficients: Float[Array, "ncoef0 ncoef1 nj"]
    winding: Float[Array, "nj 2"]
    period: Float[Array, " 2"]

    def __init__(
        self,
        coefficients: Numbers,
        winding: Numbers | None = None,
        period: Numbers = (2 * np.pi, 2 * np.pi),
    ):
        self.coefficients = jnp.asarray(coefficients, dtype=float)
        if self.coefficients.ndim != 3:
            raise ValueError(
                f"coefficients of shape {self.coefficients.shape}; (2K + 1, 2L + 1, nj) is expected"
            )
        for a in range(2):
            check_count(self.coefficients.shape[a], f" along q[{a}]")
        nj = self.coefficients.shape[2]
        self.winding = jnp.zeros((nj, 2)) if winding is None else jnp.asarray(winding, dtype=float)
        if self.winding.shape != (nj, 2):
            raise ValueError(f"winding of shape {self.winding.shape}; ({nj}, 2) is expected")
        self.period = jnp.asarray(period, dtype=float)
        if self.period.shape != (2,):
            raise ValueError(f"period of shape {self.period.shape} for 2 coordinates")

    @classmethod
    def fit(
        cls,
        x: Numbers,
        y: Numbers,
        orders: tuple[int, int],
        winding: Numbers | None = None,
        period: tuple[float, float] = (2 * np.pi, 2 * np.pi),
    ) -> "FourierTensor":
        """Least squares through scattered samples x (n, 2), y (n, nj), winding (nj, 2) given."""
        xs, ys = as_samples(x, y, n_in=2)
        nj = ys.shape[1]
        if len(orders) != 2 or min(orders) < 0:
            raise ValueError(f"orders = {orders}; two numbers ≥ 0 are expected")
        if len(period) != 2 or not min(period) > 0:
            raise ValueError(f"period = {period}; two numbers > 0 are expected")
        turns = np.zeros((nj, 2)) if winding is None else np.asarray(winding, dtype=float)
        if turns.shape != (nj, 2):
            raise ValueError(f"winding of shape {turns.shape}; ({nj}, 2) is expected")
        first, second = (design(xs[:, a], period[a], orders[a]) for a in range(2))
        basis = (first[:, :, None] * second[:, None, :]).reshape(len(xs), -1)
        what = f"a Fourier series of orders {orders[0]} and {orders[1]}"
        solution = least_squares(basis, ys - xs @ turns.T, what)
        return cls(solution.reshape(first.shape[1], second.shape[1], nj), turns, period)

    @property
    def orders(self) -> tuple[int, int]:
        """Highest harmonic on each axis."""
        n0, n1, _ = self.coefficients.shape
        return (n0 - 1) // 2, (n1 - 1) // 2

    @property
    def n_in(self) -> int:
        return 2

    @property
    def n_out(self) -> int:
        return self.winding.shape[-2]

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        return self._evaluate(q)[0] + self.winding @ q

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        _, d0, d1, *_ = self._evaluate(q)
        return jnp.stack([d0, d1], axis=-1) + self.winding

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        *_, d00, d01, d11 = self._evaluate(q)
        rows = [jnp.stack([d00, d01], axis=-1), jnp.stack([d01, d11], axis=-1)]
        return jnp.stack(rows, axis=-2)

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        value, d0, d1, d00, d01, d11 = self._evaluate(q)
        u, v = qd[0], qd[1]
        curvature = d00 * (u * u) + d01 * (2 * u * v) + d11 * (v * v)
        jacobian = jnp.stack([d0, d1], axis=-1) + self.winding
        return Jet(value + self.winding @ q, jacobian, curvature)

    def _evaluate(self, q: Float[Array, " nq"]) -> tuple[Array, Array, Array, Array, Array, Array]:
        """f, f_0, f_1, f_00, f_01, f_11 of the periodic part, each (nj,)."""
        self.check_coordinates(q)
        (k0, k1), (p0, p1) = self.orders, self.period
        c = self.coefficients
        c0 = differentiate(c, p0)
        tables = jnp.concatenate([c, c0, differentiate(c0, p0)], axis=2)
        # Axis 0: one product against tables that no batch multiplies.
        rows = harmonics(q[0], p0, k0) @ tables.reshape(len(c), -1)
        rows = rows.reshape(c.shape[1], -1)  # (2L + 1, 3 nj): f, f_0, f_00
        basis = harmonics(q[1], p1, k1)
        slope = derivative(basis, p1)
        d, d0, d00 = jnp.split(basis @ rows, 3)
        d1, d01, _ = jnp.split(slope @ rows, 3)
        d11 = derivative(slope, p1) @ rows[:, : self.n_out]
        return d, d0, d1, d00, d01, d11
