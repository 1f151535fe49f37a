"""Equations of a taut string through the hole of one torus.

The torus lies around the z axis: a tube of radius r whose centre line is a ring of radius R.
ψ is the angle round the tube, 0 where it faces the axis and ±π outside; θ is the angle round
the ring. A taut string keeps its angular momentum c about the axis, on the surface (Clairaut)
and off it, so the geodesic is two integrals over ψ. In the meridian plane of the point where
it touches down, that point is the tangent point of a circle. Three equations remain for the
two ring angles and c, solved by Newton's method and differentiated implicitly.

The inner side of the tube is a saddle. A string that runs far enough along the ring lifts off
it and bridges the hole, to bear on the tube again further round. The bridge is tangent to both
places and alike from either end, so that it follows from one number: the sine k of its angle
with the meridian plane where it leaves. A string of either kind is taut if it is pressed to the
tube where it bears on it and its straight pieces are clear of the tube; of all strings that
were found in trials from many starts, one only was.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._vectors import dot, root

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PLAIN = 30.0
"""Width of the substitution (rad) that leaves quadrature as it is."""


class Touch(NamedTuple):
    psi: Array
    free: Array  # length of the straight part, seen in the meridian plane
    aside: Array  # the end's distance from that plane
    rho: Array  # distance of the point from the axis
    height: Array  # of the point above the plane of the ring
    inward: Array  # of the end, from the ring towards the axis


def touch(x: Array, theta: Array, r: Array, ring: Array, sign: float) -> Touch:
    """Tangent point in the meridian plane at θ of the string to the end x (sign +1 at a)."""
    c, d = jnp.cos(theta), jnp.sin(theta)
    inward = ring - (c * x[0] + d * x[1])
    free = root(inward * inward + x[2] * x[2] - r * r)
    psi = jnp.arctan2(x[2], inward) + sign * jnp.arctan2(free, r)
    # Cosine and sine of that sum.
    square = (inward * inward + x[2] * x[2]) * (r * r + free * free)
    per = r / jnp.sqrt(jnp.where(square > 0, square, 1))
    rho = ring - (inward * r - sign * x[2] * free) * per
    height = (x[2] * r + sign * inward * free) * per
    return Touch(psi, free, c * x[1] - d * x[0], rho, height, inward)


class Course(NamedTuple):
    """The string from touch-down to the last lift-off."""

    c: Array
    angle: Array  # round the ring
    length: Array
    leaves: Array  # tube angle at which it comes down from the bridge; it left at minus that


class Laid(NamedTuple):
    """A whole string."""

    p: Touch
    q: Touch
    course: Course


def _quadrature(begins: Array, ends: Array, width: Array) -> tuple[Array, Array]:
    """Tube angles and their weights, (nodes, ...), by Gauss's rule for u in ψ = width sinh u.

    A geodesic of angular momentum c is steep where the tube is nearest to the axis, the more
    the nearer c comes to R - r: there its integrands have poles, not far from the real axis.
    The substitution takes them away if they are no nearer than the width.
    """
    first, last = jnp.arcsinh(begins / width), jnp.arcsinh(ends / width)
    half = 0.5 * (last - first)
    # Nodes come in pairs.
    column = (-1,) + (1,) * half.ndim
    there = jnp.asarray(_NODES[len(_NODES) // 2 :], half.dtype).reshape(column)
    weights = jnp.asarray(_WEIGHTS[len(_NODES) // 2 :], half.dtype).reshape(column)
    middle = jnp.exp(0.5 * (first + last))[None]
    grown = jnp.exp(there * half[None])
    up, down = middle * grown, middle / grown
    x = jnp.concatenate([up, down])
    weights = jnp.concatenate([weights, weights])
    per = jnp.concatenate([1 / up, grown / middle])
    across = 0.5 * width[None]
    return across * (x - per), weights * (across * half[None]) * (x + per)


def _pieces(
    first: Array,
    last: Array,
    c: Array,
    bridge: Array | None,
    leaves: Array,
    r: Array,
    ring: Array,
) -> tuple[Array, Array]:
    """Nodes on all pieces on the tube, and their weights."""
    y = (ring - r - jnp.abs(c)) / r
    y = y if bridge is None else jnp.where((bridge != 0) | (y <= 0), 1, y)
    # No more than arcosh(1 + y), where the nearest pole is.
    width = jnp.sqrt(2 * y / (1 + y / 6))
    if bridge is None:
        return _quadrature(first, last, width)
    bridged = bridge != 0
    begins = jnp.stack([first, jnp.where(bridged, leaves, last)])
    ends = jnp.stack([jnp.where(bridged, -leaves, last), last])
    width = jnp.where(bridged, _PLAIN, width)
    psi, weights = _quadrature(begins, ends, jnp.stack([width, width]))
    return psi.reshape(-1, *first.shape), weights.reshape(-1, *first.shape)


def _course(
    first: Array, last: Array, v: Array, bridge: Array | None, r: Array, ring: Array
) -> Course:
    """Between two tube angles. `bridge` is 0 for a geodesic, whose v is c, and 1 or -1, for the
    way round, for two of them with a bridge between, whose v is k; None if all are geodesics."""
    over = _bridge(v, bridge, r, ring)
    c = over.c
    psi, weights = _pieces(first, last, c, bridge, over.leaves, r, ring)
    rho = ring[None] - r[None] * jnp.cos(psi)
    pace = weights / (rho * jnp.sqrt(rho * rho - (c * c)[None]))
    angle = c * r * jnp.sum(pace, axis=0) + over.angle
    return Course(c, angle, r * jnp.sum(pace * rho * rho, axis=0) + over.length, over.leaves)


class _Bridge(NamedTuple):
    c: Array
    leaves: Array
    angle: Array
    length: Array


def _bridge(v: Array, bridge: Array | None, r: Array, ring: Array) -> _Bridge:
    if bridge is None:
        zero = jnp.zeros_like(v)
        return _Bridge(v, zero, zero, zero)
    bridged = bridge != 0
    k = jnp.where(bridged, v, 0)
    square = 1 - k * k
    # Tangent at both ends: from its middle, where it is nearest to the axis, and by symmetry.
    x = r / (ring * square)
    leaves = jnp.arctan2(root(1 - x * x), x)
    half = r * jnp.sin(leaves) / (x * jnp.sqrt(square))
    return _Bridge(
        jnp.where(bridged, bridge * (ring - r * x) * k, v),
        leaves,
        2 * bridge * jnp.arctan2(half, ring * k),
        jnp.where(bridged, 2 * half, 0),
    )


def laid(unknown, bridge: Array | None, a: Array, b: Array, r: Array, ring: Array) -> Laid:
    """The string of two ring angles and v (see `_course`)."""
    theta1, theta2, v = unknown
    p, q = touch(a, theta1, r, ring, 1.0), touch(b, theta2, r, ring, -1.0)
    return Laid(p, q, _course(p.psi, q.psi, v, bridge, r, ring))


def misses(unknown, string: Laid) -> tuple[Array, Array, Array]:
    """Sideways misses of a and b (m), and the gap in the ring angle."""
    p, q, c = string.p, string.q, string.course.c
    return (
        -p.aside * jnp.sqrt(1 - (c / p.rho) ** 2) - p.free * c / p.rho,
        q.aside * jnp.sqrt(1 - (c / q.rho) ** 2) - q.free * c / q.rho,
        unknown[1] - unknown[0] - string.course.angle,
    )


def touching_point(x: Touch, theta: Array) -> Array:
    return jnp.stack([x.rho * jnp.cos(theta), x.rho * jnp.sin(theta), x.height])


def _clearance(start: Array, end: Array, r: Array, ring: Array) -> Array:
    """How clear of the tube a line is that touches it at its start; negative where it enters.

    Where a line meets a torus is an equation of degree 4 in the place on the line; that it
    touches at the start are two roots, and the sign of the quadratic polynomial that is left
    says the rest."""
    way = end - start
    reach = root(dot(way, way))
    way = way / jnp.where(reach > 0, reach, 1)[None]
    rise = dot(start, way)
    level = dot(start, start) + ring * ring - r * r
    there = 4 * rise * rise + 2 * level - 4 * ring * ring * (way[0] ** 2 + way[1] ** 2)
    t = jnp.clip(-2 * rise, 0, reach)
    return (t * (t + 4 * rise) + there) / (r * ring)


def is_taut(
    unknown, string: Laid, bridge: Array | None, a: Array, b: Array, r: Array, ring: Array
) -> Array:
    """Whether these numbers are those of a taut string that does not enter the tube."""
    p, q, (c, _, _, leaves) = string
    miss1, miss2, gap = misses(unknown, string)
    error = jnp.maximum(jnp.maximum(jnp.abs(miss1), jnp.abs(miss2)) / ring, jnp.abs(gap))
    eps = float(jnp.finfo(r.dtype).eps)
    loose = max(1e-7, 1e2 * eps)
    clear = _clearance(touching_point(p, unknown[0]), a, r, ring) > -loose
    clear &= _clearance(touching_point(q, unknown[1]), b, r, ring) > -loose
    # It is pressed to the tube the least where the tube angle is nearest to 0.
    inmost = jnp.clip(0, jnp.minimum(p.psi, q.psi), jnp.maximum(p.psi, q.psi))
    rho = ring - r * jnp.cos(inmost)
    steep = (c / rho) ** 2
    pressed = 1 - steep * (1 + r * jnp.cos(inmost) / rho) > -loose
    onward = pressed & (p.psi < q.psi + loose)
    if bridge is not None:
        off = (p.psi < loose - leaves) & (q.psi > leaves - loose)
        onward = jnp.where(bridge != 0, off, onward)
    return (error < max(1e-9, 1e2 * eps)) & clear & onward


def newton_step(
    unknown: Array, bridge: Array | None, a: Array, b: Array, r: Array, ring: Array
) -> Array:
    """Correction of (θ₁, θ₂, v); `misses` with slopes that are written out."""
    theta1, theta2, v = unknown
    over, slopes = jax.jvp(lambda v: _bridge(v, bridge, r, ring), (v,), (jnp.ones_like(v),))
    c, by_v = over.c, slopes.c
    cc = c * c

    def end(x: Array, theta: Array, sign: float):
        """Residual, its slopes to θ and c, and the slopes of the ring angle to θ."""
        p = touch(x, theta, r, ring, sign)
        inward, out = p.inward, ring - p.inward
        # By θ: the end's distance from the axis in the plane changes by `aside`.
        square = inward * inward + x[2] * x[2]
        # None where the plane sees the end inside the tube: steps would not lead out again.
        some = p.free > 1e-6 * r
        per = jnp.where(some, 1 / jnp.where(some, p.free, 1), 0)
        psi = (x[2] - sign * r * inward * per) / square * p.aside
        length = -inward * per * p.aside
        rho = p.height * psi
        k = c / p.rho
        level = jnp.sqrt(1 - k * k)
        miss = -sign * p.aside * level - p.free * k
        by_k = sign * p.aside * k / level - p.free
        by_theta = sign * out * level - length * k - by_k * k / p.rho * rho
        return p.psi, miss, by_theta, by_k / p.rho, c * r / (p.rho * p.rho * level) * psi

    psi1, f1, f11, f13, g1 = end(a, theta1, 1.0)
    psi2, f2, f22, f23, g2 = end(b, theta2, -1.0)
    f13, f23 = f13 * by_v, f23 * by_v
    psi, weights = _pieces(psi1, psi2, c, bridge, over.leaves, r, ring)
    rho = ring[None] - r[None] * jnp.cos(psi)
    per = 1 / (rho * jnp.sqrt(rho * rho - cc[None]))
    pace = weights * per
    f3 = theta2 - theta1 - c * r * jnp.sum(pace, axis=0) - over.angle
    f33 = -r * jnp.sum(pace * (rho * rho * per) ** 2, axis=0) * by_v - slopes.angle
    if bridge is not None:
        # The pieces end where the bridge begins, and begin where it ends.
        bridged, off = bridge != 0, ring - r * jnp.cos(over.leaves)
        density = c * r / (off * jnp.sqrt(jnp.where(bridged, off * off - cc, 1)))
        f33 = f33 + jnp.where(bridged, 2 * density * slopes.leaves, 0)
    f31, f32 = g1 - 1, 1 - g2
    # Cramer's rule: f11 is zero for an end on the axis, which every θ₁ sees alike.
    whole = f11 * (f22 * f33 - f23 * f32) - f13 * f22 * f31
    per = 1 / jnp.where(whole == 0, 1, whole)
    d1 = f13 * (f22 * f3 - f32 * f2) - f1 * (f22 * f33 - f23 * f32)
    d2 = f23 * (f11 * f3 - f31 * f1) - f2 * (f11 * f33 - f13 * f31)
    dc = f31 * f1 * f22 + f32 * f2 * f11 - f3 * f11 * f22
    return jnp.stack([d1 * per, d2 * per, dc * per])
