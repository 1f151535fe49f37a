"""How much of a surface a stretch of path has to do with.

A surface that is simply there or not there makes a path jump: when a path point dips into
it, when the path slides past a cylinder's end face, and when the straight line has moved
so far to the wrong side of a one-sided cylinder that the string should be let go. Here the
surface shrinks away instead, so that lengths stay continuous; and a path over what remains
is still an exact one, over a smaller surface of the same kind.

Everything is in coordinates in which the whole surface has radius one.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._circle import OPENING, plane_normal
from ._slipping import smooth
from ._vectors import cross, dot

CYLINDER_HOLD = (8.0, 14.0)
ROUND_HOLD = (0.25, 0.6)
"""A one-sided surface holds the string on its side though the straight line passes on the
other: fully up to the first distance from the centre, and not at all from the second, in radii.
A string lies stably round a cylinder, but soon slips off anything round (`_slipping`)."""
DOUBT = (0.15, 0.3)
"""It lets go as well where its side hardly prefers one way round to the other: a cylinder, and a
ball."""


class Left(NamedTuple):
    """What is left of a surface."""

    shift: Float[Array, "3 ..."]
    """Where its centre has moved."""
    scale: Float[Array, "..."]
    """Its size; one for all of it."""
    turn: Float[Array, "3 ..."]
    """Axis about which the string must turn, right-handed; zero for the shorter way."""
    kept: Bool[Array, "..."]
    """Whether a side keeps it there, be it the longer way."""


class Hook(NamedTuple):
    """A one-sided surface that holds a string against the shorter way."""

    turn: Float[Array, "3 ..."]
    """Axis about which the string then turns: the way that the side prefers."""
    against: Bool[Array, "..."]
    """Whether that is the longer one of the two ways."""
    foot: Float[Array, "3 ..."]
    """Point of the straight stretch nearest to the centre."""
    grip: Float[Array, "..."]
    """How firmly the surface holds: zero has let go. Only what is longer has to be held, but
    round an ellipsoid the way that seems longer may be the shorter one, so it is said of both."""


def hook(
    a: Float[Array, "3 ..."],
    b: Float[Array, "3 ..."],
    side: Float[Array, "3 ..."],
    cylinder: Bool[Array, "..."],
    ellipsoid: Bool[Array, "..."],
    left: Float[Array, "..."],
) -> Hook:
    """For a line from a to b past the unit sphere, or circle (with z zero).

    `side` is the unit direction of the half that the string bears on; zero for either. Of the
    two ways round, the side prefers the one whose tangent points lie more towards it. Which way
    that is round an ellipsoid, and how far it may be doubted, `_slipping` says instead; its
    distances count in what is `left` of it because of ends inside.
    """
    normal = plane_normal(*apart(a, b))
    preference = _lean(a, side, normal) - _lean(b, side, normal)
    against = preference < 0.0
    foot = foot_of(a, b)
    beside = dot(foot, foot)
    distance = jnp.sqrt(jnp.where(beside > 0.0, beside, 1.0))
    full = jnp.where(cylinder, CYLINDER_HOLD[0], ROUND_HOLD[0])
    none = jnp.where(cylinder, CYLINDER_HOLD[1], ROUND_HOLD[1])
    far = (against | ellipsoid) & (beside > 0.0)
    size = jnp.where(ellipsoid & (left > 0.0), left, 1.0)
    grip = jnp.where(far, 1.0 - smooth((distance / size - full) / (none - full)), 1.0)
    doubt = jnp.where(cylinder, *DOUBT)
    grip = grip * jnp.where(ellipsoid, 1.0, smooth(jnp.abs(preference) / doubt))
    grip = grip * smooth(_opening(a, b) / OPENING)
    return Hook(jnp.where(against, -1.0, 1.0)[None] * normal, against, foot, grip)


def foot_of(a: Float[Array, "3 ..."], b: Float[Array, "3 ..."]) -> Float[Array, "3 ..."]:
    """Point of the stretch from a to b that is nearest to the origin."""
    line = b - a
    square = dot(line, line)
    place = jnp.clip(-dot(a, line) / jnp.where(square > 0.0, square, 1.0), 0.0, 1.0)
    return a + place[None] * line


def next_to_nothing(size: Array) -> float:
    """A size so small that a surface of it makes no string longer than rounding does, though
    slopes per size would suffer."""
    return 30.0 * float(jnp.finfo(size.dtype).eps) ** 0.5


def _lean(point: Array, side: Array, normal: Array) -> Array:
    """How much farther towards the side the tangent point on the shorter way lies than the
    middle of both."""
    square = dot(point, point)
    outside = square > 1.0
    square = jnp.where(outside, square, 2.0)
    across = dot(cross(normal, point), side)
    return jnp.where(outside, jnp.sqrt(square - 1.0) * across / square, 0.0)


def _opening(a: Array, b: Array) -> Array:
    """1 - cos of the angle between the two ends, seen from the centre."""
    scale = dot(a, a) * dot(b, b)
    return 1.0 - dot(a, b) / jnp.sqrt(jnp.where(scale > 0.0, scale, 1.0))


def apart(a: Array, b: Array) -> tuple[Array, Array]:
    """The same points, or others where one is at the centre and there is no plane."""
    lost = (dot(a, a) == 0.0) | (dot(b, b) == 0.0)
    x = jnp.stack([jnp.ones_like(a[0]), jnp.zeros_like(a[0]), jnp.zeros_like(a[0])])
    return jnp.where(lost[None], x, a), jnp.where(lost[None], jnp.roll(x, 1, axis=0), b)


CLEARANCE = 1e-8
"""A surface that shrinks stays this much smaller than a point it would pass through, so that
the string still has a direction there."""


def outside_share(point: Float[Array, "3 ..."]) -> Float[Array, "..."]:
    """One for a point outside; else the size at which the surface passes through it."""
    square = dot(point, point) * (1.0 - CLEARANCE) ** 2
    inside, positive = square < 1.0, square > 0.0
    part = jnp.sqrt(jnp.where(positive & inside, square, 1.0))
    return jnp.where(positive, part, 0.0)


def end_share(axial: Array, half: Array) -> Array:
    """What is left of a cylinder for a string that passes it at an axial coordinate: all of it
    between the end faces at ±half, nothing a radius beyond."""
    return 1.0 - smooth(jnp.abs(axial) - half)
