"""Implicit rhythms: the mechanisms' tables, derivatives of all kinds, and honest failure."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import mechanism_tables as tables
import numpy as np
import pytest

from empbody.models._loops import FiveBarLoop, FourBarLoop, SqueezerLoop
from empbody.rhythms import Implicit, LoopStatus

PI = np.pi
SEED_A = ([2.0], [PI / 2, -PI / 2, -np.arctan(2.0)])
SEED_SQUEEZER = ([0.0], [-0.34, 0.487, -1.116, -1.349, 1.349, -1.054])


@pytest.fixture(scope="module")
def rhythms():
    """Each mechanism on its table's mode, and on the mirrored one: θ(q) → -θ(-q)."""
    mirrored = [-x for x in (-1.08, 0.96, 1.65)]
    torus = {"lower": -PI, "upper": PI, "periodic": True}
    return {
        "four_bar": Implicit.build(FourBarLoop(), *SEED_A, -2.0, 2.0),
        "four_bar_mirrored": Implicit.build(FourBarLoop(), [2.0], mirrored, -2.0, 2.0),
        "five_bar": Implicit.build(FiveBarLoop(), [0.0, 0.0], [1.9, -2.8], **torus),
        "five_bar_mirrored": Implicit.build(FiveBarLoop(), [0.0, 0.0], [-1.9, 2.8], **torus),
        "squeezer": Implicit.build(SqueezerLoop(), *SEED_SQUEEZER, **torus),
    }


@eqx.filter_jit
def evaluate(rhythm, q, qd):
    """Everything at once, batched: f, gradient, Hessian, jet."""

    def one(x, v):
        return rhythm(x), rhythm.jacobian(x), rhythm.hessian(x), rhythm.jet(x, v)

    return jax.vmap(one)(q, qd)


def relative(found, expected):
    """Worst error over all entries, relative to max(1, largest entry of the same column)."""
    scale = np.maximum(1.0, np.max(np.abs(expected), axis=0, keepdims=True))
    return np.max(np.abs(np.asarray(found) - expected) / scale)


def check_table(rhythm, table, mirrored=False):
    q, f, slope, bend = table
    if mirrored:
        q, f, bend = -q, -f, -bend
    qd = np.random.default_rng(0).normal(size=q.shape)
    value, jacobian, hessian, jet = evaluate(rhythm, jnp.asarray(q), jnp.asarray(qd))
    curvature = np.einsum("nifg,nf,ng->ni", bend, qd, qd)
    assert relative(value, f) <= 1e-11
    assert relative(jacobian, slope) <= 1e-11
    assert relative(hessian, bend) <= 1e-11
    assert relative(jet.value, f) <= 1e-11
    assert relative(jet.jacobian, slope) <= 1e-11
    assert relative(jet.curvature, curvature) <= 1e-11


@pytest.mark.parametrize("mechanism", ["four_bar", "five_bar", "squeezer"])
def test_meets_the_tables(rhythms, mechanism):
    check_table(rhythms[mechanism], tables.load(mechanism))


@pytest.mark.parametrize("mechanism", ["four_bar", "five_bar"])
def test_other_assembly_mode_is_the_mirror_image(rhythms, mechanism):
    check_table(rhythms[mechanism + "_mirrored"], tables.load(mechanism), mirrored=True)


@pytest.mark.slow
@pytest.mark.skipif(not tables.FULL.is_dir(), reason="full tables are not on this machine")
@pytest.mark.parametrize("mechanism", ["four_bar", "five_bar", "squeezer"])
def test_meets_the_full_tables(rhythms, mechanism):
    check_table(rhythms[mechanism], tables.load(mechanism, full=True))


def test_periodic_coordinates_wind(rhythms):
    squeezer, five_bar = eqx.filter_jit(rhythms["squeezer"]), eqx.filter_jit(rhythms["five_bar"])
    q = jnp.asarray([0.7])
    for turns in (-40, 3):
        np.testing.assert_allclose(squeezer(q + 2 * PI * turns), squeezer(q), atol=1e-12)
    q = jnp.asarray([0.7, -2.0])
    full = five_bar(q + jnp.asarray([2 * PI, -4 * PI])) - five_bar(q)
    np.testing.assert_allclose(full, [2 * PI, 0.0], atol=1e-12)  # -1 turn and +2 turns


def test_autodiff_goes_through(rhythms):
    rhythm = rhythms["five_bar"]
    q = jnp.full(rhythm.n_in, 0.3)

    @jax.jit
    def by_autodiff(x):
        forward = jax.jacfwd(rhythm)(x)
        reverse = jax.jacrev(rhythm)(x)
        second = jax.jacfwd(jax.jacrev(rhythm))(x)
        third = jax.jacfwd(rhythm.hessian)(x)
        return forward, reverse, second, third

    forward, reverse, second, third = by_autodiff(q)
    closed = jax.jit(lambda x: (rhythm.jacobian(x), rhythm.hessian(x)))
    np.testing.assert_allclose(forward, closed(q)[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(reverse, closed(q)[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(second, closed(q)[1], rtol=1e-11, atol=1e-12)
    h = 1e-4
    for k in range(rhythm.n_in):
        step = h * jnp.eye(rhythm.n_in)[k]
        difference = (closed(q + step)[1] - closed(q - step)[1]) / (2 * h)
        np.testing.assert_allclose(third[..., k], difference, rtol=1e-6, atol=1e-6)


def test_derivatives_to_the_lengths(rhythms):
    """Jet and value differentiate in the residual's leaves; the table is a constant."""
    rhythm = rhythms["four_bar"]
    q, qd = jnp.asarray([0.4]), jnp.asarray([1.3])
    names = [field.name for field in dataclasses.fields(FourBarLoop)]

    def total(lengths, x):
        loop = FourBarLoop(*(lengths[i] for i in range(len(names))))
        jet = eqx.tree_at(lambda r: r.residual, rhythm, loop).jet(x, qd)
        return jnp.sum(jet.value) + 0.3 * jnp.sum(jet.jacobian) + 0.1 * jnp.sum(jet.curvature)

    start = jnp.stack([getattr(rhythm.residual, name) for name in names])
    value = jax.jit(total)
    gradient = jax.jit(jax.grad(total))(start, q)
    h = 1e-5
    for k in range(len(names)):
        step = h * jnp.eye(len(names))[k]
        difference = (value(start + step, q) - value(start - step, q)) / (2 * h)
        np.testing.assert_allclose(gradient[k], difference, rtol=1e-7, atol=1e-9)


def test_gradient_of_the_whole_rhythm_leaves_the_table_alone(rhythms):
    rhythm = rhythms["squeezer"]
    q = jnp.asarray([1.0])
    gradient = eqx.filter_jit(eqx.filter_grad(lambda r: jnp.sum(r(q))))(rhythm)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(gradient.table))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
    assert any(np.any(leaf != 0) for leaf in jax.tree.leaves(gradient.residual))


def test_other_lengths_close_without_a_new_table(rhythms):
    """A subject's lengths a per cent off: batched over subjects, with more corrections."""
    rhythm = dataclasses.replace(rhythms["four_bar"], newton=5)
    q = jnp.asarray([0.5])

    def one(l1):
        loop = eqx.tree_at(lambda r: r.l1, rhythm.residual, l1)
        f = eqx.tree_at(lambda r: r.residual, rhythm, loop)(q)
        return f, loop(q, f)

    f, closure = jax.jit(jax.vmap(one))(2.0 * jnp.asarray([0.99, 1.0, 1.01]))
    np.testing.assert_allclose(closure, 0.0, atol=1e-13)
    np.testing.assert_allclose(f[1], rhythms["four_bar"](q), atol=1e-14)


def test_new_numbers_do_not_recompile(rhythms):
    traces = 0

    @eqx.filter_jit
    def value(rhythm, q):
        nonlocal traces
        traces += 1
        return rhythm(q)

    rhythm = rhythms["four_bar"]
    value(rhythm, jnp.asarray([0.1]))
    longer = eqx.tree_at(lambda r: r.residual.l2, rhythm, jnp.asarray(4.0001, dtype=float))
    value(longer, jnp.asarray([0.2]))
    assert traces == 1


def failing(rhythms):
    """Each kind of failure with a rhythm and a coordinate that show it."""
    four = rhythms["four_bar"]
    inside = jnp.asarray([1.9])
    longer = eqx.tree_at(lambda r: r.residual.l2, four, jnp.asarray(4.1))
    swapped = eqx.tree_at(lambda r: r.table, four, rhythms["four_bar_mirrored"].table)
    return {
        "ok": (four, inside),
        "out_of_range": (four, jnp.asarray([2.001])),
        "not_converged": (dataclasses.replace(longer, newton=1), inside),
        "singular": (dataclasses.replace(four, min_pivot_ratio=0.9), inside),
        "left_branch": (swapped, inside),
    }


@pytest.mark.parametrize("kind", ["ok", "out_of_range", "not_converged", "singular", "left_branch"])
def test_failure_is_named(rhythms, kind):
    rhythm, q = failing(rhythms)[kind]
    quiet = dataclasses.replace(rhythm, on_failure="nan")
    found, quiet = eqx.filter_jit(lambda r, x: (r.status(x), r(x)))(quiet, q)
    assert bool(found == getattr(LoopStatus, kind)), LoopStatus[found]
    assert np.all(np.isnan(quiet)) == (kind != "ok")
    if kind != "ok":
        reason = {"left_branch": "left its assembly", "out_of_range": "outside the range"}
        with pytest.raises(Exception, match=reason.get(kind, kind.replace("not_", "not "))[:12]):
            jax.block_until_ready(eqx.filter_jit(rhythm)(q))


def test_nan_is_out_of_range_even_when_periodic(rhythms):
    squeezer = rhythms["squeezer"]
    found = eqx.filter_jit(lambda r, x: r.status(x))(squeezer, jnp.asarray([jnp.nan]))
    assert bool(found == LoopStatus.out_of_range)


def test_status_batches(rhythms):
    rhythm = rhythms["four_bar"]
    q = jnp.asarray([[0.0], [3.0], [-2.0]])
    good = jax.jit(jax.vmap(lambda x: rhythm.status(x) == LoopStatus.ok))(q)
    assert good.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"residual": FourBarLoop(l0=50.0)}, "does not assemble: the residual stays at"),
        ({"residual": FourBarLoop(l0=np.nan)}, "NaN or infinity at q = "),
        ({"upper": 2.2}, r"fold.*near q = \[2.0573.*determinant.*shorten the range"),
        ({"lower": -2.2}, r"fold.*near q = \[-2.0573"),
        ({"n": 6}, "table too coarse.*more cells"),
        ({"periodic": True}, "not periodic in height"),
        ({"seed_q": [2.5]}, "seed height = 2.5 lies outside its range"),
        ({"residual": lambda q, f: f[:1] - q}, "as many equations as unknowns"),
        ({"n": 10, "step": 0.1}, "either n"),
        ({"lower": 2.0, "upper": -2.0}, "lower < upper"),
        ({"newton": 0}, "at least one correction"),
        ({"on_failure": "ignore"}, "on_failure"),
        ({"coordinates": ("a", "b")}, "2 coordinate names for 1"),
    ],
)
def test_refuses_at_construction(change, message):
    arguments = {
        "residual": FourBarLoop(),
        "seed_q": SEED_A[0],
        "seed_f": SEED_A[1],
        "lower": -2.0,
        "upper": 2.0,
        "coordinates": ("height",),
    }
    with pytest.raises(Exception, match=message):
        Implicit.build(**{**arguments, **change})


def test_fold_inside_a_grid_is_found():
    with pytest.raises(ValueError, match=r"fold.*near q = \[.*, .*\]"):
        Implicit.build(FiveBarLoop(l1=3.0), [0.0, 0.3], [0.95, -1.9], -PI, PI, n=32)


def test_wrong_size_of_q_is_refused(rhythms):
    with pytest.raises(ValueError, match="2 coordinates for a Implicit rhythm of 1"):
        rhythms["four_bar"](jnp.zeros(2))
