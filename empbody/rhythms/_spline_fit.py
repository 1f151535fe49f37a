"""Interpolating B-splines of one axis, solved by SciPy when a spline is made."""

from typing import Literal, TypeAlias

import numpy as np
from scipy.interpolate import make_interp_spline

from empbody.rhythms._samples import increasing

Boundary: TypeAlias = Literal["natural", "not-a-knot", "periodic"]


def interpolate_axis(
    name: str, x: np.ndarray, y: np.ndarray, degree: int, boundary: str, period: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Breakpoints and independent coefficients, along axis 0, of the spline through (x, y).

    - "natural": f'' = 0 at both ends (cubic), f''' = f'''' = 0 (quintic);
    - "not-a-knot": the (degree - 1)/2 points next to each end are no breakpoints;
    - "periodic": all derivatives up to degree - 1 agree over the seam. The last sample
      repeats the first one period later, or `period` is given and it is left out.
    """
    if degree not in (3, 5):
        raise ValueError(f"degree = {degree}; a spline here is cubic (3) or quintic (5)")
    if boundary not in ("natural", "not-a-knot", "periodic"):
        raise ValueError(
            f'boundary = "{boundary}"; "natural", "not-a-knot" or "periodic" is expected'
        )
    increasing(name, x)
    if boundary == "periodic":
        x, y = _closed(name, x, y, period)
    elif period is not None:
        raise ValueError(f'period = {period:.9g} needs boundary="periodic", not "{boundary}"')
    least = (degree + 1) // 2 if boundary == "natural" else degree + 1
    if len(x) < least:
        raise ValueError(
            f"{len(x)} points along {name}; a {boundary} spline of degree {degree} "
            f"needs at least {least}"
        )
    if boundary == "natural":
        zero = np.zeros(y.shape[1:])
        orders = (2,) if degree == 3 else (3, 4)
        ends = [(order, zero) for order in orders]
        spline = make_interp_spline(x, y, degree, bc_type=(ends, ends))
    else:
        kind = "periodic" if boundary == "periodic" else None
        spline = make_interp_spline(x, y, degree, bc_type=kind)
    breaks = spline.t[degree:-degree]
    coefficients = spline.c[: len(x) - 1] if boundary == "periodic" else spline.c
    return breaks, coefficients


def _closed(
    name: str, x: np.ndarray, y: np.ndarray, period: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """The samples with the last equal to the first, one period later."""
    span = x[-1] - x[0]
    if period is not None and span < period * (1 - 1e-12):
        return np.append(x, x[0] + period), np.concatenate([y, y[:1]])
    if period is not None and span > period * (1 + 1e-12):
        raise ValueError(f"{name} spans {span:.9g}, more than one period of {period:.9g}")
    gap = np.abs(y[-1] - y[0])
    if np.any(gap > 1e-8 * np.ptp(y, axis=0).max()):
        raise ValueError(
            f"a periodic spline needs equal values at both ends of {name}, they differ by "
            f"{gap.max():.3g}; close the data, or leave the last sample out and give period="
        )
    return x, np.concatenate([y[:-1], y[:1]])
