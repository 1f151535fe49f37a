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

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._vectors import dot, root

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


class Touch(NamedTuple):
    psi: Array
    free: Array  # length of the straight part, seen in the meridian plane
    aside: Array  # the end's distance from that plane
    rho: Array  # distance of the point from the axis


def touch(x: Array, theta: Array, r: Array, ring: Array, sign: float) -> Touch:
    """Tangent point in the meridian plane at θ of the string to the end x (sign +1 at a)."""
    c, d = jnp.cos(theta), jnp.sin(theta)
    inward = ring - (c * x[0] + d * x[1])
    free = root(inward * inward + x[2] * x[2] - r * r)
    psi = jnp.arctan2(x[2], inward) + sign * jnp.arctan2(free, r)
    return Touch(psi, free, c * x[1] - d * x[0], ring - r * jnp.cos(psi))


def _inmost(first: Array, last: Array) -> Array:
    """The tube angle nearest to 0 between two."""
    return jnp.clip(0, jnp.minimum(first, last), jnp.maximum(first, last))


def _integrals(first: Array, last: Array, c: Array, r: Array, ring: Array) -> tuple[Array, Array]:
    """Ring angle and length of the geodesic of angular momentum c between two tube angles."""
    middle, half = 0.5 * (first + last), 0.5 * (last - first)
    column = (-1,) + (1,) * half.ndim
    nodes = jnp.asarray(_NODES, half.dtype).reshape(column)
    weights = jnp.asarray(_WEIGHTS, half.dtype).reshape(column)
    rho = ring[None] - r[None] * jnp.cos(middle[None] + nodes * half[None])
    pace = weights / jnp.sqrt(rho * rho - (c * c)[None])
    return c * r * half * jnp.sum(pace / rho, axis=0), r * half * jnp.sum(pace * rho, axis=0)


class Course(NamedTuple):
    """The string from touch-down to the last lift-off."""

    c: Array
    angle: Array  # round the ring
    length: Array
    leaves: Array  # tube angle at which it comes down from the bridge; it left at minus that


def course(first: Array, last: Array, v: Array, bridge: Array, r: Array, ring: Array) -> Course:
    """Between two tube angles. `bridge` is 0 for a geodesic, whose v is c, and 1 or -1, for the
    way round, for two of them with a bridge between, whose v is k."""
    bridged = bridge != 0
    k = jnp.where(bridged, v, 0)
    square = 1 - k * k
    # Tangent at both ends: from its middle, where it is nearest to the axis, and by symmetry.
    x = r / (ring * square)
    leaves = jnp.arctan2(root(1 - x * x), x)
    c = jnp.where(bridged, bridge * (ring - r * x) * k, v)
    half = r * jnp.sin(leaves) / (x * jnp.sqrt(square))
    # The integrands are steep where the tube is nearest to the axis, thick tubes' above all.
    inmost = _inmost(first, last)
    angle, length = _integrals(first, jnp.where(bridged, -leaves, inmost), c, r, ring)
    beyond, rest = _integrals(jnp.where(bridged, leaves, inmost), last, c, r, ring)
    over = 2 * bridge * jnp.arctan2(half, ring * k)
    return Course(c, angle + beyond + over, length + rest + jnp.where(bridged, 2 * half, 0), leaves)


def misses(unknown, bridge: Array, a: Array, b: Array, r: Array, ring: Array):
    """Sideways misses of a and b (m), and the gap in the ring angle."""
    theta1, theta2, v = unknown
    p, q = touch(a, theta1, r, ring, 1.0), touch(b, theta2, r, ring, -1.0)
    c, angle, _, _ = course(p.psi, q.psi, v, bridge, r, ring)
    return (
        -p.aside * jnp.sqrt(1 - (c / p.rho) ** 2) - p.free * c / p.rho,
        q.aside * jnp.sqrt(1 - (c / q.rho) ** 2) - q.free * c / q.rho,
        theta2 - theta1 - angle,
    )


def touching_point(x: Touch, theta: Array, r: Array) -> Array:
    return jnp.stack([x.rho * jnp.cos(theta), x.rho * jnp.sin(theta), r * jnp.sin(x.psi)])


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


def is_taut(unknown, bridge: Array, a: Array, b: Array, r: Array, ring: Array) -> Array:
    """Whether these numbers are those of a taut string that does not enter the tube."""
    theta1, theta2, v = unknown
    p, q = touch(a, theta1, r, ring, 1.0), touch(b, theta2, r, ring, -1.0)
    c, _, _, leaves = course(p.psi, q.psi, v, bridge, r, ring)
    miss1, miss2, gap = misses(unknown, bridge, a, b, r, ring)
    error = jnp.maximum(jnp.maximum(jnp.abs(miss1), jnp.abs(miss2)) / ring, jnp.abs(gap))
    eps = float(jnp.finfo(r.dtype).eps)
    loose = max(1e-7, 1e2 * eps)
    clear = _clearance(touching_point(p, theta1, r), a, r, ring) > -loose
    clear &= _clearance(touching_point(q, theta2, r), b, r, ring) > -loose
    # It is pressed to the tube the least where the tube angle is nearest to 0.
    inmost = _inmost(p.psi, q.psi)
    rho = ring - r * jnp.cos(inmost)
    steep = (c / rho) ** 2
    pressed = 1 - steep * (1 + r * jnp.cos(inmost) / rho) > -loose
    onward = jnp.where(
        bridge != 0,
        (p.psi < loose - leaves) & (q.psi > leaves - loose),
        pressed & (p.psi < q.psi + loose),
    )
    return (error < max(1e-9, 1e2 * eps)) & clear & onward


class _Slopes(NamedTuple):
    """To v, which is c or k (see `course`)."""

    c: Array
    c_by_v: Array
    leaves: Array
    leaves_by_v: Array
    over: Array  # ring angle of the bridge
    over_by_v: Array


def _bridge_slopes(v: Array, bridge: Array, r: Array, ring: Array) -> _Slopes:
    bridged = bridge != 0
    k = jnp.where(bridged, v, 0)
    square = 1 - k * k
    x = r / (ring * square)
    by = 2 * k * x / square
    sine = jnp.maximum(root(1 - x * x), 1e-9)
    level = jnp.sqrt(square)
    half = r * sine / (x * level)
    half_by = r / (x * level) * (k * sine / square - by * (x / sine + sine / x))
    whole = half * half + ring * ring * k * k
    rho = ring - r * x
    return _Slopes(
        jnp.where(bridged, bridge * rho * k, v),
        jnp.where(bridged, bridge * (rho - r * k * by), 1),
        jnp.arctan2(sine, x),
        -by / sine,
        2 * bridge * jnp.arctan2(half, ring * k),
        2 * bridge * ring * (k * half_by - half) / whole,
    )


def newton_step(unknown: Array, bridge: Array, a: Array, b: Array, r: Array, ring: Array) -> Array:
    """Correction of (θ₁, θ₂, v); `misses` with slopes that are written out."""
    theta1, theta2, v = unknown
    bridged = bridge != 0
    slopes = _bridge_slopes(v, bridge, r, ring)
    c, by_v = slopes.c, slopes.c_by_v
    cc = c * c

    def end(x: Array, theta: Array, sign: float):
        """Residual, its slopes to θ and c, and the slopes of the ring angle to θ."""
        p = touch(x, theta, r, ring, sign)
        cosine, sine = jnp.cos(theta), jnp.sin(theta)
        out = cosine * x[0] + sine * x[1]
        inward = ring - out
        # By θ: the end's distance from the axis in the plane changes by `aside`.
        square = inward * inward + x[2] * x[2]
        # None where the plane sees the end inside the tube: steps would not lead out again.
        some = p.free > 1e-6 * r
        per = jnp.where(some, 1 / jnp.where(some, p.free, 1), 0)
        psi = (x[2] - sign * r * inward * per) / square * p.aside
        length = -inward * per * p.aside
        rho = r * jnp.sin(p.psi) * psi
        k = c / p.rho
        level = jnp.sqrt(1 - k * k)
        miss = -sign * p.aside * level - p.free * k
        by_k = sign * p.aside * k / level - p.free
        by_theta = sign * out * level - length * k - by_k * k / p.rho * rho
        return p.psi, miss, by_theta, by_k / p.rho, c * r / (p.rho * p.rho * level) * psi

    psi1, f1, f11, f13, g1 = end(a, theta1, 1.0)
    psi2, f2, f22, f23, g2 = end(b, theta2, -1.0)
    f13, f23 = f13 * by_v, f23 * by_v
    # In two pieces, as in `course`.
    inmost, leaves = _inmost(psi1, psi2), slopes.leaves
    turns = jnp.stack([jnp.where(bridged, -leaves, inmost), jnp.where(bridged, leaves, inmost)])
    ends = jnp.stack([psi1, psi2])
    nodes = jnp.asarray(_NODES, c.dtype)[:, None, None]
    weights = jnp.asarray(_WEIGHTS, c.dtype)[:, None, None]
    half = 0.5 * jnp.stack([turns[0] - psi1, psi2 - turns[1]])
    rho = ring[None, None] - r[None, None] * jnp.cos(
        0.5 * (ends + turns)[None] + nodes * half[None]
    )
    per = 1 / jnp.sqrt(rho * rho - cc[None, None])
    pace = weights * half[None] * per
    f3 = theta2 - theta1 - c * r * jnp.sum(pace / rho, axis=(0, 1)) - slopes.over
    f33 = -r * jnp.sum(pace * rho * per * per, axis=(0, 1)) * by_v - slopes.over_by_v
    # The pieces end where the bridge begins, and begin where it ends.
    off = ring - r * jnp.cos(leaves)
    density = c * r / (off * jnp.sqrt(jnp.where(bridged, off * off - cc, 1)))
    f33 = f33 + jnp.where(bridged, 2 * density * slopes.leaves_by_v, 0)
    f31, f32 = g1 - 1, 1 - g2
    # Cramer's rule: f11 is zero for an end on the axis, which every θ₁ sees alike.
    whole = f11 * (f22 * f33 - f23 * f32) - f13 * f22 * f31
    per = 1 / jnp.where(whole == 0, 1, whole)
    d1 = f13 * (f22 * f3 - f32 * f2) - f1 * (f22 * f33 - f23 * f32)
    d2 = f23 * (f11 * f3 - f31 * f1) - f2 * (f11 * f33 - f13 * f31)
    dc = f31 * f1 * f22 + f32 * f2 * f11 - f3 * f11 * f22
    return jnp.stack([d1 * per, d2 * per, dc * per])
