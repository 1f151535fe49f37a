"""Shortest path of a taut string through the hole of one torus.

The torus lies around the z axis: a tube of radius r whose centre line is a ring of radius R.
ψ is the angle round the tube, 0 where it faces the axis and ±π outside; θ is the angle round
the ring. A taut string keeps its angular momentum c about the axis, on the surface (Clairaut)
and off it, so the geodesic is two integrals over ψ. In the meridian plane of the point where
it touches down, that point is the tangent point of a circle. Three equations remain for the
two ring angles and c, solved by Newton's method and differentiated implicitly.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ._compact import on_those
from ._geodesic import Geodesic, Tried
from ._vectors import root

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_PASSES = 4
_ROUNDS = 6


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

    # Newton for the point of the line nearest to the ring; the slope is kept positive.
    def nearer(loop):
        count, t, _ = loop
        x, rho = place(t)
        out = x[0] * d[0] + x[1] * d[1]
        slope = (1 - ring_radius / rho) * out + x[2] * d[2]
        curve = whole - ring_radius / rho * (flat - (out / rho) ** 2)
        step = -slope / jnp.maximum(curve, 0.1 * whole)
        new = jnp.clip(t + jnp.clip(step, -0.2, 0.2), 0, 1)
        return count + 1, new, jnp.abs(new - t)

    def go_on(loop):
        # The distance is least there: what is left of t changes it by its square.
        return (loop[0] < 12) & jnp.any(loop[2] > 1e-7)

    t = jnp.where(either, crossing, 0.5)
    _, rho = place(t)
    outside = rho >= ring_radius
    _, t, _ = lax.while_loop(go_on, nearer, (jnp.zeros((), int), t, jnp.ones_like(t)))
    x, rho = place(t)
    return either & (outside | ((rho - ring_radius) ** 2 + x[2] ** 2 < tube_radius**2))


class _Touch(NamedTuple):
    psi: Array
    free: Array  # length of the straight part, seen in the meridian plane
    aside: Array  # the end's distance from that plane
    rho: Array  # distance of the point from the axis


def _touch(x: Array, theta: Array, r: Array, ring: Array, sign: float) -> _Touch:
    """Tangent point in the meridian plane at θ of the string to the end x (sign +1 at a)."""
    c, d = jnp.cos(theta), jnp.sin(theta)
    inward = ring - (c * x[0] + d * x[1])
    free = root(inward * inward + x[2] * x[2] - r * r)
    psi = jnp.arctan2(x[2], inward) + sign * jnp.arctan2(free, r)
    return _Touch(psi, free, c * x[1] - d * x[0], ring - r * jnp.cos(psi))


def _integrals(first: Array, last: Array, c: Array, r: Array, ring: Array) -> tuple[Array, Array]:
    """Ring angle and length of the geodesic of angular momentum c between two tube angles."""
    middle, half = 0.5 * (first + last), 0.5 * (last - first)
    column = (-1,) + (1,) * half.ndim
    nodes = jnp.asarray(_NODES, half.dtype).reshape(column)
    weights = jnp.asarray(_WEIGHTS, half.dtype).reshape(column)
    rho = ring[None] - r[None] * jnp.cos(middle[None] + nodes * half[None])
    pace = weights / jnp.sqrt(rho * rho - (c * c)[None])
    return c * r * half * jnp.sum(pace / rho, axis=0), r * half * jnp.sum(pace * rho, axis=0)


def _residuals(unknown, a: Array, b: Array, r: Array, ring: Array):
    """Sideways misses of a and b (m), and the gap in the ring angle."""
    theta1, theta2, c = unknown
    p, q = _touch(a, theta1, r, ring, 1.0), _touch(b, theta2, r, ring, -1.0)
    angle, _ = _integrals(p.psi, q.psi, c, r, ring)
    return (
        -p.aside * jnp.sqrt(1 - (c / p.rho) ** 2) - p.free * c / p.rho,
        q.aside * jnp.sqrt(1 - (c / q.rho) ** 2) - q.free * c / q.rho,
        theta2 - theta1 - angle,
    )


def _correction(residuals, unknown):
    """-J⁻¹ F by Cramer's rule, and F."""
    value, push = jax.linearize(residuals, unknown)
    zero, one = jnp.zeros_like(unknown[0]), jnp.ones_like(unknown[0])
    x, y, z = push((one, zero, zero)), push((zero, one, zero)), push((zero, zero, one))

    def det(x, y, z):
        return (
            x[0] * (y[1] * z[2] - y[2] * z[1])
            + y[0] * (z[1] * x[2] - z[2] * x[1])
            + z[0] * (x[1] * y[2] - x[2] * y[1])
        )

    whole = det(x, y, z)
    k = -1 / jnp.where(jnp.abs(whole) > 0, whole, 1)
    return (det(value, y, z) * k, det(x, value, z) * k, det(x, y, value) * k), value


def _start(a: Array, b: Array, r: Array, ring: Array):
    """From the meridian plane where the straight line crosses the plane of the ring."""
    crossing = a[2] / (a[2] - b[2])
    x, y = a[0] + crossing * (b[0] - a[0]), a[1] + crossing * (b[1] - a[1])
    centred = x * x + y * y < 1e-24 * ring * ring
    theta = jnp.arctan2(jnp.where(centred, 0, y), jnp.where(centred, 1, x))
    p, q = _touch(a, theta, r, ring, 1.0), _touch(b, theta, r, ring, -1.0)
    aside = q.aside - p.aside
    length = p.free + q.free + r * jnp.abs(q.psi - p.psi)
    c = (ring - r) * aside / jnp.sqrt(length * length + aside * aside + 1e-30)
    return theta, theta, 0.9 * c


@jax.custom_jvp
def _solve(a: Array, b: Array, size: Array, on: Array):
    """(θ at touch-down, θ at lift-off, c, converged); size holds r and R."""
    batch = on.shape
    count = math.prod(batch)
    given = jnp.concatenate([x.reshape(-1, count) for x in (a, b, size)])
    on = on.reshape(count)
    rows = jnp.stack([*_start(a, b, *size), 1 - on.reshape(batch).astype(a.dtype)])
    rows = rows.reshape(4, count)

    def again(loop):
        turns, rows = loop
        columns = jnp.concatenate([given, rows])
        return turns + 1, on_those(_solve_block, rows[3] == 0, rows, columns)

    def go_on(loop):
        return (loop[0] < _ROUNDS) & jnp.any(loop[1][3] == 0)

    _, rows = lax.while_loop(go_on, again, (jnp.zeros((), int), rows))
    return tuple(rows.reshape(4, *batch))


def _newton(unknown: Array, a: Array, b: Array, r: Array, ring: Array) -> Array:
    """Correction of (θ₁, θ₂, c)."""
    theta1, theta2, c = unknown
    cc = c * c

    def end(x: Array, theta: Array, sign: float):
        """Residual, its slopes to θ and c, and the slopes of the ring angle to θ."""
        p = _touch(x, theta, r, ring, sign)
        cosine, sine = jnp.cos(theta), jnp.sin(theta)
        out = cosine * x[0] + sine * x[1]
        inward = ring - out
        # By θ: the end's distance from the axis in the plane changes by `aside`.
        square = inward * inward + x[2] * x[2]
        free = jnp.maximum(p.free, 1e-9 * r)
        psi = (x[2] - sign * r * inward / free) / square * p.aside
        length = -inward / free * p.aside
        rho = r * jnp.sin(p.psi) * psi
        k = c / p.rho
        level = jnp.sqrt(1 - k * k)
        miss = -sign * p.aside * level - p.free * k
        by_k = sign * p.aside * k / level - p.free
        by_theta = sign * out * level - length * k - by_k * k / p.rho * rho
        return p.psi, miss, by_theta, by_k / p.rho, c * r / (p.rho * p.rho * level) * psi

    psi1, f1, f11, f13, g1 = end(a, theta1, 1.0)
    psi2, f2, f22, f23, g2 = end(b, theta2, -1.0)
    middle, half = 0.5 * (psi1 + psi2), 0.5 * (psi2 - psi1)
    nodes = jnp.asarray(_NODES, c.dtype)[:, None]
    weights = jnp.asarray(_WEIGHTS, c.dtype)[:, None]
    rho = ring[None] - r[None] * jnp.cos(middle[None] + nodes * half[None])
    per = 1 / jnp.sqrt(rho * rho - cc[None])
    pace = weights * per
    f3 = theta2 - theta1 - c * r * half * jnp.sum(pace / rho, axis=0)
    f33 = -r * half * jnp.sum(pace * rho * per * per, axis=0)
    f31, f32 = g1 - 1, 1 - g2
    # Cramer's rule: f11 is zero for an end on the axis, which every θ₁ sees alike.
    whole = f11 * (f22 * f33 - f23 * f32) - f13 * f22 * f31
    per = 1 / jnp.where(whole == 0, 1, whole)
    d1 = f13 * (f22 * f3 - f32 * f2) - f1 * (f22 * f33 - f23 * f32)
    d2 = f23 * (f11 * f3 - f31 * f1) - f2 * (f11 * f33 - f13 * f31)
    dc = f31 * f1 * f22 + f32 * f2 * f11 - f3 * f11 * f22
    return jnp.stack([d1 * per, d2 * per, dc * per])


def _solve_block(columns: Array) -> Array:
    return lax.fori_loop(0, _PASSES, lambda _, rows: _correct(columns[:8], rows), columns[8:])


def _correct(given: Array, rows: Array) -> Array:
    """One pass of Newton's method; what has converged stays."""
    a, b, (r, ring) = given[:3], given[3:6], given[6:]
    limit = 0.999 * (ring - r)
    tolerance = max(1e-7, 1e2 * float(jnp.finfo(a.dtype).eps))
    scale = jnp.stack([jnp.ones_like(ring), jnp.ones_like(ring), ring])
    old, done = rows[:3], rows[3]
    step = _newton(old, a, b, r, ring)
    new = old + jnp.clip(step, -0.3 * scale, 0.3 * scale)
    new = jnp.concatenate([new[:2], jnp.clip(new[2], -limit, limit)[None]])
    error = jnp.max(jnp.abs(step) / scale, axis=0)
    # Convergence is quadratic: what is left is below rounding.
    found = (error < tolerance).astype(done.dtype)
    return jnp.where((done > 0)[None], rows, jnp.concatenate([new, found[None]]))


@_solve.defjvp
def _solve_jvp(primals, tangents):
    *unknown, converged = _solve(*primals)
    unknown = tuple(unknown)

    def residuals(a, b, size):
        return _residuals(unknown, a, b, size[0], size[1])

    force = jax.jvp(residuals, primals[:3], tangents[:3])[1]
    a, b, (r, ring), _ = primals

    def linear(x):
        value = _residuals(x, a, b, r, ring)
        return tuple(v - lax.stop_gradient(v) + f for v, f in zip(value, force, strict=True))

    rates, _ = _correction(linear, unknown)
    return (*unknown, converged), (*rates, jnp.zeros_like(converged))


def torus_block(
    a: Array, b: Array, tube: Array, ring: Array, on: Array, tried: Tried
) -> tuple[Geodesic, Tried]:
    """`torus_path` for a block of strings that are nearly all in contact, all at once and
    without derivatives."""
    shape = on.shape
    flat = [x.reshape(*x.shape[: x.ndim - len(shape)], -1) for x in (a, b, tube, ring, on)]
    known = tried.rows.reshape(13, -1)
    fresh = flat[-1] & (known[3] == 0.0)
    solved = []

    def solve(a: Array, b: Array, size: Array, on: Array) -> tuple[Array, ...]:
        given = jnp.concatenate([a, b, size])
        start = jnp.where(fresh[None], jnp.stack(_start(a, b, *size)), known[:3])
        rows = jnp.concatenate([start, 1 - on[None].astype(a.dtype)])

        def again(loop):
            count, rows = loop
            return count + 1, _correct(given, rows)

        def go_on(loop):
            return (loop[0] < _PASSES * _ROUNDS) & jnp.any(loop[1][3] == 0)

        # Those that are near are soon found.
        begun = jnp.where(jnp.any(fresh), 0, _PASSES * _ROUNDS - 3)
        solved.append(lax.while_loop(go_on, again, (begun, rows))[1])
        return tuple(solved[0])

    found = _path(*flat, solve=solve)
    rows = jnp.concatenate([solved[0][:3], jnp.ones_like(known[:1]), known[4:]])
    rows = jnp.where(flat[-1][None], rows, known).reshape(13, *shape)
    found = Geodesic(*(x.reshape(*x.shape[:-1], *shape) for x in found))
    return found, Tried(rows)


def torus_path(
    a: Float[Array, "3 *batch"],
    b: Float[Array, "3 *batch"],
    tube_radius: Float[Array, "*batch"],
    ring_radius: Float[Array, "*batch"],
    on: Bool[Array, "*batch"],
) -> Geodesic:
    """Taut string from a through the hole of a torus to b, in the frame of the torus (m).

    The string bears on the side of the tube that faces the axis; a and b are outside the tube
    and on either side of the plane of the ring. Where `on` is false (see `torus_contact`)
    the inputs may be anything, the results are zero and so are their derivatives.
    """
    return _path(a, b, tube_radius, ring_radius, on, solve=_solve)


def _path(a: Array, b: Array, tube_radius: Array, ring_radius: Array, on: Array, solve) -> Geodesic:
    one, zero = jnp.ones_like(a[0]), jnp.zeros_like(a[0])
    r, ring = jnp.where(on, tube_radius, 0.5), jnp.where(on, ring_radius, 1.5)
    # The string climbs: turn the torus over where it does not.
    flip = jnp.where(a[2] > b[2], -1, 1).astype(a.dtype)
    flips = jnp.stack([one, one, flip])
    start = jnp.where(on[None], a * flips, jnp.stack([2 * one, zero, -one]))
    end = jnp.where(on[None], b * flips, jnp.stack([2 * one, zero, one]))
    theta1, theta2, c, converged = solve(start, end, jnp.stack([r, ring]), on)
    p, q = _touch(start, theta1, r, ring, 1.0), _touch(end, theta2, r, ring, -1.0)
    _, arc = _integrals(p.psi, q.psi, c, r, ring)

    def point(x: _Touch, theta: Array) -> Array:
        place = [x.rho * jnp.cos(theta), x.rho * jnp.sin(theta), r * jnp.sin(x.psi)]
        return flips * jnp.stack(place)

    def straight(x: _Touch) -> Array:
        return root(x.free * x.free + x.aside * x.aside)

    length = straight(p) + arc + straight(q)
    cut = lambda x: jnp.where(jnp.broadcast_to(on, x.shape), x, 0)  # noqa: E731
    return Geodesic(
        cut(point(p, theta1)), cut(point(q, theta2)), cut(arc), cut(length), converged > 0
    )
