"""A string round a circle or a sphere, in closed form.

With the centre as origin and the end points a, b outside, the string is straight unless
a·b + tₐ t_b < r², where tₐ, t_b are the lengths of the tangents; at equality it just
touches, and no angle is needed to tell. All of it happens in the plane of a, b and the
centre; for a cylinder that is the plane across its axis.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._vectors import cross, dot, length, safe_sqrt

_ON_SURFACE = 1e-14
"""A point whose tangent is shorter than 1e-7 radii counts as lying on the surface."""


OPENING = 0.293
"""A side does not wind a string once all round: it lets go as the ends come to lie in one direction
from the surface, within 45 degrees (1 - cos 45°)."""


class Round(NamedTuple):
    """A string round a circle, elementwise. Without contact only `on` has a meaning."""

    on: Bool[Array, "..."]
    p: Float[Array, "3 ..."]
    q: Float[Array, "3 ..."]
    arc: Float[Array, "..."]
    """Length on the circle."""
    first: Float[Array, "..."]
    """Length of the tangent from a."""
    last: Float[Array, "..."]

    @property
    def whole(self) -> Float[Array, "..."]:
        """Length of the string from a to b, in contact."""
        return self.first + self.arc + self.last


def wound(
    a: Float[Array, "3 ..."],
    b: Float[Array, "3 ..."],
    radius: Float[Array, "..."],
    turn: Float[Array, "3 ..."],
) -> Round:
    """A string from a to b round a circle about the origin.

    It takes the shorter way, unless `turn` is not zero: then it must turn about that axis,
    right-handed, be it the longer way.
    """
    square_a, square_b, square = dot(a, a), dot(b, b), radius * radius
    usable = (square_a >= square * _JUST_INSIDE) & (square_b >= square * _JUST_INSIDE)
    usable = usable & (radius > 0.0)
    # Stand-ins keep the arithmetic finite, in value and in gradient, where there is none.
    a = jnp.where(usable[None], a, _stand_in(a, 0))
    b = jnp.where(usable[None], b, _stand_in(b, 1))
    radius = jnp.where(usable, radius, 1.0)
    square = radius * radius
    square_a, square_b = dot(a, a), dot(b, b)
    ta = safe_sqrt(square_a - square, _ON_SURFACE * square)
    tb = safe_sqrt(square_b - square, _ON_SURFACE * square)
    normal = plane_normal(a, b)
    longer = dot(turn, normal) < 0.0
    on = usable & (longer | (dot(a, b) + ta * tb < square))
    normal = jnp.where(longer, -1.0, 1.0)[None] * normal
    p = (square / square_a)[None] * a + (radius * ta / square_a)[None] * cross(normal, a)
    q = (square / square_b)[None] * b - (radius * tb / square_b)[None] * cross(normal, b)
    angle = _angle(dot(normal, cross(p, q)), dot(p, q))
    return Round(on=on, p=p, q=q, arc=radius * angle, first=ta, last=tb)


def bears(
    a: Float[Array, "3 ..."],
    b: Float[Array, "3 ..."],
    radius: Float[Array, "..."],
    turn: Float[Array, "3 ..."],
) -> Bool[Array, "..."]:
    """Whether a string from a to b touches the circle: `wound(...).on` alone, for less."""
    square_a, square_b, square = dot(a, a), dot(b, b), radius * radius
    usable = (square_a >= square * _JUST_INSIDE) & (square_b >= square * _JUST_INSIDE)
    tangents = safe_sqrt(square_a - square, 0.0) * safe_sqrt(square_b - square, 0.0)
    longer = dot(turn, cross(a, b)) < 0.0
    return usable & (radius > 0.0) & (longer | (dot(a, b) + tangents < square))


def detour(
    a: Float[Array, "3 ..."],
    b: Float[Array, "3 ..."],
    radius: Float[Array, "..."],
    turn: Float[Array, "3 ..."],
) -> tuple[Bool[Array, "..."], Float[Array, "..."]]:
    """Whether a string from a to b touches the circle; and how much longer than the straight line
    it then is. Values only.

    It takes the shorter way, unless `turn` is not zero: then it turns about that axis, be it the
    longer way; but a circle beside which both ends lie, within 60 degrees, is in nobody's way."""
    square, product = radius * radius, dot(a, b)
    square_a, square_b = dot(a, a), dot(b, b)
    ta, tb = safe_sqrt(square_a - square, 0.0), safe_sqrt(square_b - square, 0.0)
    normal = cross(a, b)
    longer = (dot(turn, normal) < 0.0) & (2.0 * product < safe_sqrt(square_a * square_b, 0.0))
    turned = jnp.where(longer, -1.0, 1.0) * length(normal)
    # The angle on the circle is that between a and b less those of the two tangents.
    cosine, sine = square - ta * tb, radius * (ta + tb)
    angle = jnp.arctan2(turned * cosine - product * sine, product * cosine + turned * sine)
    angle = jnp.where(longer & (angle < 0.0), angle + 2.0 * jnp.pi, angle)
    on = bears(a, b, radius, jnp.where(longer[None], turn, 0.0))
    return on, ta + tb + radius * angle - length(b - a)


_JUST_INSIDE = 1.0 - 1e-9


def _stand_in(like: Array, axis: int) -> Array:
    return jnp.stack([jnp.full_like(like[0], 2.0 if k == axis else 0.0) for k in range(3)])


def _angle(sine: Array, cosine: Array) -> Array:
    """Angle in [0, 2π) from what is proportional to its sine and cosine."""
    nothing = (sine == 0.0) & (cosine == 0.0)
    angle = jnp.arctan2(sine, jnp.where(nothing, 1.0, cosine))
    return jnp.where(angle < -1e-9, angle + 2.0 * jnp.pi, angle)


def plane_normal(a: Array, b: Array) -> Array:
    """Unit normal of the plane through a, b and the origin, turning a towards b.

    Where all three are in line any plane would do; one across z is taken if there is one, as
    for the circle that a cylinder is.
    """
    normal = cross(a, b)
    lost = dot(normal, normal) <= 1e-24 * dot(a, a) * dot(b, b)
    upright = a[0] * a[0] + a[1] * a[1] <= 1e-12 * dot(a, a)
    flat = jnp.stack([jnp.zeros_like(a[0]), jnp.zeros_like(a[0]), jnp.ones_like(a[0])])
    spare = flat - (dot(flat, a) / dot(a, a))[None] * a
    spare = jnp.where(upright[None], _stand_in(a, 0), spare)
    normal = jnp.where(lost[None], spare, normal)
    return normal / jnp.sqrt(dot(normal, normal))[None]
