"""Fourier series of one coordinate."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._harmonics import check_count, design, differentiate, harmonics
from empbody.rhythms._samples import Numbers, as_samples, least_squares


class Fourier(AbstractRhythm):
    """f(q) = winding q + a_0 + Σ_k a_k cos(kωq) + b_k sin(kωq), with ω = 2π / period.

    `coefficients` has the rows a_0, a_1 … a_K, b_1 … b_K, so K = (rows - 1)/2 is the order.
    A joint that turns w times per revolution of q has winding w (units of f per unit of q).
    The series is defined for every q; it repeats itself, up to the winding.
    """

    coefficients: Float[Array, "ncoef nj"]
    winding: Float[Array, " nj"]
    period: Float[Array, ""]

    def __init__(
        self, coefficients: Numbers, winding: Numbers | None = None, period: Numbers = 2 * np.pi
    ):
        self.coefficients = jnp.asarray(coefficients, dtype=float)
        if self.coefficients.ndim != 2:
            raise ValueError(
                f"coefficients of shape {self.coefficients.shape}; (2K + 1, nj) is expected"
            )
        check_count(self.coefficients.shape[0], "")
        nj = self.coefficients.shape[1]
        self.winding = jnp.zeros(nj) if winding is None else jnp.asarray(winding, dtype=float)
        if self.winding.shape != (nj,):
            raise ValueError(f"winding of shape {self.winding.shape} for {nj} joint variables")
        self.period = jnp.asarray(period, dtype=float)
        if self.period.shape != ():
            raise ValueError(f"period must be one number, got shape {self.period.shape}")

    @classmethod
    def fit(
        cls,
        x: Numbers,
        y: Numbers,
        order: int,
        winding: Numbers | None = None,
        period: float = 2 * np.pi,
    ) -> "Fourier":
        """Least squares through samples x (n,), y (n, nj), with a given winding (zero: None).

        The winding is not estimated: it is the whole number of turns that the mechanism
        makes, and a fitted value would drift with every revolution.
        """
        xs, ys = as_samples(x, y, n_in=1)
        if order < 0 or not period > 0:
            raise ValueError(f"order = {order} and period = {period}; ≥ 0 and > 0 are expected")
        turns = np.zeros(ys.shape[1]) if winding is None else np.asarray(winding, dtype=float)
        if turns.shape != (ys.shape[1],):
            raise ValueError(f"winding of shape {turns.shape} for {ys.shape[1]} columns of y")
        basis = design(xs[:, 0], period, order)
        what = f"a Fourier series of order {order}"
        return cls(least_squares(basis, ys - xs * turns, what), turns, period)

    @property
    def order(self) -> int:
        """Highest harmonic K."""
        return (self.coefficients.shape[0] - 1) // 2

    @property
    def n_in(self) -> int:
        return 1

    @property
    def n_out(self) -> int:
        return self.winding.shape[-1]

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        basis = harmonics(q[0], self.period, self.order)
        return self.winding * q[0] + basis @ self.coefficients

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        self.check_coordinates(q)
        basis = harmonics(q[0], self.period, self.order)
        slope = basis @ differentiate(self.coefficients, self.period)
        return (self.winding + slope)[:, None]

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        self.check_coordinates(q)
        basis = harmonics(q[0], self.period, self.order)
        first = differentiate(self.coefficients, self.period)
        return (basis @ differentiate(first, self.period))[:, None, None]

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        self.check_coordinates(q)
        basis = harmonics(q[0], self.period, self.order)
        first = differentiate(self.coefficients, self.period)
        second = differentiate(first, self.period)
        # One product for all three.
        out = basis @ jnp.concatenate([self.coefficients, first, second], axis=1)
        value, slope, bend = jnp.split(out, 3)
        return Jet(
            self.winding * q[0] + value,
            (self.winding + slope)[:, None],
            bend * (qd[0] * qd[0]),
        )
