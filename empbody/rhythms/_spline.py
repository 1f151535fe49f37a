"""Splines of one coordinate."""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from empbody.rhythms import _bspline as bspline
from empbody.rhythms._one_input import AbstractCurve
from empbody.rhythms._samples import Numbers, as_samples
from empbody.rhythms._spline_fit import Boundary, interpolate_axis


class Spline(AbstractCurve):
    """nj joint variables as cubic or quintic splines of one coordinate.

    The leaves are the breakpoints (units of q, increasing) and the B-spline coefficients:
    whatever values an optimiser gives them, the curve stays C² (cubic) or C⁴ (quintic).
    f'' enters the equations of motion, so integration of high order needs the quintic. A
    periodic spline holds one coefficient per interval and wraps around.

    Outside the breakpoints a spline that is not periodic goes on along its end tangent
    (C¹, f'' = 0) or, with extrapolation="error", raises, naming the range it was made with.
    """

    breaks: Float[Array, " nbreaks"]
    coefficients: Float[Array, "ncoef nj"]
    degree: int = eqx.field(static=True)
    periodic: bool = eqx.field(static=True)
    range_error: str = eqx.field(static=True)

    def __init__(
        self,
        breaks: Numbers,
        coefficients: Numbers,
        *,
        degree: int = 5,
        periodic: bool = False,
        extrapolation: bspline.Extrapolation = "linear",
    ):
        self.breaks = jnp.asarray(breaks, dtype=float)
        self.coefficients = jnp.asarray(coefficients, dtype=float)
        if self.breaks.ndim != 1 or self.coefficients.ndim != 2:
            raise ValueError(
                f"breaks of shape {self.breaks.shape} and coefficients of shape "
                f"{self.coefficients.shape}; (nbreaks,) and (ncoef, nj) are expected"
            )
        self.degree, self.periodic = degree, periodic
        bspline.check_axis("q", len(self.breaks), len(self.coefficients), degree, periodic)
        self.range_error = bspline.checked_range("q", self.breaks, extrapolation, periodic)

    @classmethod
    def fit(
        cls,
        x: Numbers,
        y: Numbers,
        *,
        degree: int = 5,
        boundary: Boundary = "not-a-knot",
        extrapolation: bspline.Extrapolation = "linear",
        period: float | None = None,
    ) -> "Spline":
        """The spline through samples x (n,) increasing, y (n, nj).

        Natural ends: f'' = 0 (cubic), f''' = f'''' = 0 (quintic). Periodic: the last sample
        repeats the first, or is left out and `period` is given.
        """
        xs, ys = as_samples(x, y, n_in=1)
        breaks, coefficients = interpolate_axis("x", xs[:, 0], ys, degree, boundary, period)
        return cls(
            breaks,
            coefficients,
            degree=degree,
            periodic=boundary == "periodic",
            extrapolation=extrapolation,
        )

    @property
    def n_out(self) -> int:
        return self.coefficients.shape[-1]

    def _evaluate(self, q: Float[Array, " nq"]) -> tuple[Array, Array, Array]:
        """f, f', f'', each (nj,); what the caller drops, XLA drops."""
        self.check_coordinates(q)
        basis = bspline.local_basis(
            q[0],
            self.breaks,
            degree=self.degree,
            periodic=self.periodic,
            range_error=self.range_error,
        )
        table = bspline.wrap_coefficients(self.coefficients, self.degree, self.periodic)
        rows = lax.dynamic_slice_in_dim(table, basis.span, self.degree + 1)
        value, first, second = (
            bspline.combine(weights, rows) for weights in (basis.value, basis.first, basis.second)
        )
        return value, first, second
