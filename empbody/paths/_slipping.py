"""Whether a string that is held on one side of an ellipsoid would slip off it.

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

from ._vectors import dot

STEADY = (0.35, 0.6)
"""Shares of the evolute's size up to which a string is held fully, and at all."""
ACROSS = (0.4, 0.8)
"""Squared cosines of the angle between the shorter axis and the side below which a string is not
held, and above which it is fully."""


class _Seen(NamedTuple):
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


def _seen(a: Array, b: Array, size: Array, side: Array) -> _Seen:
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
    return _Seen(
        begin, along, long, off, square, total, difference, firm, through, weighted, towards, blind
    )


def steadiness(
    a: Float[Array, "3 ..."],
    b: Float[Array, "3 ..."],
    size: Float[Array, "3 ..."],
    side: Float[Array, "3 ..."],
) -> Float[Array, "..."]:
    """From one where a string from a to b, both divided by the semi-axes, lies steadily on its
    side (a direction of unit length, or zero), to zero where it would slip off."""
    seen = _seen(a, b, size, side)
    steady = (1.0 - smooth(_part(seen.share, STEADY))) * smooth(_part(seen.across, ACROSS))
    return jnp.where(seen.firm, steady, 0.0)


def steadiness_slopes(
    a: Float[Array, "3 ..."],
    b: Float[Array, "3 ..."],
    size: Float[Array, "3 ..."],
    side: Float[Array, "3 ..."],
) -> Float[Array, "3 2 ..."]:
    """Slopes of `steadiness` to both ends, written out as in `_squeeze`."""
    seen = _seen(a, b, size, side)
    share, across = seen.share, seen.across
    inside, ahead = _part(share, STEADY), _part(across, ACROSS)
    per_share = -steep(inside) / (STEADY[1] - STEADY[0]) * smooth(ahead)
    per_across = (1.0 - smooth(inside)) * steep(ahead) / (ACROSS[1] - ACROSS[0])
    gap = seen.difference * seen.difference
    ratio = seen.ratio
    per_across = jnp.where(seen.blind, 0.0, per_across)
    # To A² + B², to the gap (A² - B²)², and to the weighted sum of the point's coordinates.
    some = jnp.where(share > 0.0, share, 1.0)
    per_weighted = per_share / (2.0 * some * gap)
    per_gap = -per_share * share / (2.0 * gap)
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
    return jnp.where(seen.firm[None, None], slopes, 0.0)


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
