"""Pre-modelling: sweep a loop closure, then fit an explicit family (Ehsani 2016, section 3-3)."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm
from empbody.rhythms._closure_derivatives import closure_hessian, value_and_slope
from empbody.rhythms._continuation import (
    closing_jump,
    coordinate_names,
    follow,
    node_coordinates,
    per_input,
    uniform_axes,
)
from empbody.rhythms._fourier import Fourier
from empbody.rhythms._fourier_tensor import FourierTensor
from empbody.rhythms._samples import Numbers
from empbody.rhythms._small_lu import SmallLU
from empbody.rhythms._spline import Spline
from empbody.rhythms._tensor_spline import TensorSpline

Family = Literal["cubic", "cubic-not-a-knot", "quintic", "fourier"]
_SPLINES = {
    "cubic": (3, "natural"),
    "cubic-not-a-knot": (3, "not-a-knot"),
    "quintic": (5, "not-a-knot"),
}


class PremodelReport(NamedTuple):
    """Errors of a pre-modelled rhythm against the loop closure itself.

    Largest absolute error over the samples, ends included, and half-way between them, one
    figure for each unknown. A spline is worst at the ends of its range; f'' enters the
    equations of motion, so its error is the one to look at.
    """

    family: str
    samples: int
    value: Float[np.ndarray, " nf"]
    """error of f, in its units"""
    gradient: Float[np.ndarray, " nf"]
    """error of ∂f/∂q, worst entry"""
    hessian: Float[np.ndarray, " nf"]
    """error of the Hessian, worst entry"""
    closure: float
    """largest |g(q, f)| that the fit leaves, in the residual's units"""

    def __str__(self) -> str:
        rows = [
            f"{self.family}, {self.samples} samples, loops close to {self.closure:.1e}",
            "unknown    value   gradient    Hessian",
        ]
        for j, figures in enumerate(zip(self.value, self.gradient, self.hessian, strict=True)):
            rows.append(f"{j:7d}" + "".join(f"  {x:9.1e}" for x in figures))
        return "\n".join(rows)


def premodel(
    residual: Callable,
    seed_q: Numbers,
    seed_f: Numbers,
    lower: Numbers,
    upper: Numbers,
    *,
    family: Family = "quintic",
    step: float | Sequence[float] | None = None,
    n: int | Sequence[int] | None = None,
    order: int | tuple[int, int] | None = None,
    periodic: bool | Sequence[bool] = False,
    extrapolation: Literal["linear", "error"] = "linear",
    coordinates: Sequence[str] | None = None,
) -> tuple[AbstractRhythm, PremodelReport]:
    """An explicit rhythm through the solutions of g(q, f) = 0 on one assembly mode.

    Arguments up to `upper`, `n`, `step` and `periodic` as in `Implicit.build`; the default
    step is 0.01 for one coordinate (as the manuscript takes) and 64 cells for each of two.

    - `family`: "cubic" (natural ends, the manuscript's), "cubic-not-a-knot", "quintic", or
      "fourier" with its `order`, for full periods; unknowns may wind. Splines of two
      coordinates are tensor products. Only "quintic" and "fourier" are smooth enough for
      high-order integration. A periodic coordinate gives a periodic spline.
    - `extrapolation`: of splines outside their range, as in `Spline`.

    Returns the rhythm and its errors, derivatives included.
    """
    seed = np.atleast_1d(np.asarray(seed_q, dtype=float))
    nq = seed.shape[0]
    if nq > 2:
        raise ValueError(f"pre-modelling takes one or two coordinates, not {nq}")
    if family not in (*_SPLINES, "fourier"):
        raise ValueError(f"family = {family!r}; one of {(*_SPLINES, 'fourier')} is expected")
    names = coordinate_names(coordinates, nq)
    wraps = per_input(periodic, nq, bool)
    if family == "fourier" and not all(wraps):
        raise ValueError("a Fourier family needs full periods: give periodic=True")
    if (family == "fourier") != (order is not None):
        raise ValueError("order= is for family='fourier', and needed there")
    if n is None and step is None:
        n, step = (None, 0.01) if nq == 1 else (64, None)
    axes = uniform_axes(per_input(lower, nq, float), per_input(upper, nq, float), n, step, names)
    start = np.atleast_1d(np.asarray(seed_f, dtype=float))
    values, _ = follow(residual, seed, start, axes)
    values = np.asarray(values, dtype=np.float64)
    jumps = np.zeros((nq, values.shape[-1]))
    for k in range(nq):
        if wraps[k]:
            jumps[k] = closing_jump(values, k, names[k])
    if family == "fourier":
        rhythm = _fourier(axes, values, jumps, order)
    else:
        if np.any(jumps != 0):
            raise ValueError(
                "an unknown winds with a periodic coordinate, which a periodic spline cannot "
                "follow; use family='fourier' or periodic=False"
            )
        rhythm = _spline(axes, values, family, wraps, extrapolation)
    return rhythm, _report(residual, rhythm, axes, family)


def _spline(axes, values, family: str, wraps: list[bool], extrapolation) -> AbstractRhythm:
    degree, ends = _SPLINES[family]
    boundary: list[Any] = ["periodic" if wrap else ends for wrap in wraps]
    values = values.copy()
    for k, wrap in enumerate(wraps):
        if wrap:  # equal to rounding already; a periodic fit wants the same numbers
            last = (slice(None),) * k + (-1,)
            values[last] = values[(slice(None),) * k + (0,)]
    how = {"degree": degree, "extrapolation": extrapolation}
    if len(axes) == 1:
        return Spline.fit(axes[0], values, boundary=boundary[0], **how)
    first, second = axes
    return TensorSpline.fit(first, second, values, boundary=(boundary[0], boundary[1]), **how)


def _fourier(axes, values, jumps, order) -> AbstractRhythm:
    period = np.array([axis[-1] - axis[0] for axis in axes])
    winding = (jumps / period[:, None]).T
    # Without the repeated last node the harmonics are orthogonal on the samples.
    inner = (slice(None, -1),) * len(axes)
    x = node_coordinates([axis[:-1] for axis in axes]).reshape(-1, len(axes))
    y = values[inner].reshape(-1, values.shape[-1])
    if len(axes) == 1:
        return Fourier.fit(x[:, 0], y, order, winding=winding[:, 0], period=period[0])
    orders = (order, order) if isinstance(order, int) else order
    return FourierTensor.fit(x, y, orders, winding=winding, period=(period[0], period[1]))


@eqx.filter_jit
def _compare(residual, rhythm, q: Float[Array, "samples nq"]):
    def one(x: Float[Array, " nq"]):
        fitted = rhythm(x)

        def correct(_, f):
            g, by_f = value_and_slope(residual, x, f)
            return f - SmallLU(by_f).solve(g)

        exact = jax.lax.fori_loop(0, 4, correct, fitted)
        jacobian, hessian = closure_hessian(residual, x, exact)
        return (
            jnp.abs(fitted - exact),
            jnp.max(jnp.abs(rhythm.jacobian(x) - jacobian), axis=1),
            jnp.max(jnp.abs(rhythm.hessian(x) - hessian), axis=(1, 2)),
            jnp.max(jnp.abs(residual(x, fitted))),
        )

    return tuple(jnp.max(error, axis=0) for error in jax.vmap(one)(q))


def _report(residual, rhythm: AbstractRhythm, axes, family: str) -> PremodelReport:
    halves = [np.linspace(axis[0], axis[-1], 2 * len(axis) - 1) for axis in axes]
    q = jnp.asarray(node_coordinates(halves).reshape(-1, len(axes)), dtype=float)
    value, gradient, hessian, closure = (np.asarray(x) for x in _compare(residual, rhythm, q))
    samples = int(np.prod([len(axis) for axis in axes]))
    return PremodelReport(family, samples, value, gradient, hessian, float(closure))
