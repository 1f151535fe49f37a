"""The tiny LU: against NumPy, its transpose, its determinant and its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from empbody.rhythms._small_lu import SmallLU, differentiable_solver

SIZES = (1, 2, 3, 5, 6, 9)


@pytest.fixture(params=SIZES)
def systems(request):
    rng = np.random.default_rng(request.param)
    n = request.param
    a = rng.normal(size=(64, n, n))
    a[:32, 0, 0] = 0.0 if n > 1 else 1.0  # pivoting is needed
    return jnp.asarray(a), jnp.asarray(rng.normal(size=(64, n, 2)))


def test_solves_like_numpy(systems):
    a, b = systems

    def all_of(a, b):
        factors = SmallLU(a)
        column = factors.solve(b[:, 0])
        return (
            factors.solve(b),
            column,
            factors.solve_transposed(b),
            factors.solve_transposed(b[:, 0]),
            factors.determinant,
        )

    x, column, transposed, transposed_column, det = jax.jit(jax.vmap(all_of))(a, b)
    condition = np.linalg.cond(a)[:, None, None]
    exact = np.linalg.solve(a, b)
    assert np.max(np.abs(x - exact) / (condition * np.abs(exact).max())) < 1e-14
    np.testing.assert_allclose(column, x[:, :, 0], rtol=1e-9, atol=1e-12)
    exact = np.linalg.solve(np.swapaxes(a, 1, 2), b)
    assert np.max(np.abs(transposed - exact) / (condition * np.abs(exact).max())) < 1e-14
    np.testing.assert_allclose(transposed_column, transposed[:, :, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(det, np.linalg.det(a), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", [3, 6])
def test_derivatives_are_those_of_the_system(n):
    rng = np.random.default_rng(n)
    a, da = (jnp.asarray(rng.normal(size=(n, n))) for _ in range(2))
    b, db = (jnp.asarray(rng.normal(size=n)) for _ in range(2))

    def solve(a, b):
        return differentiable_solver(a)(b)

    x, dx = jax.jit(lambda *args: jax.jvp(solve, args[:2], args[2:]))(a, b, da, db)
    expected = np.linalg.solve(a, db - da @ x)
    np.testing.assert_allclose(dx, expected, rtol=1e-10)
    cotangent = jnp.asarray(rng.normal(size=n))
    ga, gb = jax.jit(lambda a, b, c: jax.vjp(solve, a, b)[1](c))(a, b, cotangent)
    np.testing.assert_allclose(
        jnp.sum(ga * da) + jnp.dot(gb, db), jnp.dot(cotangent, dx), rtol=1e-10
    )


def test_singular_matrix_is_told_by_its_pivots():
    a = jnp.asarray([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    assert float(SmallLU(a).pivot_ratio) < 1e-15
    assert float(SmallLU(jnp.zeros((3, 3))).pivot_ratio) == 0.0
