"""A one-sided surface that holds the string from inside another one.

Where the longest string runs into another surface from outside, that one joins (`_crowd`). But
what holds a string on its side may lie inside another surface, as a thin cylinder does in a
bone's head, and the string over it alone then touches down or lifts off in there: nothing
comes from outside. The string over both is there nevertheless. It begins where the string over
the covering surface alone meets what is left of the holding one, and goes over into a string
that the holding one bears as its tangent points come out. So in between the two go together,
whichever makes the longer string alone.

The holding one must not snatch the string, though. What is left of it grows from nothing on
the straight line; where the covering surface has moved the string to the far side of that
line, it would be caught by nothing at all, and the length would jump.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._given import Given
from ._vectors import cross, dot


class Alone(NamedTuple):
    """Contacts with nothing but the slot's own surface in the way."""

    on: Bool[Array, "*batch"]
    second: Bool[Array, "*batch"]
    p: Float[Array, "3 *batch"]
    q: Float[Array, "3 *batch"]


def hold(
    held: Given, own: Alone, cover: Given, over: Alone
) -> tuple[Bool[Array, "*batch"], Bool[Array, "*batch"]]:
    """Of pairs of slots on one stretch: whether the first holds the string from inside the
    second, and whether it comes behind that one on the string."""
    surfaces, left = held.surfaces, held.other
    sided = dot(surfaces.side, surfaces.side) > 0.0
    on = own.on & own.second & sided & over.on & ~over.second & ~cover.surfaces.torus
    on = on & (_covers(cover, own.p) | _covers(cover, own.q))
    behind = dot(held.ends - held.begins, own.p + own.q - over.p - over.q) > 0.0
    # The cover's tangent point on this side: beyond the straight line, and outside.
    near, begin, end = (
        surfaces.round(surfaces.local(x))
        for x in (jnp.where(behind[None], over.q, over.p), held.begins, held.ends)
    )
    beyond = dot(left.turn, cross(near - begin, end - begin)) > 0.0
    return on & beyond & ~_within(near - left.shift, left.scale), behind


def _covers(given: Given, point: Float[Array, "3 *batch"]) -> Bool[Array, "*batch"]:
    return _within(given.surfaces.round(given.surfaces.local(point)), given.share)


def _within(point: Array, scale: Array) -> Array:
    return dot(point, point) < scale * scale
