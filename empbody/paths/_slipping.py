"""Where a string over an ellipsoid rests, and whether one that is held on a side would slip off.

Seen along the straight line between its ends, the ellipsoid is an ellipse and the line a point
in it. A string from far away that goes round the outside is the shorter the nearer it passes to
that point, so it rests where the ellipse is nearest. There are two such places, one on either
side, while the point lies within the evolute of the ellipse, and beyond only one: the string
slips over to it. With semi-axes A > B, and (x, y) the point, the evolute is

    (A x)^(2/3) + (B y)^(2/3) = (A² - B²)^(2/3),

in which the ellipse (A x)² + (B y)² = ((A² - B²) / 2)² is inscribed. Both strings lie across the
shorter axis, so a side that points along the longer one prefers neither. For ends that are near
all this is no more than an estimate.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._vectors import cross, dot

STEADY = (0.35, 0.6)
"""Shares of the evolute's size up to which a string is held fully, and at all."""
ACROSS = (0.4, 0.8)
"""Squared cosines of the angle between the shorter axis and the side below which a string is not
held, and above which it is fully."""


_STEEP = 1.5
"""Tangent of the angle from the valley at which a string rests, at most."""

NEAR, HARDER = (0.8, 1.8), 0.7
"""A string slips off sooner where an end is near: from the first of these distances from the centre
(the second counts as far), all the shares are worth this much more."""


class Seen(NamedTuple):
    """The ellipse and the point in it."""

    begin: Float[Array, "3 ..."]
    """First end (m)."""
    along: Float[Array, "3 ..."]
    """Direction of the line."""
    long: Float[Array, "..."]
    """Its length (m)."""
    off: Float[Array, "3 ..."]
    """From the centre to the line (m)."""
    square: Float[Array, "3 ..."]
    """Of the semi-axes (m²)."""
    total: Float[Array, "..."]
    """A² + B², and A² - B²."""
    difference: Float[Array, "..."]
    firm: Bool[Array, "..."]
    """Where it is not a circle."""
    through: Bool[Array, "..."]
    """Where the line runs through the centre."""
    weighted: Float[Array, "..."]
    """A² x² + B² y² (m⁴)."""
    towards: Float[Array, "3 ..."]
    """The side's direction as it is seen, not of unit length; where `blind`, nothing of it is."""
    blind: Bool[Array, "..."]

    @property
    def share(self) -> Float[Array, "..."]:
        """Of the evolute's size."""
        share = jnp.sqrt(jnp.where(self.through, 1.0, self.weighted)) / self.difference
        return jnp.where(self.through, 0.0, share)

    @property
    def across(self) -> Float[Array, "..."]:
        """Squared cosine of the angle between the side's direction and B."""
        larger = 0.5 * (self.total + self.difference)
        return jnp.where(self.blind, 0.0, (larger - self.ratio) / self.difference)

    @property
    def ratio(self) -> Float[Array, "..."]:
        """Squared extent of the ellipse towards the side (m²)."""
        return dot(self.towards, self.towards * self.square) / dot(self.towards, self.towards)

    @property
    def valley(self) -> Float[Array, "3 ..."]:
        """Direction of the ellipse's shorter axis, either way, of unit length. A string rests
        where the ellipse ends in that direction, or in the opposite one."""
        along = self.along
        # Two directions across the line, and the ellipse's matrix in them.
        first = jnp.abs(along[0]) <= jnp.abs(along[1])
        axis = jnp.stack([first, ~first, jnp.zeros_like(first)]).astype(along.dtype)
        one = axis - dot(axis, along)[None] * along
        one = one / jnp.sqrt(dot(one, one))[None]
        two = cross(along, one)
        both, cross_term = self.square * one, dot(self.square * one, two)
        half = 0.5 * (dot(both, one) - dot(self.square * two, two))
        gap = jnp.sqrt(half * half + cross_term * cross_term)
        longer = half > 0.0
        x = jnp.where(longer, -cross_term, gap - half)
        y = jnp.where(longer, half + gap, -cross_term)
        some = x * x + y * y > 0.0
        x = jnp.where(some, x, 1.0)
        scale = 1.0 / jnp.sqrt(jnp.where(some, x * x + y * y, 1.0))
        return (x * scale)[None] * one + (y * scale)[None] * two


def seen(
    a: Float[Array, "3 ..."],
    b: Float[Array, "3 ..."],
    size: Float[Array, "3 ..."],
    side: Float[Array, "3 ..."],
) -> Seen:
    """For a string from a to b, both divided by the semi-axes; `side` is a direction of unit
    length, or zero."""
    begin, line = a * size, (b - a) * size
    long = dot(line, line)
    some = long > 0.0
    long = jnp.sqrt(jnp.where(some, long, 1.0))
    along = line / long[None]
    off = begin - dot(begin, along)[None] * along
    square = size * size
    total = dot(square, 1.0 - along * along)
    product = square[0] * square[1] * square[2] * dot(along, along / square)
    gap = total * total - 4.0 * product
    firm = some & (gap > 1e-8 * total * total)
    difference = jnp.sqrt(jnp.where(firm, gap, 1.0))
    through = dot(off, off) <= 1e-16 * total
    weighted = jnp.where(through, 0.0, dot(off, off * square))
    towards = side - dot(side, along)[None] * along
    blind = dot(towards, towards) <= 1e-12
    towards = jnp.where(blind[None], 1.0, towards)
    return Seen(
        begin, along, long, off, square, total, difference, firm, through, weighted, towards, blind
    )


def turn_over(seen: Seen, size: Float[Array, "3 ..."], valley: Float[Array, "3 ..."]) -> Array:
    """Axis about which a string turns, right-handed, that rests in a valley; in coordinates
    divided by the semi-axes."""
    axis = cross(valley * size, seen.along / size)
    return axis / jnp.sqrt(dot(axis, axis))[None]


def rests(
    a: Float[Array, "3 ..."],
    b: Float[Array, "3 ..."],
    size: Float[Array, "3 ..."],
    turn: Float[Array, "3 ..."],
) -> tuple[Float[Array, "3 ..."], Bool[Array, "..."]]:
    """Where a string from a to b, both divided by the semi-axes, rests if both are far: a
    direction from the centre (m); and whether there are two such places. It is the nearer one, or
    the one for which the string turns about an axis."""
    here = seen(a, b, size, jnp.zeros_like(a))
    valley = here.valley
    towards = dot(here.off, valley)
    about = dot(turn, turn_over(here, size, valley))
    back = jnp.where(dot(turn, turn) > 0.0, about, towards) < 0.0
    valley = jnp.where(back, -1.0, 1.0)[None] * valley
    # The ellipse is nearest to the point in the direction valley + t · ridge: two steps of Newton's
    # method for t.
    ridge = cross(here.along, valley)
    x, y = dot(here.off, ridge), dot(here.off, valley)
    gap, short = here.difference, dot(valley * valley, here.square)
    least = 0.2 * gap
    t = x * jnp.sqrt(short) / jnp.maximum(gap + y * jnp.sqrt(short), least)
    t = jnp.clip(t, -_STEEP, _STEEP)
    reach = jnp.sqrt(short + (short + gap) * t * t)
    miss = x - y * t - gap * t / reach
    cube = reach * reach * reach
    t = t + miss * cube / jnp.maximum(y * cube + gap * short, least * short)
    t = jnp.clip(t, -_STEEP, _STEEP)
    return (valley + t[None] * ridge) * here.square, here.firm & (here.share < 1.0)


def steadiness(
    seen: Seen, ends: Float[Array, "3 2 ..."], left: Float[Array, "..."]
) -> Float[Array, "..."]:
    """From one where the string lies steadily on its side, to zero where it would slip off; for
    as much as is left of the ellipsoid."""
    alive = seen.firm & (left > 0.0)
    share = _nearness(ends)[0] * seen.share / jnp.where(alive, left, 1.0)
    steady = (1.0 - smooth(_part(share, STEADY))) * smooth(_part(seen.across, ACROSS))
    return jnp.where(alive, steady, 0.0)


def _nearness(
    ends: Float[Array, "3 2 ..."],
) -> tuple[Float[Array, "..."], Float[Array, "3 2 ..."]]:
    """How much more shares are worth because of ends that are near; and its slopes to them."""
    square = dot(ends, ends)
    reach = jnp.sqrt(jnp.where(square > 0.0, square, 1.0))
    way = _part(reach, NEAR)
    far, slope = smooth(way), steep(way) / (NEAR[1] - NEAR[0])
    slopes = (-HARDER * slope * far[::-1] / reach)[None] * ends
    return 1.0 + HARDER * (1.0 - far[0] * far[1]), slopes


def steadiness_slopes(
    seen: Seen,
    ends: Float[Array, "3 2 ..."],
    left: Float[Array, "..."],
    size: Float[Array, "3 ..."],
    side: Float[Array, "3 ..."],
) -> tuple[Float[Array, "3 2 ..."], Float[Array, "..."]]:
    """Slopes of `steadiness` to both ends and to what is left, written out as in `_squeeze`."""
    alive = seen.firm & (left > 0.0)
    worth, nearer = _nearness(ends)
    per = worth / jnp.where(alive, left, 1.0)
    share, across = per * seen.share, seen.across
    inside, ahead = _part(share, STEADY), _part(across, ACROSS)
    per_left = -steep(inside) / (STEADY[1] - STEADY[0]) * smooth(ahead)
    per_share, per_left = per * per_left, share * per_left
    per_across = (1.0 - smooth(inside)) * steep(ahead) / (ACROSS[1] - ACROSS[0])
    gap = seen.difference * seen.difference
    ratio = seen.ratio
    per_across = jnp.where(seen.blind, 0.0, per_across)
    # To A² + B², to the gap (A² - B²)², and to the weighted sum of the point's coordinates.
    whole = jnp.where(seen.share > 0.0, seen.share, 1.0)
    per_weighted = per_share / (2.0 * whole * gap)
    per_gap = -per_share * seen.share / (2.0 * gap)
    per_gap = per_gap + per_across * (ratio - 0.5 * seen.total) / (2.0 * gap * seen.difference)
    per_total = 0.5 * per_across / seen.difference + 2.0 * seen.total * per_gap
    # To the point, to the side as it is seen, and to the line's direction.
    square, along = seen.square, seen.along
    to_off = jnp.where(seen.through[None], 0.0, 2.0 * per_weighted[None] * square * seen.off)
    to_side = (-2.0 * per_across / (seen.difference * dot(seen.towards, seen.towards)))[None]
    to_side = to_side * (square - ratio[None]) * seen.towards
    volume = square[0] * square[1] * square[2]
    to_along = -2.0 * (per_total[None] * square + 4.0 * (per_gap * volume)[None] / square) * along
    for slope, fixed in ((to_off, seen.begin), (to_side, side)):
        to_along = to_along - dot(slope, along)[None] * fixed - dot(fixed, along)[None] * slope
    # To the ends.
    turned = (to_along - dot(to_along, along)[None] * along) / seen.long[None]
    straight = to_off - dot(to_off, along)[None] * along
    slopes = jnp.stack([straight - turned, turned], axis=1) * size[:, None]
    slopes = slopes + (per_left / worth)[None, None] * nearer
    per_left = jnp.where(alive, -per_left / jnp.where(alive, left, 1.0), 0.0)
    return jnp.where(alive[None, None], slopes, 0.0), per_left


def _part(x: Array, ends: tuple[float, float]) -> Array:
    """Of the way from one number to the other."""
    return (x - ends[0]) / (ends[1] - ends[0])


def smooth(x: Array) -> Array:
    """From zero at 0 to one at 1, with level ends."""
    x = jnp.clip(x, 0.0, 1.0)
    return x * x * (3.0 - 2.0 * x)


def steep(x: Array) -> Array:
    """Slope of `smooth`."""
    x = jnp.clip(x, 0.0, 1.0)
    return 6.0 * x * (1.0 - x)
