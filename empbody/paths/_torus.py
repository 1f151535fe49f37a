"""Shortest path of a taut string through the hole of one torus, by Newton's method from a few
starts (equations: `_torus_string`), differentiated implicitly."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ._compact import on_those
from ._geodesic import Geodesic, Tried
from ._torus_string import Laid, Touch, is_taut, laid, misses, newton_step, touch, touching_point
from ._vectors import dot, root

_PASSES = 24
"""Of Newton's method at most."""
_FASTEST = 0.999
"""Angular momentum at most, of what a string has that runs along the inner side of the tube."""
_STARTS = (
    # Touch-down and lift-off on the way round from end to end, and v in parts of its limit.
    (0.05, 0.95, 0.5),  # with a bridge: any start finds it
    (0.1, 0.9, 0.5),  # on much of the tube
    (0.1, 0.3, 0.7),  # near one end only
    (0.7, 0.9, 0.7),
    (0.5, 0.5, 0.3),
)
"""Where strings are looked for that are not found from the usual start."""


_Given = tuple[Array, Array, Array, Array]
"""Ends a and b, tube radius and ring radius."""


class _Found(NamedTuple):
    theta1: Array
    theta2: Array
    v: Array
    bridge: Array
    converged: Array
    string: Laid


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

    def solve(a: Array, b: Array, size: Array, on: Array) -> _Found:
        theta1, theta2, v, bridge, converged = _solve(a, b, size, on)
        string = laid((theta1, theta2, v), bridge, a, b, size[0], size[1])
        return _Found(theta1, theta2, v, bridge, converged, string)

    return _path(a, b, tube_radius, ring_radius, on, solve)[0]


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

    def solve(a: Array, b: Array, size: Array, on: Array) -> _Found:
        given = (a, b, size[0], size[1])

        def begun() -> Array:
            return jnp.where(fresh[None], jnp.stack(_start(*given)), known[:3])

        start = lax.cond(jnp.any(fresh), begun, lambda: known[:3])
        unknown, string, good = _usual(start, given, on)
        good = (good | ~on).astype(a.dtype)
        theta1, theta2, v = unknown
        found = _Found(theta1, theta2, v, jnp.zeros_like(good), good, string)

        def others() -> _Found:
            rows = _search(jnp.concatenate([a, b, size]), jnp.stack(found[:5]))
            theta1, theta2, v, bridge, converged = (rows[k] for k in range(5))
            string = laid((theta1, theta2, v), bridge, *given)
            return _Found(theta1, theta2, v, bridge, converged, string)

        return lax.cond(jnp.all(good > 0), lambda: found, others)

    geodesic, found = _path(flat[0], flat[1], flat[2], flat[3], flat[4], solve)
    rows = jnp.stack([*found[:3], jnp.ones_like(found.v), found.bridge])
    rows = jnp.concatenate([rows, known[5:]])
    rows = jnp.where(flat[-1][None], rows, known).reshape(13, *shape)
    geodesic = Geodesic(*(x.reshape(*x.shape[:-1], *shape) for x in geodesic))
    return geodesic, Tried(rows)


def _path(
    a: Array,
    b: Array,
    tube_radius: Array,
    ring_radius: Array,
    on: Array,
    solve: Callable[[Array, Array, Array, Array], _Found],
) -> tuple[Geodesic, _Found]:
    one, zero = jnp.ones_like(a[0]), jnp.zeros_like(a[0])
    r, ring = jnp.where(on, tube_radius, 0.5), jnp.where(on, ring_radius, 1.5)
    # The string climbs: turn the torus over where it does not.
    flip = jnp.where(a[2] > b[2], -1, 1).astype(a.dtype)
    flips = jnp.stack([one, one, flip])
    start = jnp.where(on[None], a * flips, jnp.stack([2 * one, zero, -one]))
    end = jnp.where(on[None], b * flips, jnp.stack([2 * one, zero, one]))
    found = solve(start, end, jnp.stack([r, ring]), on)
    p, q, (_, _, arc, _) = found.string

    def straight(x: Touch) -> Array:
        return root(x.free * x.free + x.aside * x.aside)

    length = straight(p) + arc + straight(q)
    cut = lambda x: jnp.where(jnp.broadcast_to(on, x.shape), x, 0)  # noqa: E731
    first, last = touching_point(p, found.theta1), touching_point(q, found.theta2)
    points = cut(flips * first), cut(flips * last)
    return Geodesic(*points, cut(arc), cut(length), found.converged > 0), found


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
    """(θ at touch-down, θ at last lift-off, v, bridge, found) as in `laid`; size is r and R."""
    batch = on.shape
    count = math.prod(batch)
    given = jnp.concatenate([x.reshape(-1, count) for x in (a, b, size)])
    begun = jnp.stack(_start(given[:3], given[3:6], given[6], given[7]))
    rows = jnp.concatenate([begun, jnp.zeros_like(begun[:1]), 1 - on.reshape(1, count)])

    def usual(columns):
        given = columns[:3], columns[3:6], columns[6], columns[7]
        unknown, _, good = _usual(columns[8:11], given, columns[12] == 0)
        return jnp.stack([*unknown, columns[11], good.astype(columns.dtype)])

    for search in (usual, lambda columns: _search(columns[:8], columns[8:])):
        rows = on_those(search, rows[4] == 0, rows, jnp.concatenate([given, rows]))
    return tuple(rows.reshape(5, *batch))


@_solve.defjvp
def _solve_jvp(primals, tangents):
    *unknown, bridge, converged = _solve(*primals)
    unknown = tuple(unknown)

    def by_given(a, b, size):
        return misses(unknown, laid(unknown, bridge, a, b, size[0], size[1]))

    force = jax.jvp(by_given, primals[:3], tangents[:3])[1]
    a, b, (r, ring), _ = primals

    def linear(x):
        value = misses(x, laid(x, bridge, a, b, r, ring))
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


def _newton(
    start: Array,
    bridge: Array | None,
    given: _Given,
    scale: Array,
    lows: Array,
    highs: Array,
    wanted: Array,
) -> tuple[Array, Array, Array]:
    """Newton's method with steps and unknowns within bounds; what has converged stays."""
    one = jnp.ones_like(scale)
    scale, r = jnp.stack([one, one, scale]), given[2]
    tolerance = max(1e-5, 1e2 * float(jnp.finfo(r.dtype).eps))

    def correct(turn):
        count, x, error = turn
        step = newton_step(x, bridge, *given)
        step = jnp.where(jnp.isfinite(step), step, 0)
        new = jnp.clip(x + jnp.clip(step, -0.3 * scale, 0.3 * scale), lows, highs)
        # Convergence is quadratic: of angles some 1e-11 is left, of the length its square.
        still = error < tolerance
        now = jnp.max(jnp.abs(step) / (0.3 * scale), axis=0)
        return count + 1, jnp.where(still[None], x, new), jnp.where(still, error, now)

    def go_on(turn):
        return (turn[0] < _PASSES) & jnp.any((turn[2] >= tolerance) & wanted)

    found = lax.while_loop(go_on, correct, (jnp.zeros((), int), start, one))[1]
    return found[0], found[1], found[2]


def _usual(
    start: Array, given: _Given, wanted: Array
) -> tuple[tuple[Array, Array, Array], Laid, Array]:
    """The string found from one start, without a bridge, and whether it is taut: most are."""
    r, ring = given[2:]
    limit = _FASTEST * (ring - r)
    # The ring angles are free.
    most = jnp.stack([jnp.full_like(r, jnp.inf), jnp.full_like(r, jnp.inf), limit])
    unknown = _newton(start, None, given, ring, -most, most, wanted)
    string = laid(unknown, None, *given)
    return unknown, string, is_taut(unknown, string, None, *given)


def _search(columns: Array, rows: Array) -> Array:
    """From several starts, with a bridge and without, for those strings that have not been
    found. If none is taut, some way through the hole in a meridian plane."""
    a, b, (r, ring) = columns[:3], columns[3:6], columns[6:]
    given = (a, b, r, ring)
    zero, one = jnp.zeros_like(r), jnp.ones_like(r)
    low, round_ = _ring_angles(a, b)
    way = jnp.where(round_ < 0, -one, one)
    least, most = jnp.minimum(low, low + round_), jnp.maximum(low, low + round_)

    def attempt(loop):
        count, rows = loop
        bridge = jnp.where(count == 0, way, zero)
        bridged = bridge != 0
        limit = jnp.where(bridged, (1 - 1e-9) * jnp.sqrt(1 - r / ring), _FASTEST * (ring - r))
        # Taut strings run from one end's meridian plane to the other's by the shorter way.
        floor = jnp.where(bridged | (way < 0), -limit, zero)
        ceiling = jnp.where(bridged | (way > 0), limit, zero)
        before, after, pace = (x[count] for x in jnp.asarray(_STARTS, r.dtype).T)
        v = jnp.where(bridged, one, way) * pace * limit
        start = jnp.stack([low + before * round_, low + after * round_, v])
        lows, highs = jnp.stack([least, least, floor]), jnp.stack([most, most, ceiling])
        scale = jnp.where(bridged, one, ring)
        unknown = _newton(start, bridge, given, scale, lows, highs, rows[4] == 0)
        good = is_taut(unknown, laid(unknown, bridge, *given), bridge, *given)
        new = jnp.stack([*unknown, bridge, good.astype(r.dtype)])
        return count + 1, jnp.where((good & (rows[4] == 0))[None], new, rows)

    def go_on(loop):
        return (loop[0] < len(_STARTS)) & jnp.any(loop[1][4] == 0)

    theta = _start(*given)[0]
    fallback = jnp.stack([theta, theta, zero, zero, zero])
    rows = jnp.where((rows[4] == 0)[None], fallback, rows)
    return lax.while_loop(go_on, attempt, (jnp.zeros((), int), rows))[1]


def _ring_angles(a: Array, b: Array) -> tuple[Array, Array]:
    """Ring angle of a, and how far it is from there to b."""
    first, last = (jnp.arctan2(x[1], jnp.where(dot(x, x) > 0, x[0], 1)) for x in (a, b))
    turn = last - first
    return first, turn - 2 * jnp.pi * jnp.floor(turn / (2 * jnp.pi) + 0.5)
