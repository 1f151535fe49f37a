"""Curves y(x) made of quintic Bézier corners, with straight ends."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._curves import Normalised

_STEPS = 3
"""Of Halley's method: full double precision, relative to the nearer end, for every curviness in
[0.1, 0.9], for corners that start or end level too."""


class Knot(NamedTuple):
    """A point that a curve passes, and its slope there."""

    x: Normalised
    y: Normalised
    slope: Normalised


class Corner(NamedTuple):
    """One variable along a corner: start + span · S(u), with S from 0 to 1.

    Its six control values are start, twice start + lead, twice that + (1 - curviness) · span,
    and start + span.
    """

    start: Normalised
    span: Normalised
    lead: Normalised
    curviness: Normalised

    def at(self, u: Normalised) -> Normalised:
        early, late, last = _shapes(u)
        gap = (1.0 - self.curviness) * self.span
        return self.start + (self.lead * early + gap * late + self.span * last)

    def slope(self, u: Normalised) -> Normalised:
        w = 1.0 - u
        uu, ww = u * u, w * w
        gap = (1.0 - self.curviness) * self.span
        rest = self.curviness * self.span - self.lead
        return 5.0 * (self.lead * ww * ww + 6.0 * gap * uu * ww + rest * uu * uu)

    def parameter(self, value: Normalised) -> Normalised:
        """u in [0, 1] at which the (rising) variable has a value within its ends."""
        scale = 1.0 / jnp.where(self.span > 0.0, self.span, 1.0)
        return _parameter((value - self.start) * scale, self.lead * scale, self.curviness)


def _shapes(u: Normalised) -> tuple[Normalised, Normalised, Normalised]:
    """Factors of lead, of the gap between the inner control values, and of the span."""
    w = 1.0 - u
    uu = u * u
    late = 5.0 * u * uu * w * (1.0 + w)
    return late + 5.0 * u * w * w * w * (1.0 + u), late, u * uu * uu


@jax.custom_jvp
def _parameter(share: Normalised, lead: Normalised, curviness: Normalised) -> Normalised:
    """u with S(u) = share, where S has the given lead."""
    gap = 1.0 - curviness
    # The half of the corner in which the share lies, seen from its end of the corner.
    middle = (1.0 + 15.0 * (2.0 * lead + gap)) / 32.0
    first = share <= middle
    near = jnp.maximum(jnp.where(first, lead, curviness - lead), 0.0)
    far = curviness - near
    middle = jnp.where(first, middle, 1.0 - middle)
    part = jnp.maximum(jnp.where(first, share, 1.0 - share), 0.0)

    u = _guess(part / middle, middle, near, gap)
    for _ in range(_STEPS):
        w = 1.0 - u
        uu, uw, ww = u * u, u * w, w * w
        late = 5.0 * uu * uw * (1.0 + w)
        miss = near * (late + 5.0 * uw * ww * (1.0 + u)) + gap * late + uu * uu * u - part
        slope = 5.0 * (near * ww * ww + 6.0 * gap * uw * uw + far * uu * uu)
        bend = 10.0 * (far * uu * u - near * w * ww + 3.0 * gap * uw * (w - u))
        below = slope * slope - miss * bend
        step = miss * slope / jnp.where(below > 0.0, below, 1.0)
        u = jnp.clip(u - step, 0.0, 0.5)
    return jnp.where(first, u, 1.0 - u)


def _guess(share: Normalised, middle: Normalised, lead: Normalised, gap: Normalised) -> Normalised:
    """Start of the steps in [0, ½], from the share of S(½).

    A ratio of quadratics with the right slopes at both ends; but not more than the inverse of
    a cubic, which S is about where it starts level. A power of 11/32 is near enough to the
    third root, and quick.
    """
    p = share * (1.0 - share)
    at_start = 0.4 * middle
    at_end = 6.4 * middle / (1.0 + 5.0 * gap) - 2.0
    below = lead + (at_start + at_end * lead) * p
    level = jnp.sqrt(jnp.sqrt(share * jnp.sqrt(jnp.sqrt(share * jnp.sqrt(share)))))
    ratio = (lead * share * share + at_start * p) / jnp.where(below > 0.0, below, 1.0)
    return 0.5 * jnp.where(below > 0.0, jnp.minimum(ratio, level), level)


@_parameter.defjvp
def _parameter_jvp(primals: Any, tangents: Any) -> Any:
    (share, lead, curviness), (d_share, d_lead, d_curviness) = primals, tangents
    u = _parameter(share, lead, curviness)
    early, late, _ = _shapes(u)
    one = jnp.ones_like(lead)
    slope = Corner(0.0 * one, one, lead, curviness).slope(u)
    level = slope <= 0.0
    du = jnp.where(level, 0.0, 1.0 / jnp.where(level, 1.0, slope))
    return u, du * (d_share - early * d_lead + late * d_curviness)


def corner(first: Knot, last: Knot, curviness: Normalised) -> tuple[Corner, Corner]:
    """The bend between two knots, in x and in y.

    The tangents at the knots meet in a point; the control points stand on the tangents at the
    share `curviness` of the way to it.
    """
    turn = first.slope - last.slope
    meet_x = (last.y - first.y - last.x * last.slope + first.x * first.slope) / turn
    meet_y = last.y + (meet_x - last.x) * last.slope
    return (
        Corner(first.x, last.x - first.x, curviness * (meet_x - first.x), curviness),
        Corner(first.y, last.y - first.y, curviness * (meet_y - first.y), curviness),
    )


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
