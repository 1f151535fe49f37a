"""B-spline basis functions on one axis, with two derivatives: what both splines share."""

from typing import Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from empbody.rhythms._samples import increasing

Extrapolation: TypeAlias = Literal["linear", "error"]


class LocalBasis(NamedTuple):
    """The degree + 1 basis functions that are not zero at x, with derivatives to x."""

    span: Int[Array, ""]
    """index of the first of them, and of the interval that holds x"""
    value: list[Float[Array, ""]]
    first: list[Float[Array, ""]]
    second: list[Float[Array, ""]]


def local_basis(
    x: Float[Array, ""],
    breaks: Float[Array, " nbreaks"],
    *,
    degree: int,
    periodic: bool,
    range_error: str,
) -> LocalBasis:
    """Basis functions of `degree` at x over strictly increasing breakpoints.

    A periodic axis wraps. Elsewhere, outside the breakpoints each function goes on along
    its end tangent (C¹, second derivative zero), unless `range_error` is a message to raise.
    """
    low, high = breaks[0], breaks[-1]
    if periodic:
        period = high - low
        inside = low + jnp.mod(x - low, period)
        knots = jnp.concatenate(
            [breaks[-degree - 1 : -1] - period, breaks, breaks[1 : degree + 1] + period]
        )
    else:
        if range_error:
            x = eqx.error_if(x, ~((x >= low) & (x <= high)), range_error)
        # Not jnp.clip: its derivative at the end points is a half.
        inside = jnp.where(x < low, low, jnp.where(x > high, high, x))
        knots = jnp.concatenate(
            [jnp.broadcast_to(low, (degree,)), breaks, jnp.broadcast_to(high, (degree,))]
        )
    span = jnp.searchsorted(breaks[1:-1], inside, side="right", method="scan_unrolled")
    near = lax.dynamic_slice(knots, (span + 1,), (2 * degree,))
    value, first, second = _triangle(inside, near, degree)
    if not periodic and not range_error:
        beyond = x - inside
        value = [b + d * beyond for b, d in zip(value, first, strict=True)]
        outside = (x < low) | (x > high)
        second = [jnp.where(outside, 0.0, dd) for dd in second]
    return LocalBasis(span, value, first, second)


def _triangle(
    x: Float[Array, ""], near: Float[Array, " twice_degree"], degree: int
) -> tuple[list[Array], list[Array], list[Array]]:
    """Cox-de Boor recurrence (de Boor, A Practical Guide to Splines, ch. X), with derivatives.

    `near` holds the `degree` knots at or left of x and the `degree` knots right of x. Every
    divisor spans the interval that holds x, so repeated end knots give no zero divisor.
    """
    zero = jnp.zeros_like(x)
    value, first, second = [jnp.ones_like(x)], [zero], [zero]
    for d in range(1, degree + 1):
        right = [near[degree + r] for r in range(d)]
        left = [near[degree - d + r] for r in range(d)]
        inverse = [1 / (b - a) for a, b in zip(left, right, strict=True)]
        scaled = [v * w for v, w in zip(value, inverse, strict=True)]
        slopes = [v * w for v, w in zip(first, inverse, strict=True)]
        value = _add(
            [(b - x) * s for b, s in zip(right, scaled, strict=True)],
            [(x - a) * s for a, s in zip(left, scaled, strict=True)],
        )
        # The derivative of degree d is a difference of functions of degree d - 1.
        if d >= degree:
            second = _add([-d * s for s in slopes], [d * s for s in slopes])
        if d >= degree - 1:
            first = _add([-d * s for s in scaled], [d * s for s in scaled])
        else:
            first = [zero] * (d + 1)
    return value, first, second


def _add(kept: list[Array], shifted: list[Array]) -> list[Array]:
    """kept[r] + shifted[r - 1] for r = 0 … n."""
    inner = [a + b for a, b in zip(kept[1:], shifted[:-1], strict=True)]
    return [kept[0], *inner, shifted[-1]]


def wrap_coefficients(
    coefficients: Float[Array, "n ..."], degree: int, periodic: bool
) -> Float[Array, "m ..."]:
    """All coefficients of a periodic axis from its independent ones; others as they are."""
    if not periodic:
        return coefficients
    return jnp.concatenate([coefficients, coefficients[:degree]])


def check_axis(name: str, nbreaks: int, ncoefficients: int, degree: int, periodic: bool) -> None:
    """Raise ValueError when breakpoints and coefficients of one axis do not match."""
    if degree not in (3, 5):
        raise ValueError(f"degree = {degree}; a spline here is cubic (3) or quintic (5)")
    least = degree + 1 if periodic else 2
    if nbreaks < least:
        raise ValueError(f"{name}: {nbreaks} breakpoints, at least {least} are needed")
    expected = nbreaks - 1 if periodic else nbreaks - 1 + degree
    if ncoefficients != expected:
        raise ValueError(
            f"{name}: {ncoefficients} coefficients for {nbreaks} breakpoints of degree {degree}"
            f"{', periodic' if periodic else ''}; {expected} are expected"
        )


def checked_range(
    name: str, breaks: Float[Array, " nbreaks"], extrapolation: str, periodic: bool
) -> str:
    """The message for a coordinate outside its range, or "" where the spline continues.

    Also checks that the breakpoints increase, where they are known (not traced).
    """
    if extrapolation not in ("linear", "error"):
        raise ValueError(f'extrapolation = "{extrapolation}"; "linear" or "error" is expected')
    known = not isinstance(breaks, Tracer)
    if known:
        increasing(f"breaks of {name}", np.asarray(breaks))
    if extrapolation == "linear" or periodic:
        return ""
    interval = f" [{float(breaks[0]):.9g}, {float(breaks[-1]):.9g}]" if known else ""
    return (
        f"{name} is outside the fitted range{interval}; "
        'fit over a wider range or use extrapolation="linear"'
    )


def combine(weights: list[Float[Array, ""]], rows: Float[Array, "n ..."]) -> Float[Array, "..."]:
    """Σ_r weights[r] rows[r], written out: under vmap a batch of tiny products is slow."""
    out = weights[0] * rows[0]
    for r in range(1, len(weights)):
        out = out + weights[r] * rows[r]
    return out
