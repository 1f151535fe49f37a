"""SimmSpline against OpenSim's own values, and the rules that its knots obey."""

import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from empbody import rhythms as rh

TABLES = json.loads(
    (pathlib.Path(__file__).parent / "reference" / "wrapping" / "simm_splines.json").read_text()
)


@eqx.filter_jit
def derivatives(rhythm, t):
    """f, f', f'' at all t by the rhythm's own formulas and by autodiff, and f'' of the jet."""

    def own(q):
        jet = rhythm.jet(q, 2.0 * jnp.ones(1))
        second = rhythm.hessian(q)[:, 0, 0]
        return rhythm(q), rhythm.jacobian(q)[:, 0], second, jet.curvature / 4.0

    def automatic(q):
        first = jax.jacfwd(rhythm.__call__)
        return rhythm(q), first(q)[:, 0], jax.jacfwd(first)(q)[:, 0, 0]

    return jax.vmap(own)(t[:, None]), jax.vmap(automatic)(t[:, None])


@pytest.mark.parametrize("name", TABLES)
def test_equals_opensim(name):
    table = {key: np.array(values) for key, values in TABLES[name].items()}
    # Two outputs over the same breaks; the second is the first, scaled.
    rhythm = rh.SimmSpline(table["x"], np.outer(table["y"], [1.0, -3.0]))
    (value, first, second, along), automatic = derivatives(rhythm, jnp.asarray(table["at"]))
    columns = [("value", value), ("first", first), ("second", second), ("second", along)]
    for key, got in columns:
        scale = max(1.0, np.abs(table[key]).max())
        np.testing.assert_allclose(got[:, 0], table[key], rtol=0, atol=1e-13 * scale)
        np.testing.assert_allclose(got[:, 1], -3.0 * table[key], rtol=0, atol=3e-13 * scale)
    for got, expected in zip((value, first, second), automatic, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_few_knots_make_one_polynomial(n):
    x = np.array([-0.4, 0.1, 0.9, 1.2])[:n]
    polynomial = np.polynomial.Polynomial([0.3, -1.2, 0.7, 2.1][:n])
    t = np.linspace(x[0], x[-1], 9)
    (value, first, second, _), _ = derivatives(rh.SimmSpline(x, polynomial(x)), jnp.asarray(t))
    for order, got in enumerate((value, first, second)):
        expected = polynomial.deriv(order)(t) if order else polynomial(t)
        np.testing.assert_allclose(got[:, 0], expected, atol=1e-13)


def test_gradient_to_the_knots_and_a_batch_of_splines():
    x = jnp.asarray(TABLES["five knots"]["x"])
    y = 100.0 * jnp.asarray(TABLES["five knots"]["y"])
    t = jnp.linspace(-2.0, 0.6, 14)[:, None]

    @jax.jit
    def energy(x, y):
        return jnp.sum(jnp.sin(jax.vmap(rh.SimmSpline(x, y))(t)))

    directions = np.random.default_rng(3).normal(size=(2, 5))
    dx, dy = (jnp.asarray(d) for d in 0.1 * directions)
    along = jnp.vdot(jax.grad(energy)(x, y), dx) + jnp.vdot(jax.grad(energy, 1)(x, y), dy)
    h = 1e-5
    slope = (energy(x + h * dx, y + h * dy) - energy(x - h * dx, y - h * dy)) / (2 * h)
    np.testing.assert_allclose(along, slope, rtol=1e-7)
    both = jax.vmap(energy)(jnp.stack([x, x + 0.1]), jnp.stack([y, 2.0 * y]))
    np.testing.assert_allclose(both, [energy(x, y), energy(x + 0.1, 2.0 * y)], rtol=1e-13)


def test_single_precision_stays_single():
    rhythm = rh.SimmSpline([0.0, 1.0, 3.0], [[0.0], [1.0], [0.5]])
    single = jax.tree.map(lambda a: a.astype(jnp.float32), rhythm)
    for leaf in jax.tree.leaves(single.jet(jnp.ones(1, jnp.float32), jnp.ones(1, jnp.float32))):
        assert leaf.dtype == jnp.float32


REFUSED = [
    (([0.0], [1.0]), "1 knots; a SimmSpline needs at least 2"),
    (([0.0, 1.0], [1.0, 2.0, 3.0]), "3 rows of y for 2 knots"),
    (([0.0, 1.0, 1.0], [1.0, 2.0, 3.0]), r"x must increase strictly: x\[1\] = 1"),
    (([0.0, 1.0], [1.0, np.nan]), "y holds 1 values that are NaN"),
    (([[0.0, 1.0]], [1.0, 2.0]), r"x of shape \(1, 2\)"),
]


@pytest.mark.parametrize(("knots", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_bad_knots_are_refused(knots, message):
    with pytest.raises(ValueError, match=message):
        rh.SimmSpline(*knots)
