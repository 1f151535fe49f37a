"""Whether a string that must pass through the hole of a torus bears on its tube."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

_SAMPLES = 12
"""Of a line on either side of the ring's plane, to find where it is near the ring."""


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
    return either & _blocked(a, b, tube_radius, ring_radius, either)


def _blocked(a: Array, b: Array, tube_radius: Array, ring_radius: Array, either: Array) -> Array:
    """Whether the straight line does not pass clear of the tube through the hole."""
    crossing = a[2] / jnp.where(either, a[2] - b[2], 1)
    d = b - a
    flat = d[0] ** 2 + d[1] ** 2
    whole = flat + d[2] ** 2
    whole = jnp.where(whole > 0, whole, 1)

    def place(t):
        x = a + t[None] * d
        rho2 = x[0] ** 2 + x[1] ** 2
        rho = jnp.sqrt(rho2)
        return x, jnp.where(rho > 0, rho, 1e-30)

    def distance2(t):
        x, rho = place(t)
        return (rho - ring_radius) ** 2 + x[2] ** 2

    def nearest2(first, last):
        """From the nearest of some points by Newton's method, which stays close to it."""
        width = (last - first) / _SAMPLES

        def nearer(k, best):
            t = first + k * width
            there = distance2(t)
            return jnp.where(there < best[1], t, best[0]), jnp.minimum(there, best[1])

        start, _ = lax.fori_loop(1, _SAMPLES + 1, nearer, (first, distance2(first)))

        def refined(_, t):
            x, rho = place(t)
            out = x[0] * d[0] + x[1] * d[1]
            slope = (1 - ring_radius / rho) * out + x[2] * d[2]
            curve = whole - ring_radius / rho * (flat - (out / rho) ** 2)
            new = t - slope / jnp.maximum(curve, 0.05 * whole)
            low, high = jnp.maximum(start - width, first), jnp.minimum(start + width, last)
            return jnp.clip(new, low, high)

        # The distance is least there: what is left of t changes it by its square.
        return distance2(lax.fori_loop(0, 5, refined, start))

    # It may be near the ring on either side of its plane.
    crossing = jnp.where(either, crossing, 0.5)
    zero, one = jnp.zeros_like(crossing), jnp.ones_like(crossing)
    least = jnp.minimum(nearest2(zero, crossing), nearest2(crossing, one))
    return (place(crossing)[1] >= ring_radius) | (least < tube_radius**2)
