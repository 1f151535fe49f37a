"""Whether a string that must pass through the hole of a torus bears on its tube."""

import math

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ._vectors import dot, root


def torus_inside(
    point: Float[Array, "3 *batch"],
    tube_radius: Float[Array, "*#batch"],
    ring_radius: Float[Array, "*#batch"],
) -> Bool[Array, "*batch"]:
    """Whether a point lies strictly inside the tube, in the frame of the torus."""
    out = jnp.sqrt(point[0] ** 2 + point[1] ** 2) - ring_radius
    return out * out + point[2] ** 2 < tube_radius**2


def torus_contact(
    a: Float[Array, "3 *batch"],
    b: Float[Array, "3 *batch"],
    tube_radius: Float[Array, "*batch"],
    ring_radius: Float[Array, "*batch"],
) -> Bool[Array, "*batch"]:
    """Whether a string that must pass through the hole bears on the tube.

    It does if its ends are on either side of the plane of the ring and the straight line
    either passes that plane outside the ring or enters the tube; not if it only touches.
    """
    a, b, tube_radius, ring_radius = lax.stop_gradient((a, b, tube_radius, ring_radius))
    either = a[2] * b[2] < 0
    x, d = a / ring_radius[None], (b - a) / ring_radius[None]
    reach = root(dot(d, d))
    way = d / jnp.where(reach > 0, reach, 1)[None]
    crossing = x - (x[2] / jnp.where(either, d[2], 1))[None] * d
    outside = crossing[0] ** 2 + crossing[1] ** 2 >= 1
    thick, one = tube_radius / ring_radius, jnp.ones_like(ring_radius)
    # Places on the line, counted from the one nearest to the centre.
    begin = dot(x, way)
    foot = x - begin[None] * way
    enters = jnp.zeros_like(either)
    for place in _nearest(foot, way, thick):
        point = foot + jnp.clip(place, begin, begin + reach)[None] * way
        enters |= torus_inside(point, thick, one)
    return either & (outside | enters)


def _nearest(foot: Array, way: Array, thick: Array) -> tuple[Array, Array]:
    """Places on a line deepest in the tube, of which there are one or two (then the same one
    twice); the ring has radius 1.

    The polynomial of degree 4 which is negative inside the tube has no third power in places
    counted from the foot, so that its slope is the depressed cubic s³ + P s + Q."""
    p = dot(foot, foot) - 1 - thick * thick + 2 * way[2] ** 2
    q = 2 * foot[2] * way[2]
    third = p / 3
    inside = 0.25 * q * q + third * third * third
    several = inside < 0
    # One root (Cardano): the larger of two cube roots, which rounding does not touch.
    cube = 0.5 * jnp.abs(q) + root(jnp.maximum(inside, 0))
    some = (cube > 0) & ~several
    larger = jnp.exp(jnp.log(jnp.where(some, cube, 1)) / 3)
    one = jnp.where(some, -jnp.where(q < 0, -1, 1) * (larger - third / larger), 0)
    # Three: the two outer ones, between which the polynomial has its maximum.
    size = jnp.sqrt(jnp.where(several, -third, 1))
    angle = jnp.arctan2(jnp.sqrt(jnp.where(several, -inside, 0)), 0.5 * q) / 3
    least, most = jnp.cos(angle), jnp.cos(math.pi / 3 - angle)
    return (
        jnp.where(several, -2 * size * least, one),
        jnp.where(several, 2 * size * most, one),
    )
