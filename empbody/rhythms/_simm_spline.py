"""The spline of SIMM and OpenSim: interpolation of tabulated couplers and moving points."""

from types import ModuleType

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from empbody.rhythms._one_input import AbstractCurve
from empbody.rhythms._samples import Numbers, finite, increasing


class SimmSpline(AbstractCurve):
    """nj joint variables as OpenSim's SimmSpline of one coordinate, through knots (x, y).

    Two knots make a straight line, three a parabola, four one cubic. With more it is the
    cubic spline (C²) whose third derivative in the first and in the last interval is that
    of the cubic through the first and the last four knots (Forsythe, Malcolm & Moler 1977,
    ch. 4). Outside the knots it goes on along its end tangents (C¹, f'' = 0). At an end
    knot itself f'' is that of the inside.

    `x` (units of q, increasing) has shape (n,); `y` has (n, nj), or (n,) for one joint
    variable. Joint variables with other x are other splines, side by side in a `Stack`.

    The leaves are x, y and the slopes at the knots, none for a straight line: whatever
    values an optimiser gives them, the curve stays C¹. To fit y and keep the rule above,
    make the spline inside the loss. Meant for the few knots of published models: all
    pieces are looked at. f'' has corners, so integration of high order is better served by
    a quintic `Spline`.
    """

    breaks: Float[Array, " nbreaks"]
    values: Float[Array, "nbreaks nj"]
    slopes: Float[Array, "nslopes nj"]

    def __init__(self, x: Numbers, y: Numbers):
        traced = isinstance(x, Tracer) or isinstance(y, Tracer)
        xp = jnp if traced else np
        breaks, values = xp.asarray(x, dtype=float), xp.asarray(y, dtype=float)
        columns = values[:, None] if values.ndim == 1 else values
        if breaks.ndim != 1 or columns.ndim != 2:
            raise ValueError(
                f"x of shape {breaks.shape} and y of shape {values.shape}; "
                "(n,) and (n,) or (n, nj) are expected"
            )
        if len(breaks) != len(columns):
            raise ValueError(f"{len(columns)} rows of y for {len(breaks)} knots")
        if len(breaks) < 2:
            raise ValueError(f"{len(breaks)} knots; a SimmSpline needs at least 2")
        if not isinstance(x, Tracer):
            increasing("x", finite("x", np.asarray(x)))
        if not isinstance(y, Tracer):
            finite("y", np.asarray(y))
        self.breaks = jnp.asarray(breaks, dtype=float)
        self.values = jnp.asarray(columns, dtype=float)
        slopes = columns[:0] if len(breaks) == 2 else _slopes(xp, breaks, columns)
        self.slopes = jnp.asarray(slopes, dtype=float)

    @property
    def n_out(self) -> int:
        return self.values.shape[-1]

    def _evaluate(self, q: Float[Array, " nq"]) -> tuple[Array, Array, Array]:
        """f, f', f'', each (nj,); what the caller drops, XLA drops."""
        self.check_coordinates(q)
        t, x, y = q[0], self.breaks, self.values
        h = (x[1:] - x[:-1])[:, None]
        secant = (y[1:] - y[:-1]) / h
        if len(x) == 2:
            return y[0] + (t - x[0]) * secant[0], secant[0], jnp.zeros_like(secant[0])
        slope = self.slopes
        bend = (3.0 * secant - 2.0 * slope[:-1] - slope[1:]) / h
        twist = (slope[:-1] + slope[1:] - 2.0 * secant) / (h * h)
        start, pieces = x[0], jnp.stack([y[:-1], slope[:-1], bend, twist], axis=1)
        # Selecting among a few pieces is quicker in a batch than looking one up.
        piece = pieces[0]
        for k in range(1, len(pieces)):
            start = jnp.where(t >= x[k], x[k], start)
            piece = jnp.where(t >= x[k], pieces[k], piece)
        end = jnp.where(t < x[0], x[0], jnp.where(t > x[-1], x[-1], t))
        u = end - start
        first = piece[1] + u * (2.0 * piece[2] + (3.0 * u) * piece[3])
        second = jnp.where(t == end, 2.0 * piece[2] + (6.0 * u) * piece[3], 0.0)
        value = piece[0] + u * (piece[1] + u * (piece[2] + u * piece[3]))
        return value + (t - end) * first, first, second


def _slopes(xp: ModuleType, x: Array | np.ndarray, y: Array | np.ndarray) -> Array | np.ndarray:
    """f' at three or more knots.

    The unknowns are a sixth of f'' at the inner knots, one equation each from continuity of
    f'. The end rule gives the slope of f'' in the end intervals, and with it the end knots.
    """
    h = x[1:] - x[:-1]
    secant = (y[1:] - y[:-1]) / h[:, None]
    front = back = 0.0 * secant[0]
    if len(x) > 3:
        front, back = _third_difference(x[:4], secant[:3]), _third_difference(x[-4:], secant[-3:])
    # Each row of `select` picks an inner knot; ends hang on their neighbours.
    inner = np.eye(len(x) - 2)
    select = np.vstack([inner[:1], inner, inner[-1:]])
    rows = (
        h[:-1, None] * select[:-2]
        + 2.0 * (h[:-1] + h[1:])[:, None] * select[1:-1]
        + h[1:, None] * select[2:]
    )
    zero = 0.0 * secant[:1]
    known = xp.concatenate([-h[0] * front[None], *([zero] * (len(x) - 2)), h[-1] * back[None]])
    right = secant[1:] - secant[:-1] - h[:-1, None] * known[:-2] - h[1:, None] * known[2:]
    s = select @ xp.linalg.solve(rows, right) + known
    forward = secant - h[:, None] * (2.0 * s[:-1] + s[1:])
    last = secant[-1:] + h[-1] * (s[-2:-1] + 2.0 * s[-1:])
    return xp.concatenate([forward, last])


def _third_difference(x: Array | np.ndarray, secant: Array | np.ndarray) -> Array | np.ndarray:
    """Third divided difference over four knots, from the three secants."""
    first = (secant[1] - secant[0]) / (x[2] - x[0])
    second = (secant[2] - secant[1]) / (x[3] - x[1])
    return (second - first) / (x[3] - x[0])
