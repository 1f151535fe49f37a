"""Shortest path of a taut string through the hole of one torus.

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

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ._compact import on_those
from ._geodesic import Geodesic, Tried
from ._vectors import dot, root

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PASSES = 24
"""Of Newton's method at most."""
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


class _Course(NamedTuple):
    """The string from touch-down to the last lift-off."""

    c: Array
    angle: Array  # round the ring
    length: Array
    leaves: Array  # tube angle at which it comes down from the bridge; it left at minus that


def _course(first: Array, last: Array, v: Array, bridge: Array, r: Array, ring: Array) -> _Course:
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
    return _Course(
        c, angle + beyond + over, length + rest + jnp.where(bridged, 2 * half, 0), leaves
    )


def _residuals(unknown, bridge: Array, a: Array, b: Array, r: Array, ring: Array):
    """Sideways misses of a and b (m), and the gap in the ring angle."""
    theta1, theta2, v = unknown
    p, q = _touch(a, theta1, r, ring, 1.0), _touch(b, theta2, r, ring, -1.0)
    c, angle, _, _ = _course(p.psi, q.psi, v, bridge, r, ring)
    return (
        -p.aside * jnp.sqrt(1 - (c / p.rho) ** 2) - p.free * c / p.rho,
        q.aside * jnp.sqrt(1 - (c / q.rho) ** 2) - q.free * c / q.rho,
        theta2 - theta1 - angle,
    )


def _point(x: _Touch, theta: Array, r: Array) -> Array:
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


def _taut(unknown, bridge: Array, a: Array, b: Array, r: Array, ring: Array) -> Array:
    """Whether these numbers are those of a taut string that does not enter the tube."""
    theta1, theta2, v = unknown
    p, q = _touch(a, theta1, r, ring, 1.0), _touch(b, theta2, r, ring, -1.0)
    c, _, _, leaves = _course(p.psi, q.psi, v, bridge, r, ring)
    miss1, miss2, gap = _residuals(unknown, bridge, a, b, r, ring)
    error = jnp.maximum(jnp.maximum(jnp.abs(miss1), jnp.abs(miss2)) / ring, jnp.abs(gap))
    eps = float(jnp.finfo(r.dtype).eps)
    loose = max(1e-7, 1e2 * eps)
    clear = _clearance(_point(p, theta1, r), a, r, ring) > -loose
    clear &= _clearance(_point(q, theta2, r), b, r, ring) > -loose
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
    """(θ at touch-down, θ at last lift-off, v, bridge, found) as in `_course`; size is r and R."""
    batch = on.shape
    count = math.prod(batch)
    given = jnp.concatenate([x.reshape(-1, count) for x in (a, b, size)])
    begun = jnp.stack(_start(given[:3], given[3:6], given[6], given[7]))
    rows = jnp.concatenate([begun, jnp.zeros_like(begun[:1]), 1 - on.reshape(1, count)])

    def stage(number, rows):
        # From the usual start all, from others those that are left.
        first, last = jnp.where(number == 0, 0, 1), jnp.where(number == 0, 1, _ATTEMPTS)

        def search(columns):
            return _search(columns[:8], columns[8:], first, last)

        return on_those(search, rows[4] == 0, rows, jnp.concatenate([given, rows]))

    rows = lax.fori_loop(0, 2, stage, rows)
    return tuple(rows.reshape(5, *batch))


def _search(given: Array, rows: Array, first: Array, last: Array) -> Array:
    """Some of the attempts at those strings that have not been found; number 0 starts from
    what the rows hold. If none is taut, some way through the hole in a meridian plane."""
    a, b, (r, ring) = given[:3], given[3:6], given[6:]
    zero, one = jnp.zeros_like(r), jnp.ones_like(r)
    low, round_ = _ring_angles(a, b)
    way = jnp.where(round_ < 0, -one, one)
    least, most = jnp.minimum(low, low + round_), jnp.maximum(low, low + round_)
    begun, theta = rows[:3], _start(a, b, r, ring)[0]
    tolerance = max(1e-7, 1e2 * float(jnp.finfo(r.dtype).eps))

    def attempt(loop):
        count, rows = loop
        usual = count == 0
        bridge = jnp.where(count == 1, way, zero)
        bridged = bridge != 0
        limit = jnp.where(bridged, (1 - 1e-9) * jnp.sqrt(1 - r / ring), 0.999 * (ring - r))
        # Taut strings run from one end's meridian plane to the other's by the shorter way.
        floor = jnp.where(usual | bridged | (way < 0), -limit, zero)
        ceiling = jnp.where(usual | bridged | (way > 0), limit, zero)
        far = jnp.where(usual, 10.0, 0.0)
        lows = jnp.stack([least - far, least - far, floor])
        highs = jnp.stack([most + far, most + far, ceiling])
        wide = 0.3 * jnp.stack([one, one, jnp.where(bridged, one, ring)])
        before, after, pace = (x[count] for x in jnp.asarray(_STARTS, r.dtype).T)
        v = jnp.where(bridged, one, way) * pace * limit
        start = jnp.stack([low + before * round_, low + after * round_, v])
        start = jnp.where(usual, begun, start)

        def correct(turn):
            count, x, error = turn
            step = _newton(x, bridge, a, b, r, ring)
            step = jnp.where(jnp.isfinite(step), step, 0)
            new = jnp.clip(x + jnp.clip(step, -wide, wide), lows, highs)
            # Convergence is quadratic: what is left is below rounding.
            still = (error < tolerance)[None]
            now = jnp.max(jnp.abs(step) / wide, axis=0)
            return count + 1, jnp.where(still, x, new), jnp.where(still[0], error, now)

        def go_on(turn):
            return (turn[0] < _PASSES) & jnp.any((turn[2] >= tolerance) & (rows[4] == 0))

        begin = (jnp.zeros((), int), start, one)
        _, new, _ = lax.while_loop(go_on, correct, begin)
        good = _taut(tuple(new), bridge, a, b, r, ring)
        new = jnp.concatenate([new, bridge[None], good[None].astype(r.dtype)])
        return count + 1, jnp.where((good & (rows[4] == 0))[None], new, rows)

    def go_on(loop):
        return (loop[0] < last) & jnp.any(loop[1][4] == 0)

    fallback = jnp.stack([theta, theta, zero, zero, zero])
    rows = jnp.where((rows[4] == 0)[None], fallback, rows)
    return lax.while_loop(go_on, attempt, (first, rows))[1]


_STARTS = (
    # Touch-down and lift-off on the way round from end to end, and v in parts of its limit.
    (0.0, 0.0, 0.0),  # the usual start is another one
    (0.05, 0.95, 0.5),  # with a bridge: any start finds it
    (0.1, 0.9, 0.5),  # on much of the tube
    (0.1, 0.3, 0.7),  # near one end only
    (0.7, 0.9, 0.7),
    (0.5, 0.5, 0.3),
)
_ATTEMPTS = len(_STARTS)


def _ring_angles(a: Array, b: Array) -> tuple[Array, Array]:
    """Ring angle of a, and how far it is from there to b."""
    first, last = (jnp.arctan2(x[1], jnp.where(dot(x, x) > 0, x[0], 1)) for x in (a, b))
    turn = last - first
    return first, turn - 2 * jnp.pi * jnp.floor(turn / (2 * jnp.pi) + 0.5)


class _Slopes(NamedTuple):
    """To v, which is c or k (see `_course`)."""

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


def _newton(unknown: Array, bridge: Array, a: Array, b: Array, r: Array, ring: Array) -> Array:
    """Correction of (θ₁, θ₂, v); `_residuals` with slopes that are written out."""
    theta1, theta2, v = unknown
    bridged = bridge != 0
    slopes = _bridge_slopes(v, bridge, r, ring)
    c, by_v = slopes.c, slopes.c_by_v
    cc = c * c

    def end(x: Array, theta: Array, sign: float):
        """Residual, its slopes to θ and c, and the slopes of the ring angle to θ."""
        p = _touch(x, theta, r, ring, sign)
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
    # In two pieces, as in `_course`.
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


@_solve.defjvp
def _solve_jvp(primals, tangents):
    *unknown, bridge, converged = _solve(*primals)
    unknown = tuple(unknown)

    def residuals(a, b, size):
        return _residuals(unknown, bridge, a, b, size[0], size[1])

    force = jax.jvp(residuals, primals[:3], tangents[:3])[1]
    a, b, (r, ring), _ = primals

    def linear(x):
        value = _residuals(x, bridge, a, b, r, ring)
        return tuple(v - lax.stop_gradient(v) + f for v, f in zip(value, force, strict=True))

    rates, _ = _correction(linear, unknown)
    none = jnp.zeros_like(converged)
    return (*unknown, bridge, converged), (*rates, none, none)


def torus_block(
    a: Array, b: Array, tube: Array, ring: Array, on: Array, tried: Tried
) -> tuple[Geodesic, Tried]:
    """`torus_path` for a block of strings that are nearly all in contact, all at once and
    without derivatives."""
    shape = on.shape
    flat = [x.reshape(*x.shape[: x.ndim - len(shape)], -1) for x in (a, b, tube, ring, on)]
    known = tried.rows.reshape(13, -1)
    # Where there was a bridge the numbers mean something else.
    fresh = flat[-1] & ((known[3] == 0.0) | (known[4] != 0.0))
    solved = []

    def solve(a: Array, b: Array, size: Array, on: Array) -> tuple[Array, ...]:
        start = jnp.where(fresh[None], jnp.stack(_start(a, b, *size)), known[:3])
        zero, none = jnp.zeros_like(start[:1]), 1 - on[None].astype(a.dtype)
        rows = jnp.concatenate([start, zero, none])
        given = jnp.concatenate([a, b, size])
        solved.append(_search(given, rows, jnp.zeros((), int), jnp.full((), _ATTEMPTS)))
        return tuple(solved[0])

    found = _path(*flat, solve=solve)
    theta1, theta2, v, bridge, _ = solved[0]
    rows = jnp.stack([theta1, theta2, v, jnp.ones_like(v), bridge])
    rows = jnp.concatenate([rows, known[5:]])
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
    theta1, theta2, v, bridge, converged = solve(start, end, jnp.stack([r, ring]), on)
    p, q = _touch(start, theta1, r, ring, 1.0), _touch(end, theta2, r, ring, -1.0)
    arc = _course(p.psi, q.psi, v, bridge, r, ring).length

    def straight(x: _Touch) -> Array:
        return root(x.free * x.free + x.aside * x.aside)

    length = straight(p) + arc + straight(q)
    cut = lambda x: jnp.where(jnp.broadcast_to(on, x.shape), x, 0)  # noqa: E731
    first, last = flips * _point(p, theta1, r), flips * _point(q, theta2, r)
    return Geodesic(cut(first), cut(last), cut(arc), cut(length), converged > 0)
