"""The literal projection elimination: right where well conditioned, unstable elsewhere."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mechanism_tables as tables
import numpy as np
import pytest

from empbody.kronecker._projection import Projected, projection_gradients, projection_hessians
from empbody.models._loops import FiveBarLoop
from empbody.rhythms import Implicit


def conditioned(rng, size, condition):
    """A random matrix of a given 2-norm condition number."""
    left, right = (np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(2))
    return left @ np.diag(np.geomspace(1.0, 1.0 / condition, size)) @ right


@pytest.mark.parametrize(("size", "nq"), [(1, 1), (2, 2), (4, 3)])
def test_equals_lu_on_well_conditioned_systems(size, nq):
    rng = np.random.default_rng(size)
    gbar = conditioned(rng, size, 5.0)
    slopes = rng.normal(size=(size, nq))
    bends = rng.normal(size=(size, nq, nq))
    gradients = projection_gradients(jnp.asarray(gbar), jnp.asarray(slopes.reshape(-1)))
    np.testing.assert_allclose(gradients, -np.linalg.solve(gbar, slopes), rtol=1e-10, atol=1e-11)
    hessians = projection_hessians(jnp.asarray(gbar), jnp.asarray(bends.reshape(-1)))
    expected = np.linalg.solve(gbar, bends.reshape(size, -1)).reshape(bends.shape)
    np.testing.assert_allclose(hessians, expected, rtol=1e-10, atol=1e-11)


def test_loses_digits_with_the_condition_number_where_lu_does_not():
    rng = np.random.default_rng(0)
    solve = jax.jit(jax.vmap(projection_gradients))
    ours, lu = [], []
    for condition in (1e2, 1e4, 1e6):
        gbar = np.stack([conditioned(rng, 8, condition) for _ in range(20)])
        exact = rng.normal(size=(20, 8, 1))
        slopes = -gbar @ exact
        found = solve(jnp.asarray(gbar), jnp.asarray(slopes[:, :, 0]))
        ours.append(np.median(np.max(np.abs(found - exact), axis=(1, 2))))
        direct = -np.linalg.solve(gbar, slopes)
        lu.append(np.median(np.max(np.abs(direct - exact), axis=(1, 2))))
    assert ours[0] < 1e-9
    assert ours[1] > 100 * ours[0]
    assert ours[2] > 100 * ours[1]
    assert ours[2] > 1e-6
    assert lu[2] < 1e-9


def test_meets_the_five_bar_table():
    torus = {"lower": -np.pi, "upper": np.pi, "periodic": True}
    inner = Implicit.build(FiveBarLoop(), [0.0, 0.0], [1.9, -2.8], **torus)
    q, f, slope, bend = tables.load("five_bar")
    qd = np.random.default_rng(1).normal(size=q.shape)

    @eqx.filter_jit
    def evaluate(rhythm, q, qd):
        return jax.vmap(lambda x, v: (rhythm.jacobian(x), rhythm.hessian(x), rhythm.jet(x, v)))(
            q, qd
        )

    jacobian, hessian, jet = evaluate(Projected(inner), jnp.asarray(q), jnp.asarray(qd))
    np.testing.assert_allclose(jet.value, f, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(jacobian, slope, atol=1e-11)
    np.testing.assert_allclose(hessian, bend, atol=1e-11)
    np.testing.assert_allclose(jet.curvature, np.einsum("nifg,nf,ng->ni", bend, qd, qd), atol=1e-10)


def test_refuses_counts_that_do_not_fit():
    with pytest.raises(ValueError, match="not a multiple of 2"):
        projection_gradients(jnp.eye(2), jnp.ones(3))
    with pytest.raises(ValueError, match="not 2 squares"):
        projection_hessians(jnp.eye(2), jnp.ones(6))
