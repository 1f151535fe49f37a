"""Taut strings over an ellipsoid and a torus, against an independent integration."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from empbody.paths._circle import wound
from empbody.paths._ellipsoid import ellipsoid_path
from empbody.paths._shooting import aim, chain_start, corrected, frame_of, rotate, shoot
from empbody.paths._torus import torus_path
from empbody.paths._torus_contact import torus_contact, torus_inside

BODIES = (
    (0.1, 0.135, 0.08),
    (0.03, 0.1, 0.05),
    (0.01, 0.01, 0.05),
    (0.03, 0.03, 0.05),
    (0.02, 0.025, 0.02),
    (0.02, 0.017, 0.028),
    (0.02, 0.02, 0.02),
)

ellipsoid = jax.jit(ellipsoid_path, static_argnames="steps")
torus = jax.jit(torus_path)


def ellipsoid_contact(a, b, axes):
    """As paths decide it: in coordinates in which the ellipsoid is the unit sphere."""
    return wound(a / axes, b / axes, jnp.ones_like(a[0]), jnp.zeros_like(a)).on


def every(a):
    return jnp.ones(a.shape[1:], dtype=bool)


def half_way(a, b):
    return 0.5 * (a + b)


@functools.cache
def ellipsoid_cases(count=64, ratio=None, seed=0):
    """Strings that touch a body: the real ones, or random ones up to an aspect ratio."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        if ratio is None:
            axes = np.array(BODIES[rng.integers(len(BODIES))])
        else:
            axes = 0.14 / np.exp(rng.uniform(0, np.log(2.8)))
            axes = axes * np.exp(-rng.uniform(0, np.log(ratio), 3))
        ends = []
        for _ in range(2):
            y = rng.normal(size=3)
            x = y / np.linalg.norm(y) * axes
            off = rng.normal(size=3)
            ends.append(x + rng.choice([0, 1], p=[0.1, 0.9]) * 0.5 * rng.uniform() ** 2 * off / 2)
        ya, yb = (x / axes for x in ends)
        d = yb - ya
        t = -ya @ d / (d @ d)
        angle = np.arccos(ya @ yb / np.sqrt(ya @ ya * (yb @ yb)))
        nearest = ya + t * d
        outside = ya @ ya >= 1 and yb @ yb >= 1
        if outside and 0 < t < 1 and nearest @ nearest < 1 and angle < np.radians(175):
            found.append((*ends, axes))
    return tuple(jnp.asarray(np.array(x).T) for x in zip(*found, strict=True))


def follow(gradient, hessian, p, v, arc):
    """Ends of geodesics on F(x) = 0 from p along v, and their directions, by DOP853."""

    def rate(_, state):
        x, v = state.reshape(2, *p.shape)
        g = gradient(x)
        force = np.sum(v * hessian(x, v), axis=0) / np.sum(g * g, axis=0)
        return (np.stack([v, -force * g]) * arc).ravel()

    start = np.stack([p, v]).ravel()
    solution = solve_ivp(rate, (0, 1), start, method="DOP853", rtol=1e-13, atol=1e-13)
    assert solution.success
    end = solution.y[:, -1]
    return end.reshape(2, *p.shape)


def unit(x):
    return x / np.sqrt(np.sum(x * x, axis=0))


def check_string(path, a, b, gradient, hessian, tolerance):
    """Tangent at both ends, a geodesic between them, of the length stated."""
    a, b, p, q = (np.asarray(x) for x in (a, b, path.p, path.q))
    assert np.all(path.converged)
    before, after = p - a, b - q
    first, last = np.sqrt(np.sum(before**2, 0)), np.sqrt(np.sum(after**2, 0))
    np.testing.assert_allclose(path.length, first + path.arc + last, atol=1e-15)
    for x, line in ((p, before), (q, after)):
        assert np.max(np.abs(np.sum(unit(gradient(x)) * line, axis=0))) < tolerance
    far = (first > 1e-3) & (last > 1e-3)  # else the line gives no direction
    assert np.sum(far) > 30
    v = unit(np.where(far, before, 1.0))
    end, direction = follow(gradient, hessian, p, v, np.where(far, path.arc, 0))
    miss = np.sqrt(np.sum((end - q) ** 2, 0))[far]
    turn = np.sqrt(np.sum((direction - unit(np.where(far, after, 1.0))) ** 2, 0))[far]
    size = np.max(np.abs(p))
    assert np.max(miss) < tolerance
    assert np.max(turn) * size < 20 * tolerance


@pytest.mark.parametrize(
    ("ratio", "steps", "tolerance"), [(None, 8, 1e-9), (3.0, 8, 1e-8), (5.0, 12, 1e-8)]
)
def test_ellipsoid_geodesic(ratio, steps, tolerance):
    a, b, axes = ellipsoid_cases(128, ratio)
    path = ellipsoid(a, b, axes, half_way(a, b), every(a), steps=steps)
    s = np.asarray(axes)
    np.testing.assert_allclose(np.sum((path.p / s) ** 2, 0), 1, rtol=1e-13)
    check_string(path, a, b, lambda x: x / s**2, lambda x, v: v / s**2, tolerance)


def test_length_of_a_shot_that_misses():
    """Right to third order, which is why a shot need not be quite on target."""
    a, b, axes = ellipsoid_cases(128)
    f = frame_of(a, b, axes, half_way(a, b))

    @jax.jit
    def shot(c, d, tau):
        return shoot(f, aim(f, c, d), tau, 8)

    c, d, tau = chain_start(f)
    for _ in range(12):
        c, d, tau = corrected(shot(c, d, tau), c, d, tau)
    length = shot(c, d, tau).length

    def error(miss):
        return np.abs(shot(*rotate(c, d, jnp.asarray(miss)), tau * (1 + miss)).length - length)

    large, small = (np.quantile(error(miss), 0.9) for miss in (1e-2, 1e-3))
    assert large > 1e-9
    assert small < 2e-3 * large


def test_no_step_where_the_integration_takes_one_step_more():
    axes = np.array([0.05, 0.08, 0.06])
    angle = np.linspace(2.2, 3.0, 4001)
    a = np.broadcast_to([[0.12], [0.0], [0.03]], (3, angle.size))
    b = 0.15 * np.stack([np.cos(angle), np.sin(angle), 0 * angle]) + [[0], [0], [0.02]]
    # One by one, as machine code does: all together would share their number of steps.
    one = jax.jit(lambda x: jax.lax.map(lambda ab: _single(*ab, jnp.asarray(axes)), x))
    length = np.asarray(one((jnp.asarray(a.T), jnp.asarray(b.T))))
    # Fifth differences of what is smooth show steps, ten times as large; a shot more or less
    # makes one of 5e-14.
    assert np.abs(np.diff(length, 5)).max() < 3e-12


def _single(a, b, axes):
    a, b, axes = a[:, None], b[:, None], axes[:, None]
    return ellipsoid_path(a, b, axes, half_way(a, b), every(a)).length[0]


def test_sphere_is_closed_form():
    a, b, axes = ellipsoid_cases(128)
    axes = jnp.broadcast_to(axes.min(axis=0), axes.shape)
    on = ellipsoid_contact(a, b, axes)
    path = ellipsoid(a, b, axes, half_way(a, b), on)
    r, da, db = axes[0], jnp.linalg.norm(a, axis=0), jnp.linalg.norm(b, axis=0)
    total = jnp.arccos(jnp.sum(a * b, axis=0) / (da * db))
    free = jnp.sqrt(da**2 - r**2), jnp.sqrt(db**2 - r**2)
    arc = r * (total - jnp.arctan2(free[0], r) - jnp.arctan2(free[1], r))
    assert np.sum(on) > 20
    np.testing.assert_allclose(path.arc, jnp.where(on, arc, 0), atol=1e-10)


@pytest.mark.slow
def test_shorter_than_the_plane_section():
    """Never longer than the string in the plane of the ends and the centre."""
    a, b, axes = (np.asarray(x) for x in ellipsoid_cases(128, 5.0))
    path = ellipsoid(a, b, axes, half_way(a, b), every(a), steps=12)
    ya, yb = a / axes, b / axes
    e1 = unit(ya)
    e3 = unit(np.cross(ya, yb, axis=0))
    e2 = np.cross(e3, e1, axis=0)
    ha, hb = (np.sqrt(np.maximum(np.sum(y * y, 0) - 1, 0)) for y in (ya, yb))
    first = np.arctan(ha)
    last = np.arctan2(np.sum(yb * e2, 0), np.sum(yb * e1, 0)) - np.arctan(hb)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    at = first + (last - first) * (nodes[:, None, None] + 1) / 2
    speed = np.sqrt(np.sum((axes * (np.cos(at) * e2 - np.sin(at) * e1)) ** 2, axis=1))
    plane = (weights @ speed) * (last - first) / 2
    for angle, end in ((first, a), (last, b)):
        x = axes * (np.cos(angle) * e1 + np.sin(angle) * e2)
        plane = plane + np.sqrt(np.sum((x - end) ** 2, axis=0))
    saved = plane - np.asarray(path.length)
    assert np.min(saved) > -1e-9
    assert np.max(saved) > 1e-3


def derivative_error(function, x, modes=(jax.jacfwd, jax.jacrev), step=1e-6):
    """Derivatives in the given modes against central differences, relative to the largest."""
    flat, build = jax.flatten_util.ravel_pytree(x)
    wrapped = lambda z: function(*build(z))  # noqa: E731

    @jax.jit
    def both(z, shifts):
        return [mode(wrapped)(z) for mode in modes], jax.lax.map(wrapped, z[None] + shifts)

    eye = step * jnp.eye(flat.size)
    found, moved = both(flat, jnp.concatenate([eye, -eye]))
    plus, minus = moved[: flat.size], moved[flat.size :]
    central = jnp.moveaxis((plus - minus) / (2 * step), 0, -1)
    largest = float(jnp.max(jnp.abs(central)))
    return max(float(jnp.max(jnp.abs(d - central))) for d in found) / largest


ELLIPSOID_POINT = (
    jnp.array([0.06, 0.05, -0.02]),
    jnp.array([-0.07, 0.03, 0.03]),
    jnp.array([0.03, 0.06, 0.04]),
)
TORUS_POINT = (
    jnp.array([0.06, 0.01, -0.07]),
    jnp.array([0.05, 0.04, 0.08]),
    jnp.array(0.01),
    jnp.array(0.04),
)


def one_ellipsoid(a, b, axes):
    return ellipsoid_path(a, b, axes, half_way(a, b), jnp.array(True), steps=6)


def one_torus(a, b, r, ring):
    return torus_path(a, b, r, ring, jnp.array(True))


PATHS = pytest.mark.parametrize(
    ("path", "x"), [(one_ellipsoid, ELLIPSOID_POINT), (one_torus, TORUS_POINT)]
)


def outputs_of(path):
    def outputs(*x):
        g = path(*x)
        return jnp.concatenate([g.p, g.q, g.arc[None], g.length[None]])

    return outputs


@PATHS
@pytest.mark.slow
def test_derivatives(path, x):
    """Of points, arc and length to all inputs; the length's are unit vectors."""
    assert derivative_error(outputs_of(path), x, modes=(jax.jacfwd,)) < 1e-6

    @jax.jit
    def ends(*x):
        return path(*x), jax.grad(lambda *x: path(*x).length, argnums=(0, 1))(*x)

    found, gradient = ends(*x)
    np.testing.assert_allclose(gradient[0], unit(x[0] - found.p), atol=1e-7)
    np.testing.assert_allclose(gradient[1], unit(x[1] - found.q), atol=1e-7)


@pytest.mark.slow
@PATHS
def test_reverse_and_second_derivatives(path, x):
    def slopes(*x):
        gradient = jax.grad(lambda *x: path(*x).length, argnums=tuple(range(len(x))))(*x)
        return jax.flatten_util.ravel_pytree(gradient)[0]

    assert derivative_error(outputs_of(path), x, modes=(jax.jacrev,)) < 1e-6
    assert derivative_error(slopes, x, modes=(jax.jacfwd,)) < 5e-6


def grazing(path, place, contact):
    """Lengths and slopes of strings that are lowered onto a surface, on or off it."""

    def length(height):
        a, b, *size = place(height)
        on = contact(a, b, *size)
        side = (half_way(a, b),) if path is ellipsoid_path else ()
        chord = jnp.sqrt(jnp.sum((b - a) ** 2))
        return jnp.where(on, path(a, b, *size, *side, on).length, chord), on

    def value_and_slope(height):
        value, slope, on = jax.jvp(length, (height,), (jnp.ones_like(height),), has_aux=True)
        return (value, on), slope

    return jax.jit(jax.vmap(value_and_slope))


def over_the_ellipsoid(height):
    up = jnp.array([0.0, 0.0, 1.0])
    a, b = jnp.array([0.09, 0.02, 0.0]), jnp.array([-0.05, -0.03, 0.01])
    return a + height * up, b + height * up, jnp.array([0.05, 0.03, 0.04])


def through_the_torus(height):
    out = jnp.array([1.0, 0.0, 0.0])
    a, b = jnp.array([0.0, 0.01, -0.07]), jnp.array([0.01, -0.02, 0.05])
    return a + height * out, b + height * out, jnp.array(0.01), jnp.array(0.04)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "place", "contact", "low", "high"),
    [
        (ellipsoid_path, over_the_ellipsoid, ellipsoid_contact, 0.02, 0.06),
        (torus_path, through_the_torus, torus_contact, 0.0, 0.06),
    ],
)
def test_lift_off(path, place, contact, low, high):
    """Length and slope are continuous where contact begins, and the arc grows from nothing."""
    lengths = grazing(path, place, contact)
    for _ in range(3):  # close in on lift-off
        heights = jnp.linspace(low, high, 401)
        (length, on), slope = lengths(heights)
        change = np.flatnonzero(np.diff(np.asarray(on)))
        assert change.size == 1
        step = float(heights[1] - heights[0])
        bend = np.abs(np.diff(slope)) / step
        assert np.all(np.isfinite(slope))
        assert np.max(bend) < 3 * np.median(bend[np.asarray(on)[1:]]) + 60  # no jump: 1/m
        middle = 0.5 * (slope[1:] + slope[:-1])
        np.testing.assert_allclose(np.diff(length), middle * step, atol=100 * step**2)
        low, high = heights[change[0] - 10], heights[change[0] + 11]


@pytest.mark.slow
def test_hard_ellipsoid_cases():
    """Ends on the surface, on each other, in line with the centre, inside; and garbage."""
    s = jnp.array([0.03, 0.05, 0.02])
    far = jnp.array([0.1, 0.0, 0.0])
    surface = s * jnp.array([-0.6, 0.8, 0.0])
    top = s * jnp.array([0.0, 0.0, 1.0])
    nan = jnp.full(3, jnp.nan)
    up = jnp.array([0.0, 0.1, 1.0])
    zero = jnp.zeros(3)
    cases = [  # a, b, side, on, whether it must converge
        (far, surface, up, True, True),
        (surface, top, up, True, True),
        (far, -far, up, True, True),
        (far, -2 * far, zero, True, False),
        (surface, surface, up, True, False),
        (far, far, up, True, False),
        (far, 0.5 * surface, up, True, False),
        (zero + 1e-3, far, up, True, False),
        (nan, nan, nan, False, True),
        (far, far, zero, False, True),
        (zero, zero, zero, False, True),
        (far, top, -up, True, False),
    ]
    a, b, side, on, must = (jnp.stack([jnp.asarray(c[i]) for c in cases], -1) for i in range(5))
    axes = jnp.where(jnp.isnan(a), jnp.nan, s[:, None])

    def paths(a, b, axes):
        return ellipsoid_path(a, b, axes, side, on, steps=6)

    @jax.jit
    def everything(a, b, axes):
        moves = (jnp.ones_like(a), -jnp.ones_like(b), jnp.ones_like(axes))
        path, rates = jax.jvp(lambda *x: paths(*x)[:4], (a, b, axes), moves)
        slopes = jax.grad(lambda *x: jnp.sum(paths(*x).length), argnums=(0, 1, 2))(a, b, axes)
        return path, rates, paths(a, b, axes).converged, slopes

    path, rates, converged, slopes = everything(a, b, axes)
    assert np.all(np.asarray(converged)[np.asarray(must)])
    assert np.all((path[2] >= 0) | ~converged)
    for x in (*path, *rates, *slopes):
        assert np.all(np.isfinite(x))
    for x in slopes:
        assert np.all(np.asarray(x)[:, ~np.asarray(on)] == 0)


@pytest.mark.slow
def test_batches_agree():
    """Shapes; more members than one block and not a multiple of it; some without contact."""
    a, b, axes = ellipsoid_cases(128)
    whole = ellipsoid(a, b, axes, half_way(a, b), every(a), steps=8)
    a, b, axes = (jnp.tile(x, (1, 5))[:, :602].reshape(3, 2, 301) for x in (a, b, axes))
    on = jnp.arange(602).reshape(2, 301) % 3 > 0
    many = ellipsoid(a, b, axes, half_way(a, b), on, steps=8)
    assert np.all(many.converged)
    for one, other in zip(whole[:4], many[:4], strict=True):
        one = jnp.tile(one, 5)[..., :602]
        one = jnp.where(jnp.broadcast_to(on.ravel(), one.shape), one, 0)
        # A block chooses its number of steps together: as exact as a geodesic is, not more.
        np.testing.assert_allclose(other.reshape(one.shape), one, rtol=0, atol=5e-9)


def test_ellipsoid_contact():
    a, b, axes = ellipsoid_cases(64)
    assert np.all(ellipsoid_contact(a, b, axes))
    assert not np.any(ellipsoid_contact(a, a + 2 * (a - b), axes))
    # An end inside is no matter of contact.
    assert not np.any(ellipsoid_contact(a, 0.99 * axes * unit(np.asarray(a)), axes))


@functools.cache
def torus_cases(count=96, seed=0):
    rng = np.random.default_rng(seed)
    n = 4 * count
    ring = rng.uniform(0.02, 0.1, n)
    r = ring * rng.uniform(0.1, 0.6, n)
    theta = rng.uniform(0, 2 * np.pi, n) + np.array([[0.0], [0.6]]) * rng.uniform(-1, 1, n)
    rho, z = ring * rng.uniform(0.2, 2.5, (2, n)), ring * rng.uniform(0.5, 4, (2, n))
    ends = np.stack([rho * np.cos(theta), rho * np.sin(theta), z * [[-1], [1]]])
    a, b, r, ring = (jnp.asarray(x) for x in (ends[:, 0], ends[:, 1], r, ring))
    good = torus_contact(a, b, r, ring) & ~torus_inside(a, r, ring) & ~torus_inside(b, r, ring)
    keep = np.flatnonzero(good)[:count]
    return a[:, keep], b[:, keep], r[keep], ring[keep]


@pytest.mark.parametrize("turned", [False, True])
def test_torus_geodesic(turned):
    a, b, r, ring = torus_cases()
    a, b = (b, a) if turned else (a, b)
    path = torus(a, b, r, ring, every(a))
    big = np.asarray(ring)

    def gradient(x):  # of (ρ - R)² / 2 + z² / 2
        rho = np.sqrt(x[0] ** 2 + x[1] ** 2)
        k = 1 - big / rho
        return np.stack([k * x[0], k * x[1], x[2]])

    def hessian(x, v):
        rho = np.sqrt(x[0] ** 2 + x[1] ** 2)
        k, out = 1 - big / rho, (x[0] * v[0] + x[1] * v[1]) * big / rho**3
        return np.stack([k * v[0] + out * x[0], k * v[1] + out * x[1], v[2]])

    check_string(path, a, b, gradient, hessian, 1e-8)


def test_torus_without_contact():
    a = jnp.array([[0.0, 0.1, jnp.nan, 0.0], [0.0, 0.0, jnp.nan, 0.0], [-0.1, 0.1, jnp.nan, 0.0]])
    b = jnp.array([[0.001, 0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.1, 0.2, 0.0, 0.0]])
    r, ring = jnp.full(4, 0.01), jnp.full(4, 0.05)
    on = torus_contact(a, b, r, ring)
    assert not np.any(on)

    def length(a, b, r, ring):
        return jnp.sum(torus_path(a, b, r, ring, on).length)

    value, slopes = jax.jit(jax.value_and_grad(length, argnums=(0, 1, 2, 3)))(a, b, r, ring)
    assert value == 0
    for x in slopes:
        assert np.all(np.asarray(x) == 0)
    # Round the outside of the ring there is no way but through the hole.
    assert torus_contact(jnp.array([0.2, 0, -0.1]), jnp.array([0.2, 0, 0.1]), r[0], ring[0])


def seen_from(x, axes):
    """Where the ellipsoid is on the way from its centre to x."""
    return x / jnp.linalg.norm(x / axes, axis=0)[None]


def test_beside_a_ridge_the_shorter_of_two_strings_is_found():
    """Over a ridge the string is a saddle, and it may slip to either side: the shorter of the
    two is found whatever rounding would do; and a hint beside the plane keeps its side."""
    rng = np.random.default_rng(4)
    n = 600
    axes = jnp.asarray(rng.uniform(0.015, 0.04, (3, n)))
    ends = rng.normal(size=(2, 3, n)) * 0.008
    ends[0, 1] += 0.13
    ends[1, 1] -= 0.13
    a, b = jnp.asarray(ends)
    on = ellipsoid_contact(a, b, axes)
    plane = seen_from(a, axes) + seen_from(b, axes)
    normal = jnp.cross(a / axes, b / axes, axis=0)
    across = seen_from(normal * axes, axes)
    size = jnp.linalg.norm(plane / axes, axis=0)
    told = [ellipsoid(a, b, axes, plane + (k * size)[None] * across, on) for k in (1.0, -1.0)]
    free = ellipsoid(a, b, axes, plane, on)
    ok = on & free.converged & told[0].converged & told[1].converged
    two = ok & (jnp.abs(told[0].length - told[1].length) > 1e-6)
    assert int(jnp.sum(two)) > 30
    best = jnp.minimum(told[0].length, told[1].length)
    # Of some only one side is known to the hints; none is longer than either.
    assert float(jnp.max(jnp.where(ok, free.length - best, 0.0))) < 1e-9
    assert float(jnp.mean(free.converged[on])) > 0.98


def test_torus_with_an_end_on_its_axis():
    """Every meridian plane holds that end: the string lies in the one of the other end, and so
    is the tangent to a circle."""
    r, ring, low = 0.006, 0.03, 0.1
    x, z = 0.05, 0.02
    a, b = jnp.array([[x], [0.0], [z]]), jnp.array([[0.0], [0.0], [-low]])
    radii = jnp.full(1, r), jnp.full(1, ring)
    on = torus_contact(a, b, *radii)
    assert np.all(on)

    def length(a, b):
        return torus_path(a, b, *radii, on).length[0]

    def seen(x, z, sign):
        """Free length, and angle round the tube of the tangent point."""
        free = np.sqrt((ring - x) ** 2 + z**2 - r**2)
        return free, np.arctan2(z, ring - x) - sign * np.arctan2(free, r)

    (one, above), (two, below) = seen(x, z, 1.0), seen(0.0, -low, -1.0)
    found, slopes = jax.value_and_grad(length, argnums=(0, 1))(a, b)
    np.testing.assert_allclose(found, one + two + r * (above - below), rtol=0, atol=1e-12)
    for slope in slopes:
        np.testing.assert_allclose(np.linalg.norm(slope), 1.0, rtol=0, atol=1e-9)
    moved = [length(a, b.at[0, 0].set(s)) for s in (-1e-6, 1e-6)]
    np.testing.assert_allclose(slopes[1][0, 0], (moved[1] - moved[0]) / 2e-6, rtol=0, atol=1e-7)
