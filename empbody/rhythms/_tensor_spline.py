"""Tensor-product splines of two coordinates."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from empbody.rhythms import _bspline as bspline
from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._samples import Numbers, finite
from empbody.rhythms._spline_fit import Boundary, interpolate_axis


class TensorSpline(AbstractRhythm):
    """nj joint variables as cubic or quintic tensor-product splines of two coordinates.

    `breaks` holds the breakpoints of each axis (units of q, increasing), `coefficients` one
    B-spline coefficient per pair of basis functions; either axis may be periodic. For any
    values of these leaves the surface stays C² (cubic) or C⁴ (quintic).

    Outside the breakpoints each axis that is not periodic goes on linearly by itself, so
    the surface is C¹ everywhere and bilinear beyond a corner; with extrapolation="error"
    it raises there instead, naming the axis and its range.
    """

    breaks: tuple[Float[Array, " nbreaks0"], Float[Array, " nbreaks1"]]
    coefficients: Float[Array, "ncoef0 ncoef1 nj"]
    degree: int = eqx.field(static=True)
    periodic: tuple[bool, bool] = eqx.field(static=True)
    range_error: tuple[str, str] = eqx.field(static=True)

    def __init__(
        self,
        breaks: tuple[Numbers, Numbers],
        coefficients: Numbers,
        *,
        degree: int = 5,
        periodic: tuple[bool, bool] = (False, False),
        extrapolation: bspline.Extrapolation = "linear",
    ):
        if len(breaks) != 2 or len(periodic) != 2:
            raise ValueError(f"{len(breaks)} axes of breaks and {len(periodic)} of periodic; not 2")
        first, second = (jnp.asarray(b, dtype=float) for b in breaks)
        self.breaks = (first, second)
        self.coefficients = jnp.asarray(coefficients, dtype=float)
        if first.ndim != 1 or second.ndim != 1 or self.coefficients.ndim != 3:
            raise ValueError(
                f"breaks of shapes {first.shape}, {second.shape} and coefficients of shape "
                f"{self.coefficients.shape}; (nbreaks,) each and (ncoef0, ncoef1, nj) are expected"
            )
        self.degree = degree
        self.periodic = (bool(periodic[0]), bool(periodic[1]))
        for a in range(2):
            count = self.coefficients.shape[a]
            bspline.check_axis(f"q[{a}]", len(self.breaks[a]), count, degree, periodic[a])
        self.range_error = (
            bspline.checked_range("q[0]", first, extrapolation, periodic[0]),
            bspline.checked_range("q[1]", second, extrapolation, periodic[1]),
        )

    @classmethod
    def fit(
        cls,
        x0: Numbers,
        x1: Numbers,
        y: Numbers,
        *,
        degree: int = 5,
        boundary: tuple[Boundary, Boundary] = ("not-a-knot", "not-a-knot"),
        extrapolation: bspline.Extrapolation = "linear",
        period: tuple[float | None, float | None] = (None, None),
    ) -> "TensorSpline":
        """The spline through a grid: y (n0, n1, nj) at the pairs of x0 (n0,) and x1 (n1,).

        Boundaries and periods, one for each axis, as in `Spline.fit`.
        """
        xs = (finite("x0", x0), finite("x1", x1))
        ys = finite("y", y)
        ys = ys[:, :, None] if ys.ndim == 2 else ys
        if ys.ndim != 3 or ys.shape[:2] != (xs[0].size, xs[1].size):
            raise ValueError(
                f"y of shape {ys.shape} for a grid of {xs[0].size} by {xs[1].size} points"
            )
        if len(boundary) != 2 or len(period) != 2:
            raise ValueError(f"{len(boundary)} boundaries and {len(period)} periods for 2 axes")
        args = [("x0", xs[0], boundary[0], period[0]), ("x1", xs[1], boundary[1], period[1])]
        breaks = []
        for name, x, ends, turn in args:
            found, ys = interpolate_axis(name, x.ravel(), ys, degree, ends, turn)
            breaks.append(found)
            ys = np.swapaxes(ys, 0, 1)  # the other axis first; back in place after both
        return cls(
            (breaks[0], breaks[1]),
            ys,
            degree=degree,
            periodic=(boundary[0] == "periodic", boundary[1] == "periodic"),
            extrapolation=extrapolation,
        )

    @property
    def n_in(self) -> int:
        return 2

    @property
    def n_out(self) -> int:
        return self.coefficients.shape[-1]

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        return self._evaluate(q)[0]

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        _, d0, d1, *_ = self._evaluate(q)
        return jnp.stack([d0, d1], axis=-1)

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        *_, d00, d01, d11 = self._evaluate(q)
        rows = [jnp.stack([d00, d01], axis=-1), jnp.stack([d01, d11], axis=-1)]
        return jnp.stack(rows, axis=-2)

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        value, d0, d1, d00, d01, d11 = self._evaluate(q)
        u, v = qd[0], qd[1]
        curvature = d00 * (u * u) + d01 * (2 * u * v) + d11 * (v * v)
        return Jet(value, jnp.stack([d0, d1], axis=-1), curvature)

    def _evaluate(self, q: Float[Array, " nq"]) -> tuple[Array, Array, Array, Array, Array, Array]:
        """f, f_0, f_1, f_00, f_01, f_11, each (nj,); what the caller drops, XLA drops."""
        self.check_coordinates(q)
        k = self.degree
        b0, b1 = (
            bspline.local_basis(
                q[a],
                self.breaks[a],
                degree=k,
                periodic=self.periodic[a],
                range_error=self.range_error[a],
            )
            for a in range(2)
        )
        table = bspline.wrap_coefficients(self.coefficients, k, self.periodic[0])
        table = jnp.swapaxes(table, 0, 1)
        table = jnp.swapaxes(bspline.wrap_coefficients(table, k, self.periodic[1]), 0, 1)
        local = lax.dynamic_slice(
            table, (b0.span, b1.span, jnp.zeros_like(b0.span)), (k + 1, k + 1, self.n_out)
        )
        # Along axis 0 first, then along axis 1.
        f, f0, f00 = (_contract(w, local) for w in (b0.value, b0.first, b0.second))
        return (
            _contract(b1.value, f),
            _contract(b1.value, f0),
            _contract(b1.first, f),
            _contract(b1.value, f00),
            _contract(b1.first, f0),
            _contract(b1.second, f),
        )


def _contract(weights: list[Array], rows: Float[Array, "n *rest"]) -> Float[Array, "*rest"]:
    """Σ_r weights[r] rows[r]; written out as in `Spline` it would compile four times longer."""
    return jnp.sum(jnp.stack(weights).reshape(-1, *[1] * (rows.ndim - 1)) * rows, axis=0)
