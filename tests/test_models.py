"""The ready-made mechanisms against the tables, and every way of making their rhythms."""

import functools
import math
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import mechanism_tables as tables
import numpy as np
import pytest

import empbody as eb
from empbody import models
from empbody.simulation import simulate

HERE = pathlib.Path(__file__).parent / "reference"


def read(name):
    return np.genfromtxt(HERE / name, delimiter=",", names=True)


@eqx.filter_jit
def joints(model, q):
    def one(x):
        return (
            eb.joint_variables(model, x),
            eb.joint_jacobian(model, x),
            eb.joint_hessians(model, x),
        )

    return jax.vmap(one)(q)


def errors(model, table, mirrored=False):
    """Worst errors of value, gradient and Hessian, relative to max(1, largest entry)."""
    q, *expected = table
    if mirrored:
        q, expected = -q, [-expected[0], expected[1], -expected[2]]
    found = joints(model, jnp.asarray(q))
    worst = []
    for x, y in zip(found, expected, strict=True):
        part = np.asarray(x)[:, -y.shape[1] :]  # the joints that are coordinates come first
        scale = np.maximum(1.0, np.max(np.abs(y), axis=0, keepdims=True))
        worst.append(np.max(np.abs(part - y) / scale))
    return worst


# --- manifolds by every route -----------------------------------------------------------

EXACT = (1e-11, 1e-11, 1e-11)
LIMITS = {
    # The worst is next to the fold, where no spline of step 0.01 is good: f'' enters the
    # equations of motion.
    "four_bar": {
        "implicit": EXACT,
        "projection": EXACT,
        "molecule": (1e-11, 2e-6, 1e-5),
        "cubic": (1e-11, 5e-2, 1.1),
        "cubic-not-a-knot": (1e-11, 2e-3, 1e-1),
        "quintic": (1e-11, 2e-4, 2e-2),
    },
    "five_bar": {
        "implicit": EXACT,
        "projection": EXACT,
        "molecule": (1e-11, 1e-9, 1e-8),
        "cubic": (1e-4, 5e-2, 1.0),
        "quintic": (1e-7, 5e-5, 2e-3),
        "fourier": (1e-3, 1e-2, 2e-1),
    },
    "squeezer": {
        "implicit": EXACT,
        "projection": EXACT,
        "molecule": (1e-11, 1e-10, 2e-9),
        "cubic": (1e-10, 1e-7, 1e-4),
        "cubic-not-a-knot": (1e-10, 1e-7, 1e-4),
        "quintic": (1e-11, 1e-11, 1e-9),
        "fourier": (1e-8, 1e-7, 1e-6),
    },
}
# One of each route is enough for every run; the others take as long to compile.
QUICK = {
    ("four_bar", "implicit"),
    ("four_bar", "cubic"),
    ("five_bar", "implicit"),
    ("five_bar", "molecule"),
    ("squeezer", "implicit"),
    ("squeezer", "projection"),
    ("squeezer", "quintic"),
    ("squeezer", "fourier"),
}
CASES = [
    pytest.param(m, r, marks=[pytest.mark.slow] if (m, r) not in QUICK else [])
    for m, limits in LIMITS.items()
    for r in limits
]


@functools.cache
def built(mechanism, route):
    return getattr(models, mechanism)(rhythm=route)


@pytest.fixture(scope="module")
def squeezer():
    return built("squeezer", "implicit")


@pytest.fixture(scope="module")
def four_bar():
    return built("four_bar", "implicit")


@pytest.mark.parametrize(("mechanism", "route"), CASES)
def test_routes_meet_the_tables(mechanism, route):
    found = errors(built(mechanism, route), tables.load(mechanism))
    assert all(e <= limit for e, limit in zip(found, LIMITS[mechanism][route], strict=True)), found


def test_other_modes_are_mirror_images():
    assert max(errors(models.four_bar("B"), tables.load("four_bar"), mirrored=True)) <= 1e-11
    assert max(errors(models.five_bar("pos"), tables.load("five_bar"), mirrored=True)) <= 1e-11


# --- four-bar ---------------------------------------------------------------------------


def test_four_bar_point_along_the_trajectory(four_bar):
    """Point p while q follows a prescribed curve (Ehsani 2016, Figs. 4 and 6)."""
    table = read("fourbar_traj_A.csv")

    @jax.jit
    @jax.vmap
    def point(q, qd, qdd):
        p = ("p", (0.0, 0.0, 0.0))
        return (
            eb.point_position(four_bar, q, *p),
            eb.point_velocity(four_bar, q, qd, *p),
            eb.point_acceleration(four_bar, q, qd, qdd, *p),
        )

    found = point(*(jnp.asarray(table[name])[:, None] for name in ("q", "qd", "qdd")))
    for values, names in zip(found, (("px", "py"), ("vx", "vy"), ("ax", "ay")), strict=True):
        expected = np.stack([table[name] for name in names], axis=1)
        size = np.max(np.abs(expected))
        np.testing.assert_allclose(values[:, :2], expected, rtol=0, atol=1e-12 * size)
        np.testing.assert_allclose(values[:, 2], 0.0, atol=1e-14)


def test_four_bar_closes_on_the_ground(four_bar):
    q = jnp.asarray([0.7])
    end = eb.point_position(four_bar, q, "bar3", (math.sqrt(5.0), 0.0, 0.0))
    np.testing.assert_allclose(end, [5.0, 0.0, 0.0], atol=1e-14)
    centre = eb.point_position(four_bar, q, "bar2", four_bar.com[1])
    np.testing.assert_allclose(centre[1], 0.7, atol=1e-14)


def test_four_bar_of_other_lengths():
    lengths = {"l0": 6.0, "l1": 2.5, "l2": 5.0, "l3": 3.0, "lcm2": 2.2}
    model = models.four_bar(q_range=(-1.0, 1.0), **lengths)
    q = jnp.asarray([-0.4])
    end = eb.point_position(model, q, "bar3", (3.0, 0.0, 0.0))
    np.testing.assert_allclose(end, [6.0, 0.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(eb.point_position(model, q, "bar2", (2.2, 0.0, 0.0))[1], -0.4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: models.four_bar(l0=50.0), r"does not assemble: l0 = 50 .* \(8\.236"),
        (lambda: models.four_bar(l1=-2.0), "l1 = -2 is not a positive length"),
        (lambda: models.four_bar(q_range=(4.0, 5.0)), "does not assemble on branch A"),
        (lambda: models.four_bar(q_range=(-2.0, 2.2)), "fold"),
        (lambda: models.four_bar("C"), "branch 'C'"),
        (lambda: models.four_bar(rhythm="fourier"), "turns in full"),
        (lambda: models.four_bar(rhythm="magic"), "rhythm 'magic' is not known: one of implicit"),
        (lambda: models.five_bar("up"), "mode 'up'"),
        (lambda: models.five_bar(l3=1.0), "does not assemble for every"),
        (lambda: models.five_bar(l4=0.0), "l4 = 0"),
        (lambda: models.pendulum_chain(0), "0 links"),
        (lambda: models.pendulum_chain(2, axes="round"), "axes = 'round'"),
    ],
)
def test_bad_input_is_one_clear_sentence(build, message):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_any_rhythm_is_taken():
    rhythm = eb.rhythms.Affine(np.ones((7, 1)))
    model = models.squeezer(rhythm)
    assert eqx.tree_equal(model.rhythm, rhythm)
    with pytest.raises(ValueError, match="6 rhythm outputs for 7"):
        models.squeezer(eb.rhythms.Affine(np.ones((6, 1))))


# --- five-bar ---------------------------------------------------------------------------


def test_five_bar_closes_on_the_ground():
    model = built("five_bar", "implicit")
    q = jnp.asarray([2.0, 7.0])  # beyond one turn
    end = eb.point_position(model, q, "bar4", (3.0, 0.0, 0.0))
    np.testing.assert_allclose(end, [3.0, 0.0, 0.0], atol=1e-13)
    np.testing.assert_allclose(eb.joint_variables(model, q)[:2], q)


# --- squeezer ---------------------------------------------------------------------------


def test_squeezer_dynamics_meet_the_table(squeezer):
    table = read("squeezer_manifold.csv")

    @jax.jit
    @jax.vmap
    def terms(q):
        one = jnp.ones_like(q)
        return (
            eb.mass_matrix(squeezer, q)[0, 0],
            2 * eb.bias(squeezer, q, one)[0],  # N q̇ = ½ M' q̇² for one coordinate
            eb.potential_energy(squeezer, q),
            models.SqueezerData().mom - eb.applied_forces(squeezer, q, 0 * one)[0],
        )

    found = terms(jnp.asarray(table["q"])[:, None])
    for values, name in zip(found, ("M", "dM_dq", "V", "dV_dq"), strict=True):
        size = np.max(np.abs(table[name]))
        np.testing.assert_allclose(values, table[name], rtol=0, atol=1e-11 * size)


def test_squeezer_centres_of_mass(squeezer):
    """Against the positions written in absolute body angles, as the test set has them."""
    p = models.SqueezerData()
    table = read("squeezer_manifold.csv")
    row = table[7]
    th = {i: row[f"theta{i}"] for i in range(1, 8)}
    half = np.pi / 2
    k1, k7, k5, k3 = th[1], th[2] + half, th[3], th[4] + half
    k4, k6 = th[3] + th[5] + half, th[2] + th[6]
    k2 = k6 + th[7]
    a, b = np.array([p.xa, p.ya]), np.array([p.xb, p.yb])

    def e(angle):
        return np.array([np.cos(angle), np.sin(angle)])

    expected = {
        "K1": p.ra * e(k1),
        "K2": p.rr * e(k1) - p.da * e(k2),
        "K3": b + p.sa * e(k3 - half) + p.sb * e(k3),
        "K4": a + p.zt * e(k5) + (p.e - p.ea) * e(k4 - half),
        "K5": a + p.ta * e(k5) + p.tb * e(k5 + half),
        "K6": a + p.u * e(k7 - half) + (p.zf - p.fa) * e(k6),
        "K7": a + p.ua * e(k7 - half) - p.ub * e(k7),
    }
    poses = eb.body_transforms(squeezer, jnp.asarray([row["q"]]))
    for body, place in expected.items():
        i = squeezer.body_index(body)
        found = poses[i, :3, :3] @ squeezer.com[i] + poses[i, :3, 3]
        np.testing.assert_allclose(found[:2], place, atol=1e-15)


def test_squeezer_start(squeezer):
    start = jnp.asarray([models.Q0_TEST_SET])
    found = eb.forward_dynamics(squeezer, start, jnp.zeros(1))
    np.testing.assert_allclose(found, [14222.4439199541138705911625887], rtol=1e-13)


@pytest.mark.parametrize("route", ["implicit", "fourier"])
def test_squeezer_trajectory(route):
    table = read("squeezer_testset.csv")
    found = simulate(
        built("squeezer", route),
        [models.Q0_TEST_SET],
        [0.0],
        table["t"],
        solver="dopri8",
        rtol=1e-10,
        atol=1e-10,
    )
    rms = np.sqrt(np.mean((found.q[:, 0] - table["q"]) ** 2))
    assert rms <= 1e-8


# --- pendulum chain ---------------------------------------------------------------------


def test_single_pendulum():
    length, mass = 0.7, 2.0
    model = models.pendulum_chain(1, length, mass)
    q = jnp.asarray([0.4])
    inertia = mass * length**2 / 3 + mass * 3 * (0.05 * length) ** 2 / 12
    expected = -mass * 9.80665 * 0.5 * length * np.sin(0.4) / inertia
    np.testing.assert_allclose(eb.forward_dynamics(model, q, jnp.zeros(1)), [expected])


@pytest.mark.parametrize("axes", ["planar", "alternating", "random"])
def test_chain_has_regular_mass_matrix(axes):
    model = models.pendulum_chain(6, axes=axes)
    assert model.nq == model.nj == model.nb == 6
    mass = np.asarray(jax.jit(lambda q: eb.mass_matrix(model, q))(jnp.linspace(0.1, 0.9, 6)))
    np.testing.assert_allclose(mass, mass.T, atol=1e-13)
    assert np.linalg.eigvalsh(mass)[0] > 0
