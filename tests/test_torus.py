"""Strings through the hole of a torus: thick and thin tubes, oblique strings, and those that
bridge the hole. Geodesics with one piece on the tube: `test_geodesic`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _sliding_string import unexplained

import empbody as eb
from empbody.paths._torus import torus_path
from empbody.paths._torus_contact import torus_contact, torus_inside
from empbody.paths._torus_string import _course

COUNT, BRIDGES = 2000, 3


def ends(rng, kind, count):
    """Two ends on either side of the ring's plane, tube radius and ring radius."""
    ring, tube = np.full(count, 0.03), np.full(count, 0.006)
    a, b = rng.uniform(-0.08, 0.08, (2, 3, count))
    least, most = (0.0, 0.03) if kind == "oblique" else (0.012, 0.1)
    a[2], b[2] = rng.uniform(least, most, count), -rng.uniform(least, most, count)
    if kind == "thick":
        tube = ring * rng.uniform(0.1, 0.9, count)
    return tuple(jnp.asarray(x) for x in (a, b, tube, ring))


@jax.jit
def string(a, b, tube, ring):
    """Length, whether it bears on the tube, and the path."""
    on = torus_contact(a, b, tube, ring)
    path = torus_path(a, b, tube, ring, on)
    return jnp.where(on, path.length, jnp.linalg.norm(b - a, axis=0)), on, path


@functools.cache
def found(kind):
    given = ends(np.random.default_rng(7), kind, COUNT)
    outside = ~torus_inside(given[0], *given[2:]) & ~torus_inside(given[1], *given[2:])
    given = tuple(x[..., outside] for x in given)
    return given, string(*given)


KINDS = ("usual", "thick", "oblique")


@pytest.mark.parametrize("kind", KINDS)
def test_every_string_is_found(kind):
    (a, b, _, _), (length, on, path) = found(kind)
    assert np.mean(on) > 0.7
    assert np.all(path.converged)
    assert np.all(length >= jnp.linalg.norm(b - a, axis=0) - 1e-12)
    assert np.all(path.arc >= -1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_contact_is_where_the_straight_line_is_blocked(kind):
    (a, b, tube, ring), (_, on, _) = found(kind)
    t = np.linspace(0, 1, 4001)[:, None]
    a, b, tube, ring = (np.asarray(x) for x in (a, b, tube, ring))
    x = [a[k] + t * (b[k] - a[k]) for k in range(3)]
    least = np.sqrt(np.min((np.hypot(x[0], x[1]) - ring) ** 2 + x[2] ** 2, axis=0))
    crossing = a[2] / (a[2] - b[2])
    through = np.hypot(*(a[k] + crossing * (b[k] - a[k]) for k in (0, 1))) < ring
    sure = np.abs(least - tube) > 1e-6
    np.testing.assert_array_equal(on[sure], (~through | (least < tube))[sure])


@pytest.mark.parametrize("first", [-0.3, 0.0])
def test_slopes_of_the_course_also_from_the_inmost_place(first):
    """Where the string touches down, with central differences of its angle and length."""
    last, c, tube, ring = map(jnp.array, (0.7, 0.01, 0.006, 0.03))

    def string(first):
        course = _course(first, last, c, None, tube, ring)
        return course.angle, course.length

    slopes = jax.jvp(string, (jnp.array(first),), (jnp.array(1.0),))[1]
    h = 1e-5
    ahead, behind = (string(jnp.array(first + x)) for x in (h, -h))
    np.testing.assert_allclose(slopes, (np.array(ahead) - np.array(behind)) / (2 * h), rtol=1e-7)


def ring_model(tube, ring, a, b):
    body = eb.Body("body", "ground", eb.Revolute((0, 0, 1)), 1.0, (0, 0, 0), (1e-2, 1e-2, 1e-2))
    points = [eb.PathPoint("ground", tuple(map(float, x))) for x in (a, b)]
    muscle = eb.Path("string", points, [eb.Wrap("ring")])
    surface = eb.WrapTorus("ring", "ground", float(tube), float(ring))
    return eb.Model.build(("q",), [body], muscles=[muscle], surfaces=[surface])


@functools.cache
def bridges():
    """Cases among the oblique ones whose strings leave the tube in between."""
    (a, b, tube, ring), (_, on, path) = found("oblique")
    spread = np.abs(np.angle(np.exp(1j * (np.arctan2(b[1], b[0]) - np.arctan2(a[1], a[0])))))
    which = np.flatnonzero(np.asarray(on) & (np.degrees(spread) > 140) & (path.arc > 0.03))
    assert len(which) >= BRIDGES
    return [(tube[k], ring[k], a[:, k], b[:, k]) for k in which[:BRIDGES]]


@pytest.mark.parametrize("number", range(BRIDGES))
def test_drawn_strings_with_bridges_are_taut(number):
    tube, ring, a, b = bridges()[number]
    model, q = ring_model(tube, ring, a, b), jnp.zeros(1)
    line = eb.path_polylines(model, q, points_per_arc=400)["string"]
    away = np.hypot(np.hypot(line[:, 0], line[:, 1]) - ring, line[:, 2])
    assert away.min() > tube - 1e-6
    # Somewhere between the places where it bears it is far from the tube.
    assert away[1:-1].max() > tube + 5e-4
    whole = np.sum(np.linalg.norm(np.diff(line, axis=0), axis=1))
    assert abs(whole - eb.path_lengths(model, q)[0]) < 1e-6
    step = np.diff(line[1:-1], axis=0)
    step /= np.linalg.norm(step, axis=1)[:, None]
    turn = np.linalg.norm(np.diff(step, axis=0), axis=1)
    assert turn.max() < 0.05  # no kink
    assert eb.check_paths(model, q) == ()


def shot(x, v, tube, ring, length, steps=300):
    """An independent integration: the geodesic from x along v, by Runge and Kutta's method."""

    def bend(x, v):
        rho = np.hypot(x[0], x[1])
        away = (x[0] * v[0] + x[1] * v[1]) / rho
        k = 1 - ring / rho
        gradient = np.array([k * x[0], k * x[1], x[2]])
        curved = away**2 + k * (v[0] ** 2 + v[1] ** 2 - away**2) + v[2] ** 2
        return -curved / (gradient @ gradient) * gradient

    h = length / steps
    for _ in range(steps):
        k1 = bend(x, v)
        k2 = bend(x + h / 2 * v, v + h / 2 * k1)
        k3 = bend(x + h / 2 * v + h * h / 4 * k1, v + h / 2 * k2)
        k4 = bend(x + h * v + h * h / 2 * k2, v + h * k3)
        x, v = x + h * v + h * h / 6 * (k1 + k2 + k3), v + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x, v


@pytest.mark.parametrize("number", range(BRIDGES))
def test_bridges_against_an_independent_integration(number):
    """Along the tube from touch-down until the tangent touches the tube once more, straight on
    to there, and along the tube again for the rest of the length: that must end where the
    string lifts off, heading for the other end."""
    tube, ring, a, b = bridges()[number]
    _, _, path = string(*(jnp.asarray(x)[..., None] for x in (a, b, tube, ring)))
    a, b, p, q = (np.asarray(x).reshape(3) for x in (a, b, path.p, path.q))
    tube, ring, arc = float(tube), float(ring), float(path.arc[0])
    unit = lambda x: x / np.linalg.norm(x)  # noqa: E731

    def touches_again(s):
        x, v = shot(p, unit(p - a), tube, ring, s)
        return x @ x + ring**2 - tube**2 - 2 * ring**2 * (v[0] ** 2 + v[1] ** 2), x, v

    places = np.linspace(0.0, arc, 41)
    values = [touches_again(s)[0] for s in places]
    misses = []
    for k in np.flatnonzero(np.sign(values[1:]) != np.sign(values[:-1])):
        low, high = places[k], places[k + 1]
        for _ in range(45):
            middle = 0.5 * (low + high)
            same = np.sign(touches_again(middle)[0]) == np.sign(values[k])
            low, high = (middle, high) if same else (low, middle)
        _, x, v = touches_again(low)
        over = -2 * x @ v
        if 0 < over < arc - low:
            x, v = shot(x + over * v, v, tube, ring, arc - low - over)
            misses.append(max(np.abs(x - q).max(), 0.01 * np.abs(v - unit(b - q)).max()))
    assert min(misses) < 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_do_not_jump(kind):
    rng = np.random.default_rng(3)
    count, steps = 60, 801
    a, b, tube, ring = ends(rng, kind, count)
    a2, b2, _, _ = ends(rng, kind, count)
    s = jnp.linspace(0.0, 1.0, steps)

    def at(s):
        def whole(s):
            return string(a + s * (a2 - a), b + s * (b2 - b), tube, ring)

        (length, on, path), (slope, _, _) = jax.jvp(whole, (s,), (jnp.ones(()),))
        ends = (a + s * (a2 - a), b + s * (b2 - b))
        inside = torus_inside(ends[0], tube, ring) | torus_inside(ends[1], tube, ring)
        return length, slope, on, path.converged, inside

    length, slope, on, converged, inside = (np.asarray(x).T for x in jax.jit(jax.vmap(at))(s))
    # An end inside the tube is not on any string; see the docs.
    inside = inside[:, 1:] | inside[:, :-1]
    jump = np.where(inside, 0.0, unexplained(length, -slope))
    assert np.max(jump) < 2e-8
    assert np.all(converged[:, :-1] | ~on[:, :-1] | inside)
    assert np.mean(on) > 0.5


def test_slopes_of_strings_with_bridges():
    """Of the length and of the point of touch-down, to the ends and both radii, against central
    differences."""
    tube, ring, a, b = bridges()[0]
    x = jnp.concatenate([a, b, tube[None], ring[None]])

    def path(x):
        return string(x[:3, None], x[3:6, None], x[6:7], x[7:8])

    def length_and_touch_down(x):
        length, _, found = path(x)
        return jnp.concatenate([length, found.p[:, 0]])

    h = 1e-6
    both = x[None] + h * jnp.concatenate([jnp.eye(8), -jnp.eye(8)])
    values = jax.vmap(length_and_touch_down)(both)
    slopes = (values[:8] - values[8:]).T / (2 * h)
    found = jax.jacfwd(length_and_touch_down)(x)
    np.testing.assert_allclose(found[0], slopes[0], rtol=0, atol=2e-8)
    np.testing.assert_allclose(found[1:], slopes[1:], rtol=0, atol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: path(x)[0][0])(x), found[0], rtol=0, atol=1e-12)
