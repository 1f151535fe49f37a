"""Derivatives of forward dynamics, which go through inverse dynamics and reach the lanes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.bench import shoulder_sized

STEP = 1e-6


def random_like(tree, seed):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), tree)


def moved(tree, direction, by):
    return jax.tree.map(lambda x, d: x + by * d, tree, direction)


def inner(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return float(sum(jnp.vdot(x, y) for x, y in pairs))


def coupled():
    """Lanes are used: a rhythm of few coordinates, and force elements."""
    model = shoulder_sized()
    spring = eb.forces.PointSpring(
        "ground", (0.1, 0, 0.2), model.body_names[-1], (0, 0.1, 0), 20.0, 0.3, 0.5
    )
    return model.with_forces([spring])


def chained():
    """Every joint is a coordinate: lanes are used for values, not for derivatives."""
    return eb.models.pendulum_chain(4, axes="random")


@pytest.fixture(scope="module", params=[coupled, chained])
def case(request):
    """(model, loss of model, q and q̇; states)."""
    model = request.param()
    ranges = jnp.zeros_like(model.lower)  # infinite bounds have no differences
    model = eqx.tree_at(lambda m: (m.lower, m.upper), model, (ranges, ranges))
    states = jnp.asarray(np.random.default_rng(3).normal(size=(4, 2, model.nq)))

    def loss(model, q, qd):
        return jnp.sum(jnp.sin(0.01 * eb.forward_dynamics(model, q, qd, q)))

    return model, loss, states


def test_both_modes_equal_differences_for_every_leaf(case):
    model, loss, states = case
    at = (model, *states[0])
    along = random_like(at, 1)
    value = eqx.filter_jit(loss)
    ahead, behind = (value(*moved(at, along, s)) for s in (STEP, -STEP))
    forward = jax.jit(lambda at: jax.jvp(loss, at, along)[1])(at)
    reverse = inner(jax.jit(jax.grad(loss, (0, 1, 2)))(*at), along)
    assert float(forward) == pytest.approx(reverse, rel=1e-10)
    assert float((ahead - behind) / (2 * STEP)) == pytest.approx(reverse, rel=1e-6)


def test_batched_gradients_equal_single_ones(case):
    model, loss, states = case
    q, qd = states[:, 0], states[:, 1]
    gradient = jax.jit(jax.grad(loss, (0, 1, 2)))
    alone = [gradient(model, *state) for state in states]
    one_by_one = jax.tree.map(lambda *x: jnp.stack(x), *alone)
    inside = jax.jit(jax.vmap(jax.grad(loss, (0, 1, 2)), (None, 0, 0)))(model, q, qd)
    total = lambda m, q, qd: jnp.sum(jax.vmap(loss, (None, 0, 0))(m, q, qd))  # noqa: E731
    outside = jax.jit(jax.grad(total, (0, 1, 2)))(model, q, qd)
    for a, b in zip(jax.tree.leaves(inside), jax.tree.leaves(one_by_one), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    summed = jax.tree.map(lambda x: jnp.sum(x, axis=0), one_by_one[0])
    for a, b in zip(jax.tree.leaves(outside[0]), jax.tree.leaves(summed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(outside[1], one_by_one[1], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_gradients_of_models_that_differ_in_every_leaf(case):
    model, loss, states = case
    scale = 1.0 + 0.05 * jnp.arange(4.0)
    models = jax.tree.map(lambda x: x[None] * scale.reshape(-1, *[1] * x.ndim), model)
    q, qd = states[0]
    together = jax.jit(jax.vmap(jax.grad(loss), (0, None, None)))(models, q, qd)
    gradient = jax.jit(jax.grad(loss))
    for i in (0, 3):
        alone = gradient(jax.tree.map(lambda x, i=i: x[i], models), q, qd)
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_jacobians_and_second_derivatives(case):
    model, loss, states = case
    q, qd = states[0]
    direction = states[1, 0]
    of_q = lambda q: loss(model, q, qd)  # noqa: E731
    accelerations = lambda q: eb.forward_dynamics(model, q, qd)  # noqa: E731
    np.testing.assert_allclose(
        jax.jit(jax.jacfwd(accelerations))(q), jax.jit(jax.jacrev(accelerations))(q), rtol=1e-9
    )
    gradient = jax.jit(jax.grad(of_q))
    difference = (gradient(q + STEP * direction) - gradient(q - STEP * direction)) / (2 * STEP)
    hessian = jax.jit(jax.hessian(of_q))(q)
    np.testing.assert_allclose(hessian @ direction, difference, rtol=1e-5, atol=1e-8)
    twice = jax.jit(jax.jacrev(jax.grad(of_q)))(q)
    np.testing.assert_allclose(twice, hessian, rtol=1e-8, atol=1e-12)


@pytest.mark.slow
def test_nested_batches_of_gradients(case):
    model, loss, states = case
    gradient = jax.grad(lambda q, qd: loss(model, q, qd))
    flat = jax.jit(jax.vmap(gradient))(states[:, 0], states[:, 1])
    pairs = states.reshape(2, 2, 2, model.nq)
    nested = jax.jit(jax.vmap(jax.vmap(gradient)))(pairs[:, :, 0], pairs[:, :, 1])
    np.testing.assert_allclose(nested.reshape(flat.shape), flat, rtol=1e-10)
