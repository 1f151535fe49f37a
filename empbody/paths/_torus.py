"""Shortest path of a taut string through the hole of one torus, by Newton's method from a few
starts (equations: `_torus_string`), differentiated implicitly."""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ._compact import on_those
from ._geodesic import Geodesic, Tried
from ._torus_string import Touch, course, is_taut, misses, newton_step, touch, touching_point
from ._vectors import dot, root

_PASSES = 24
"""Of Newton's method at most."""
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


def _path(a: Array, b: Array, tube_radius: Array, ring_radius: Array, on: Array, solve) -> Geodesic:
    one, zero = jnp.ones_like(a[0]), jnp.zeros_like(a[0])
    r, ring = jnp.where(on, tube_radius, 0.5), jnp.where(on, ring_radius, 1.5)
    # The string climbs: turn the torus over where it does not.
    flip = jnp.where(a[2] > b[2], -1, 1).astype(a.dtype)
    flips = jnp.stack([one, one, flip])
    start = jnp.where(on[None], a * flips, jnp.stack([2 * one, zero, -one]))
    end = jnp.where(on[None], b * flips, jnp.stack([2 * one, zero, one]))
    theta1, theta2, v, bridge, converged = solve(start, end, jnp.stack([r, ring]), on)
    p, q = touch(start, theta1, r, ring, 1.0), touch(end, theta2, r, ring, -1.0)
    arc = course(p.psi, q.psi, v, bridge, r, ring).length

    def straight(x: Touch) -> Array:
        return root(x.free * x.free + x.aside * x.aside)

    length = straight(p) + arc + straight(q)
    cut = lambda x: jnp.where(jnp.broadcast_to(on, x.shape), x, 0)  # noqa: E731
    first, last = flips * touching_point(p, theta1, r), flips * touching_point(q, theta2, r)
    return Geodesic(cut(first), cut(last), cut(arc), cut(length), converged > 0)


def _start(a: Array, b: Array, r: Array, ring: Array):
    """From the meridian plane where the straight line crosses the plane of the ring."""
    crossing = a[2] / (a[2] - b[2])
    x, y = a[0] + crossing * (b[0] - a[0]), a[1] + crossing * (b[1] - a[1])
    centred = x * x + y * y < 1e-24 * ring * ring
    theta = jnp.arctan2(jnp.where(centred, 0, y), jnp.where(centred, 1, x))
    p, q = touch(a, theta, r, ring, 1.0), touch(b, theta, r, ring, -1.0)
    aside = q.aside - p.aside
    length = p.free + q.free + r * jnp.abs(q.psi - p.psi)
    c = (ring - r) * aside / jnp.sqrt(length * length + aside * aside + 1e-30)
    return theta, theta, 0.9 * c


@jax.custom_jvp
def _solve(a: Array, b: Array, size: Array, on: Array):
    """(θ at touch-down, θ at last lift-off, v, bridge, found) as in `course`; size is r and R."""
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


@_solve.defjvp
def _solve_jvp(primals, tangents):
    *unknown, bridge, converged = _solve(*primals)
    unknown = tuple(unknown)

    def by_given(a, b, size):
        return misses(unknown, bridge, a, b, size[0], size[1])

    force = jax.jvp(by_given, primals[:3], tangents[:3])[1]
    a, b, (r, ring), _ = primals

    def linear(x):
        value = misses(x, bridge, a, b, r, ring)
        return tuple(v - lax.stop_gradient(v) + f for v, f in zip(value, force, strict=True))

    rates = _correction(linear, unknown)
    none = jnp.zeros_like(converged)
    return (*unknown, bridge, converged), (*rates, none, none)


def _correction(residuals, unknown):
    """-J⁻¹ F by Cramer's rule."""
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
    return det(value, y, z) * k, det(x, value, z) * k, det(x, y, value) * k


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
            step = newton_step(x, bridge, a, b, r, ring)
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
        good = is_taut(tuple(new), bridge, a, b, r, ring)
        new = jnp.concatenate([new, bridge[None], good[None].astype(r.dtype)])
        return count + 1, jnp.where((good & (rows[4] == 0))[None], new, rows)

    def go_on(loop):
        return (loop[0] < last) & jnp.any(loop[1][4] == 0)

    fallback = jnp.stack([theta, theta, zero, zero, zero])
    rows = jnp.where((rows[4] == 0)[None], fallback, rows)
    return lax.while_loop(go_on, attempt, (first, rows))[1]


def _ring_angles(a: Array, b: Array) -> tuple[Array, Array]:
    """Ring angle of a, and how far it is from there to b."""
    first, last = (jnp.arctan2(x[1], jnp.where(dot(x, x) > 0, x[0], 1)) for x in (a, b))
    turn = last - first
    return first, turn - 2 * jnp.pi * jnp.floor(turn / (2 * jnp.pi) + 0.5)
