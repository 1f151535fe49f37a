"""Machine code for one sample at a time gives what JAX gives."""

import warnings

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import empbody as eb
from empbody.models._holzbaur import holzbaur
from empbody.native import SWITCH, Program
from empbody.paths._ellipsoid import ellipsoid_block, ellipsoid_path
from empbody.paths._geodesic import Tried

RNG = np.random.default_rng(3)


def program(sample):
    """With lanes by vmap as its other form."""

    def lanes(arguments):
        size = max(x.shape[-1] for x in jax.tree.leaves(arguments))
        wide = jax.tree.map(lambda x: jnp.broadcast_to(x, (*x.shape[:-1], size)), arguments)
        return jax.vmap(sample, in_axes=-1, out_axes=-1)(wide)

    return Program(sample, lanes)


def text(function, *arguments):
    return jax.jit(function).lower(*arguments).as_text()


def check(sample, arguments, lanes, rtol=1e-14, atol=1e-14):
    """As machine code against the other form."""
    made = program(sample)
    run = lambda x: made(x, lanes)  # noqa: E731
    assert "@empbody_" in text(run, arguments)
    found, wanted = jax.jit(run)(arguments), made.lanes(arguments)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)
    return found


ODD = jnp.asarray([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-320])
PAIRS = jnp.stack([x.reshape(-1) for x in jnp.meshgrid(ODD, ODD)])[:, None]

ELEMENTWISE = {
    "arithmetic": lambda x, y: (x + y, x - y, x * y, -x, abs(x)),
    "division": lambda x, y: (x / y, lax.rem(x, y)),
    "order": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
    "extremes": lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y), jnp.clip(x, -1.0, 2.0)),
    "sign": lambda x, y: (jnp.sign(x), jnp.isfinite(x), jnp.floor(x), jnp.ceil(x)),
    "choice": lambda x, y: (jnp.where(x > 0, x, y), jnp.where((x > 0) & ~(y > 0), 1, 2)),
    "powers": lambda x, y: (x**3, x**-2, x**0, jnp.square(x), jnp.sqrt(x), lax.rsqrt(x)),
    "whole": lambda x, y: ((x > 0).astype(int) * 3 - 1, (x > 0).astype(float)),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_numbers_and_what_is_none(name):
    """All pairs of zeros, infinities, nothing and a subnormal number."""
    check(lambda pair: ELEMENTWISE[name](pair[0], pair[1]), PAIRS, PAIRS.shape[-1])


def test_functions_of_the_c_library():
    x = jnp.asarray(RNG.uniform(-3.0, 3.0, (5, 40)))

    def sample(x):
        return (
            jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.tanh(x), jnp.exp(x), jnp.log(abs(x)),
            jnp.arctan2(x, x[::-1]), jnp.arctan(x), jnp.arcsin(x / 4), jnp.arccos(x / 4),
            jnp.expm1(x), jnp.log1p(abs(x)), abs(x) ** 1.3, jax.nn.sigmoid(x),
        )  # fmt: skip

    check(sample, x, 40, rtol=1e-13)


def test_whole_numbers():
    x = jnp.asarray(RNG.integers(-9, 9, (2, 3, 50)))

    def sample(x):
        a, b = x[0], jnp.where(x[1] == 0, 4, x[1])
        signs = jnp.sign(a), abs(a), jnp.maximum(a, b), -a
        return (a // b, a % b, lax.div(a, b), a**2, a.astype(jnp.int32) + 1, a & b, *signs)

    check(sample, x, 50)


def test_moving_numbers_about():
    x = jnp.asarray(RNG.normal(size=(3, 4, 9)))

    def sample(x):
        return {
            "parts": (x[1], x[:, 1:3], x[:, ::2], x[::-1], x.T, x.reshape(2, 6)),
            "joined": (jnp.concatenate([x, 2 * x], 1), jnp.stack([x[0], x[2]], 1)),
            "wide": jnp.broadcast_to(x[:, None], (3, 2, 4)) + x[:, :1, None],
            "taken": (x[jnp.array([2, 0])], x.at[1].set(0.0), x.at[:, jnp.array([0, 3])].set(7.0)),
            "sums": (x.sum(), x.sum(0), x.max(1), x.min(), (x > 0).any(0), (x > 0).all()),
            "split": jnp.split(x, 2, axis=1),
            "numbers": jnp.arange(4) * 1.0,
        }

    check(sample, x, 9)


def test_loops_branches_and_tables():
    """A table larger than registers, filled and read at places that are found on the way."""
    x = jnp.asarray(RNG.uniform(0.5, 2.0, (3, 33)))
    constant = jnp.linspace(0.0, 1.0, 200)

    def sample(x):
        def grow(state):
            count, y = state
            return count + 1, y * 1.1

        count, y = lax.while_loop(lambda s: jnp.all(s[1] < 10.0), grow, (0, x))
        table = jnp.zeros((100, 3))

        def put(k, table):
            last = lax.dynamic_index_in_dim(table, k - 1, 0, False)
            row = lax.cond(k % 3 == 0, lambda: x * k, lambda: last + constant[k])
            return lax.dynamic_update_index_in_dim(table, row, k, 0)

        table = lax.fori_loop(0, 100, put, table)
        small = lax.fori_loop(
            0, 4, lambda k, s: lax.dynamic_update_index_in_dim(s, x[0] * k, k, 0), jnp.zeros(4)
        )
        # The same table twice: what is changed later must not change what was kept.
        kept = table
        table = lax.dynamic_update_index_in_dim(table, x, count, 0)
        (total, _), each = lax.scan(
            lambda c, row: ((c[0] + row.sum(), c[1]), row[0] - c[1]), (0.0, y[0]), table
        )
        way = lax.switch(count % 3, [lambda: x[0], lambda: x[1], lambda: x[2]])
        return count, y, kept, table, small, total, each, way

    check(sample, x, 33, rtol=1e-13)


def put(table, value, index):
    return lax.dynamic_update_index_in_dim(table, value, index, 0)


SHARED = {
    "both carries are one table": lambda a, b, k: lax.fori_loop(
        0, 4, lambda n, c: (put(c[0], b[0], n), put(c[1], b[1], n + 1)), (a, a)
    ),
    "carry and constant": lambda a, b, k: lax.fori_loop(
        0, 4, lambda n, c: put(c, a[n] + a[(n + 3) % 5] + c[n], n + 1), a
    ),
    "carry and rows": lambda a, b, k: lax.scan(lambda c, x: (put(c, x + 1.0, k), c[:3] + x), a, a),
    "exchanged": lambda a, b, k: lax.fori_loop(0, 3, lambda n, c: (c[1], c[0]), (a, b)),
    "handed on": lambda a, b, k: lax.fori_loop(
        0, 3, lambda n, c: (put(c[0], 1.0 * n, k), c[0]), (a, b)
    ),
    "exchanged in a branch": lambda a, b, k: lax.cond(
        a[0] > b[0],
        lambda a, b: (put(a, 1.0, k), put(b, 2.0, k)),
        lambda a, b: (b, a),
        a,
        b,
    ),
    "part of it in a branch": lambda a, b, k: lax.cond(
        a[0] > b[0], lambda a: (a, b[:3]), lambda a: (b, a[1:4]), a
    ),
    "kept before a change": lambda a, b, k: (
        lax.optimization_barrier(a),
        put(a, 9.0, k),
        lax.scan(lambda c, _: (a, None), b, None, length=1)[0],
        jax.jit(lambda x, y: (put(x, 1.0, k), y))(a, a),
    ),
    "turned": lambda a, b, k: lax.fori_loop(
        0, 3, lambda n, c: put(c, b[:9], n).T, jnp.broadcast_to(a[0], (9, 9))
    ),
}


@pytest.mark.parametrize("size", [10, 100])
@pytest.mark.parametrize("name", SHARED)
def test_tables_with_several_names(name, size):
    """A table is changed in place only where nobody else looks at it any more."""
    x = jnp.asarray(RNG.uniform(-1.0, 1.0, (3, 12)))

    def sample(x):
        k = (x[2] > 0).astype(int) * 3 + 1
        a, b = (put(jnp.broadcast_to(y, (size,)), y + x[2], k) for y in x[:2])
        return SHARED[name](a, b, k)

    check(sample, x, 12)


def test_whole_numbers_at_their_limits():
    low = np.iinfo(np.int64).min
    x = jnp.asarray([[3, low, 7, -7, 0], [0, -1, -2, 2, 5]])

    def sample(x):
        small = x.astype(jnp.uint8)
        return (
            lax.div(x[0], x[1]), lax.rem(x[0], x[1]), lax.max(x[0] > 1, x[1] > 1),
            lax.div(small[0], small[1] + jnp.uint8(1)), lax.max(small[0], small[1]),
            (jnp.asarray([np.nan, 1e30, -1e30, 2.7]) * x[1]).astype(jnp.int32),
        )  # fmt: skip

    check(sample, x, 5)


def test_equal_programs_with_other_constants():
    """The code of an inner function is not told by its text."""
    x = jnp.ones((3, 2))
    for constant in (np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0])):
        check(lambda x, c=constant: jax.jit(lambda y: y * c)(x), x, 2)


def test_arrays_without_elements_and_too_large_ones():
    x = jnp.asarray(RNG.normal(size=(10, 9)))
    check(lambda x: (jnp.concatenate([x[:0], x[2:]]), x[3:3]), x, 9)
    made = program(
        lambda x: lax.fori_loop(0, 3, lambda k, t: put(t, x[0], k), jnp.zeros(9_999_999))
    )
    with pytest.warns(RuntimeWarning, match="bytes of tables"):
        jax.jit(lambda x: made(x, 9)).lower(x)


def test_without_jit_and_with_wrong_lanes():
    made = program(jnp.sin)
    x = jnp.ones((2, 3))
    with jax.disable_jit():
        np.testing.assert_allclose(made(x, 3), jnp.sin(x), rtol=1e-15)
    with pytest.raises(ValueError, match="neither 1 nor 5 lanes"):
        made(x, 5)


def test_nested_loops_end_each_by_itself():
    x = jnp.asarray(RNG.uniform(1.0, 50.0, (1, 100)))

    def sample(x):
        def outer(k, total):
            inner = lax.while_loop(
                lambda s: s[1] < x[0] * k, lambda s: (s[0] + 1, s[1] * 2), (0, 1.0)
            )
            return total + inner[0]

        return lax.fori_loop(0, 20, outer, 0)

    found = check(sample, x, 100)
    assert len(np.unique(found)) > 5


@pytest.mark.parametrize("lanes", [1, 7, 8, 9, 1000])
def test_lanes_are_shared_out(lanes):
    """Few by this thread alone, many by several; those that are the same for all stay one."""
    x, same = jnp.asarray(RNG.normal(size=(2, lanes))), jnp.asarray(RNG.normal(size=(70, 1)))

    def sample(given):
        x, same = given
        return x * same[3], same[(x[0] > 0).astype(int) * 60]

    check(sample, (x, same), lanes)


def test_batches_become_lanes():
    made = program(lambda x: jnp.sin(x).sum() * x)
    x = jnp.asarray(RNG.normal(size=(5, 4, 3, 2)))
    found = jax.jit(jax.vmap(jax.vmap(lambda x: made(x, 2), 1)))(x)
    wanted = jnp.sin(x).sum(1, keepdims=True) * x
    np.testing.assert_allclose(found, jnp.moveaxis(wanted, 2, 1), rtol=1e-14)
    whole = text(jax.vmap(lambda x: made(x, 2)), x[0])
    assert whole.count("@empbody_") == 1


def test_single_precision():
    x = jnp.asarray(RNG.uniform(0.1, 1.0, (3, 20)), jnp.float32)
    check(lambda x: (jnp.sin(x) / x.sum(), jnp.where(x > 0.5, x**2, 0.0)), x, 20, 1e-6, 1e-7)


def test_what_is_not_known_is_left_to_xla():
    made = program(lambda x: jnp.sort(x))
    x = jnp.asarray(RNG.normal(size=(4, 6)))
    with pytest.warns(RuntimeWarning, match=r"without machine code.*sort"):
        found = jax.jit(lambda x: made(x, 6))(x)
    np.testing.assert_array_equal(found, jnp.sort(x, axis=0))


def test_switched_off_and_exported(monkeypatch):
    made = program(jnp.sin)
    x = jnp.ones((2, 3))
    stored = jax.export.export(jax.jit(lambda x: made(x, 3)))(x)
    assert "@empbody_" not in stored.mlir_module()
    np.testing.assert_allclose(stored.call(x), jnp.sin(x), rtol=1e-15)
    monkeypatch.setenv(SWITCH, "0")
    assert "@empbody_" not in text(lambda x: made(x, 3), x)


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_wrapped_paths_are_the_same_with_and_without(dtype, monkeypatch):
    """Lengths and arms of the shoulder's muscles over cylinders, spheres, ellipsoids, a torus."""
    model = holzbaur(wrapping=True)
    q = np.random.default_rng(0).uniform((-0.6, 0.2, -0.6), (1.2, 1.9, 0.2), (40, 3))
    # LAT1 is held from inside another surface here, PECM3 passes one that it ends in.
    held = [[0.0, np.radians(x), 0.0] for x in (164.0, 168.0, 172.3, 173.5)]
    sunk = [np.radians([x, 60.0, -30.0]) for x in (125.0, 126.1)]
    q = np.concatenate([q, held, sunk])
    arrays, rest = eqx.partition(model, eqx.is_array)
    arrays = jax.tree.map(
        lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x, arrays
    )

    def both(arrays, q):
        found = eb.paths.lengths_and_arms(eqx.combine(arrays, rest), q)
        return jnp.concatenate([found[0][None], found[1]])

    def run():
        # Another function each time, so that it is compiled anew.
        return jax.jit(jax.vmap(lambda a, q: both(a, q), (None, 0)))(arrays, jnp.asarray(q, dtype))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = run()
    monkeypatch.setenv(SWITCH, "0")
    jax.clear_caches()
    plain = run()
    off = np.abs(np.asarray(code, float) - np.asarray(plain, float)).max(axis=1)
    # Where several strings pull tight another one may be found; that is rare.
    close = off < (1e-8 if dtype == jnp.float64 else 3e-4)
    assert close.mean() > (0.99 if dtype == jnp.float64 else 0.95)
    assert close[40:].all() or dtype == jnp.float32


def test_geodesics_as_machine_code():
    """Each with as few steps as it needs, against forty steps for all: well within 1e-8 m."""
    rng, count = np.random.default_rng(1), 1000
    axes = rng.uniform(0.02, 0.06, (3, count))
    out = rng.normal(size=(3, count))
    out /= np.linalg.norm(out, axis=0)
    aside = np.cross(out, rng.normal(size=(3, count)), axis=0)
    aside /= np.linalg.norm(aside, axis=0)
    angle, far = rng.uniform(0.2, 1.5, count), rng.uniform(1.01, 3.0, (2, count))
    ends = [
        axes * r * (out * np.cos(angle) + s * aside * np.sin(angle))
        for r, s in zip(far, (1, -1), strict=True)
    ]
    tangents = np.sqrt(far**2 - 1.0).prod(axis=0)
    touch = far.prod(axis=0) * np.cos(2.0 * angle) + tangents < 1.0
    given = [jnp.asarray(x[:, touch]) for x in (*ends, axes, axes * out)]
    assert touch.sum() > 200

    def sample(given):
        on = jnp.ones((1,), bool)
        a, b, axes, side = (x[:, None] for x in given)
        found, _ = ellipsoid_block(a, b, axes, side, on, Tried.nothing(on, a.dtype))
        return found.length[0], found.converged[0]

    made, lanes = program(sample), int(touch.sum())
    length, converged = jax.jit(lambda x: made(x, lanes))(given)
    wanted = jax.jit(lambda *x: ellipsoid_path(*x, jnp.ones(lanes, bool), steps=40))(*given)
    assert converged.all()
    assert wanted.converged.all()
    np.testing.assert_allclose(length, wanted.length, rtol=0.0, atol=1e-9)


def test_an_empty_batch_and_a_pose_that_is_none():
    shoulder = eb.models.shoulder()
    both = jax.jit(jax.vmap(lambda q: eb.paths.lengths_and_arms(shoulder, q)))
    lengths, arms = both(jnp.zeros((0, 3)))
    assert (lengths.shape, arms.shape) == ((0, 14), (0, 3, 14))
    lengths, arms = both(jnp.asarray([[0.1, np.nan, 0.3], [0.1, 0.2, 0.3]]))
    assert np.isnan(lengths[0]).all()
    assert np.isfinite(lengths[1]).all()
    assert np.isfinite(arms[1]).all()
