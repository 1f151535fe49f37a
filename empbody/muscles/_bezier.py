"""Curves y(x) made of quintic Bézier corners, with straight ends."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._curves import Normalised

STEPS = 8
"""Enough for full double precision on the published curves, where x(u) is nowhere flat."""


class Knot(NamedTuple):
    """A point that a curve passes, and its slope there."""

    x: Float[Array, "..."]
    y: Float[Array, "..."]
    slope: Float[Array, "..."]


class Corner(NamedTuple):
    """Control values of one corner for one variable: start, twice `near`, twice `far`, end."""

    start: Float[Array, "..."]
    near: Float[Array, "..."]
    far: Float[Array, "..."]
    end: Float[Array, "..."]

    def at(self, u: Normalised) -> Normalised:
        w = 1.0 - u
        uu, ww = u * u, w * w
        return (
            ww * ww * (self.start * w + 5.0 * self.near * u)
            + 10.0 * uu * ww * (self.near * w + self.far * u)
            + uu * uu * (5.0 * self.far * w + self.end * u)
        )

    def slope(self, u: Normalised) -> Normalised:
        w = 1.0 - u
        uu, ww = u * u, w * w
        return 5.0 * (
            (self.near - self.start) * ww * ww
            + 6.0 * (self.far - self.near) * uu * ww
            + (self.end - self.far) * uu * uu
        )

    def parameter(self, value: Normalised, steps: int = STEPS) -> Normalised:
        """u in [0, 1] at which the (rising) polynomial has a value within its ends."""
        return _parameter(steps, self, value)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _parameter(steps: int, corner: Corner, value: Normalised) -> Normalised:
    return rising_root(corner, value, steps)


@_parameter.defjvp
def _parameter_jvp(steps: int, primals: Any, tangents: Any) -> Any:
    (corner, value), (d_corner, d_value) = primals, tangents
    u = _parameter(steps, corner, value)
    slope = corner.slope(u)
    flat = slope <= 0.0
    du = jnp.where(flat, 0.0, 1.0 / jnp.where(flat, 1.0, slope))
    return u, du * (d_value - Corner(*d_corner).at(u))


def rising_root(corner: Corner, value: Normalised, steps: int = STEPS) -> Normalised:
    """Newton's method in a shrinking bracket; halves the bracket where a step leaves it."""
    low, high = jnp.zeros_like(value), jnp.ones_like(value)
    span = corner.end - corner.start
    u = jnp.clip((value - corner.start) / jnp.where(span > 0.0, span, 1.0), 0.0, 1.0)

    def advance(_: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        low, high, u = state
        miss = corner.at(u) - value
        low, high = jnp.where(miss < 0.0, u, low), jnp.where(miss < 0.0, high, u)
        slope = corner.slope(u)
        step = u - miss / jnp.where(slope > 0.0, slope, 1.0)
        inside = (step >= low) & (step <= high) & (slope > 0.0)
        return low, high, jnp.where(inside, step, 0.5 * (low + high))

    # A loop: unrolled steps would be compiled, and run, again in every use of the result.
    return jax.lax.fori_loop(0, steps, advance, (low, high, u))[2]


def corner(first: Knot, last: Knot, curviness: Normalised) -> tuple[Corner, Corner]:
    """Control values in x and in y of the bend between two knots.

    The tangents at the knots meet in a point; the control points stand on the tangents at the
    share `curviness` of the way to it.
    """
    turn = first.slope - last.slope
    meet_x = (last.y - first.y - last.x * last.slope + first.x * first.slope) / turn
    meet_y = last.y + (meet_x - last.x) * last.slope
    x = Corner(
        first.x,
        first.x + curviness * (meet_x - first.x),
        last.x + curviness * (meet_x - last.x),
        last.x,
    )
    y = Corner(
        first.y,
        first.y + curviness * (meet_y - first.y),
        last.y + curviness * (meet_y - last.y),
        last.y,
    )
    return x, y


class Curve(NamedTuple):
    """Corners between consecutive knots; straight before the first and after the last."""

    knots: tuple[Knot, ...]
    corners: tuple[tuple[Corner, Corner], ...]

    @classmethod
    def through(cls, knots: tuple[Knot, ...], curviness: tuple[Normalised, ...]) -> "Curve":
        pairs = zip(knots[:-1], knots[1:], curviness, strict=True)
        return cls(knots, tuple(corner(a, b, c) for a, b, c in pairs))

    def select(self, past: tuple[Array, ...]) -> tuple[Corner, Corner]:
        """The corner after the last inner knot that is passed, entry by entry."""
        x, y = self.corners[0]
        for passed, (later_x, later_y) in zip(past, self.corners[1:], strict=True):
            x = Corner(*(jnp.where(passed, b, a) for a, b in zip(x, later_x, strict=True)))
            y = Corner(*(jnp.where(passed, b, a) for a, b in zip(y, later_y, strict=True)))
        return x, y

    def __call__(self, x: Normalised) -> Normalised:
        first, last = self.knots[0], self.knots[-1]
        inside = jnp.where(x < first.x, first.x, jnp.where(x > last.x, last.x, x))
        along_x, along_y = self.select(tuple(inside >= knot.x for knot in self.knots[1:-1]))
        middle = along_y.at(along_x.parameter(inside))
        before = first.y + first.slope * (x - first.x)
        after = last.y + last.slope * (x - last.x)
        return jnp.where(x < first.x, before, jnp.where(x > last.x, after, middle))
