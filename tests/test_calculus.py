"""The matrix calculus against autodiff, complex-step differences and its definitions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from empbody import calculus

# (m, n, s, p, r): all different, all alike, ones, growing, shrinking. A fixed list, because
# every new shape compiles again; the numbers are drawn freely.
SHAPES = st.sampled_from(
    [
        (2, 3, 4, 1, 5),
        (1, 1, 1, 1, 1),
        (3, 3, 3, 3, 3),
        (1, 2, 3, 4, 2),
        (4, 3, 2, 1, 3),
        (3, 1, 1, 2, 4),
    ]
)
SEEDS = st.integers(0, 2**32 - 1)


def coefficients(rng, m, n, r):
    """Random numbers of one smooth (m, n) function of r variables."""
    return rng.normal(size=(m, n, r)), rng.normal(size=(m, n)), rng.normal(size=(m, n, r, r))


def smooth(xp, c, q):
    """The function itself; xp is jax.numpy, or numpy for an oracle free of JAX."""
    linear, phase, quadratic = c
    bend = xp.einsum("ikab,a,b->ik", quadratic, q, q)
    return xp.sin(xp.einsum("ika,a->ik", linear, q) + phase) + bend


def random_case(seed, r, *shapes):
    """q and the coefficients of one function for each shape."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=r), [coefficients(rng, m, n, r) for m, n in shapes]


def definition_1(fun, q):
    """Eq. 3 as the printed sum, in numpy, each ∂A_ik/∂q by a complex step."""
    h = 1e-30
    m, n = fun(q).shape
    steps = [fun(q + 1j * h * direction).imag / h for direction in np.eye(q.size)]
    total = np.zeros((m * q.size, n))
    for i in range(m):
        for k in range(n):
            elementary = np.zeros((m, n))
            elementary[i, k] = 1.0
            total += np.kron(elementary, np.array([[step[i, k]] for step in steps]))
    return total


def value_and_derivative(c, q):
    fun = functools.partial(smooth, jnp, c)
    return fun(q), calculus.matrix_derivative(fun, q)


def check(actual, autodiff, oracle):
    np.testing.assert_allclose(actual, autodiff, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(actual, oracle, rtol=1e-12, atol=1e-12)


# --- the building blocks -------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 2), (1, 4), (3, 3)])
def test_any_matrix_is_a_sum_of_elementary_ones(m, n):
    A = np.random.default_rng(0).normal(size=(m, n))
    total = sum(
        A[i, k] * calculus.elementary_matrix(i, k, m, n) for i in range(m) for k in range(n)
    )
    np.testing.assert_array_equal(total, A)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 2), (1, 4), (3, 3)])
def test_commutation_matrix_is_the_printed_sum(m, n):
    E = calculus.elementary_matrix
    printed = sum(np.kron(E(i, k, m, n), E(k, i, n, m)) for i in range(m) for k in range(n))
    np.testing.assert_array_equal(calculus.commutation_matrix(m, n), printed)


@given(shape=SHAPES, seed=SEEDS)
def test_commutation_matrix_properties(shape, seed):
    m, n, s, p, _ = shape
    rng = np.random.default_rng(seed)
    A, X, Y = rng.normal(size=(m, n)), rng.normal(size=(n, p)), rng.normal(size=(m, s))
    U = np.asarray(calculus.commutation_matrix(m, n))
    np.testing.assert_array_equal(U @ U.T, np.eye(m * n))
    np.testing.assert_array_equal(U.T, calculus.commutation_matrix(n, m))
    np.testing.assert_array_equal(U @ A.reshape(-1, order="F"), A.reshape(-1, order="C"))
    swapped = np.kron(Y, X) @ calculus.commutation_matrix(s, p)
    np.testing.assert_allclose(U @ np.kron(X, Y), swapped, rtol=1e-15, atol=0)


@given(shape=SHAPES, seed=SEEDS)
def test_vec_stacks_columns(shape, seed):
    m, n, s, p, _ = shape
    rng = np.random.default_rng(seed)
    A, X, B = rng.normal(size=(m, n)), rng.normal(size=(n, s)), rng.normal(size=(s, p))
    stacked = np.asarray(calculus.vec(jnp.asarray(X)))
    np.testing.assert_array_equal(stacked, np.concatenate(list(X.T)))
    np.testing.assert_array_equal(calculus.unvec(jnp.asarray(stacked), n, s), X)
    product = calculus.vec(jnp.asarray(A @ X @ B))
    np.testing.assert_allclose(product, np.kron(B.T, A) @ stacked, rtol=1e-12, atol=1e-12)


def test_kronecker_square():
    q = jnp.array([2.0, 3.0, 5.0])
    np.testing.assert_array_equal(calculus.kronecker_square(q), [4, 6, 10, 6, 9, 15, 10, 15, 25])
    np.testing.assert_array_equal(calculus.kronecker_square(q), calculus.vec(jnp.outer(q, q)))


# --- Definition 1 ----------------------------------------------------------------------


@jax.jit
def derivatives(c, q):
    fun = functools.partial(smooth, jnp, c)
    return (
        calculus.matrix_derivative(fun, q),
        calculus.matrix_derivative(fun, q, order=2),
        calculus.matrix_derivative(lambda x: calculus.matrix_derivative(fun, x), q),
        jax.jacfwd(fun)(q),
        jax.hessian(fun)(q),
    )


@given(shape=SHAPES, seed=SEEDS)
def test_matrix_derivative_is_definition_1(shape, seed):
    m, n, _, _, r = shape
    q, (c,) = random_case(seed, r, (m, n))
    first, second, twice, jacobian, hessian = derivatives(c, q)
    check(first, calculus.arrange_derivative(jacobian), definition_1(lambda x: smooth(np, c, x), q))
    np.testing.assert_array_equal(calculus.unarrange_derivative(first, r), jacobian)
    np.testing.assert_array_equal(second, twice)
    # Row (i, j, l) of the second derivative holds ∂²A_i·/∂q_j ∂q_l.
    expected = np.moveaxis(hessian, 1, 3).reshape(m * r * r, n)
    np.testing.assert_allclose(second, expected, rtol=1e-12, atol=1e-12)


@given(shape=SHAPES, seed=SEEDS)
def test_transpose_derivative(shape, seed):
    m, n, _, _, r = shape
    q, (c,) = random_case(seed, r, (m, n))
    oracle = definition_1(lambda x: smooth(np, c, x).T, q)
    actual = calculus.transpose_derivative(derivatives(c, q)[0], r)
    np.testing.assert_allclose(actual, oracle, rtol=1e-12, atol=1e-12)


# --- Theorems 1 to 4 ---------------------------------------------------------------------


@jax.jit
def theorem_1(a, b, q):
    actual = calculus.derivative_of_product(
        *value_and_derivative(a, q), *value_and_derivative(b, q)
    )
    return actual, calculus.matrix_derivative(lambda x: smooth(jnp, a, x) @ smooth(jnp, b, x), q)


@given(shape=SHAPES, seed=SEEDS)
def test_theorem_1_product(shape, seed):
    m, n, t, _, r = shape
    q, (a, b) = random_case(seed, r, (m, n), (n, t))
    oracle = definition_1(lambda x: smooth(np, a, x) @ smooth(np, b, x), q)
    check(*theorem_1(a, b, q), oracle)


@jax.jit
def theorem_2(s, a, q):
    def scale(x):
        return smooth(jnp, s, x)[0, 0]

    actual = calculus.derivative_of_scaled(
        scale(q), jax.grad(scale)(q), *value_and_derivative(a, q)
    )
    return actual, calculus.matrix_derivative(lambda x: scale(x) * smooth(jnp, a, x), q)


@given(shape=SHAPES, seed=SEEDS)
def test_theorem_2_scaled(shape, seed):
    m, n, _, _, r = shape
    q, (s, a) = random_case(seed, r, (1, 1), (m, n))
    oracle = definition_1(lambda x: smooth(np, s, x)[0, 0] * smooth(np, a, x), q)
    check(*theorem_2(s, a, q), oracle)


@jax.jit
def theorem_3(a, c, q):
    actual = calculus.derivative_of_kronecker(
        *value_and_derivative(a, q), *value_and_derivative(c, q)
    )

    def product(x):
        return jnp.kron(smooth(jnp, a, x), smooth(jnp, c, x))

    return actual, calculus.matrix_derivative(product, q)


@given(shape=SHAPES, seed=SEEDS)
def test_theorem_3_kronecker(shape, seed):
    m, n, s, p, r = shape
    q, (a, c) = random_case(seed, r, (m, n), (s, p))
    oracle = definition_1(lambda x: np.kron(smooth(np, a, x), smooth(np, c, x)), q)
    check(*theorem_3(a, c, q), oracle)


@jax.jit
def theorem_4(a, q, dq):
    fun = functools.partial(smooth, jnp, a)
    first = calculus.matrix_derivative(fun, q)
    of_transpose = calculus.matrix_derivative(lambda x: fun(x).T, q)
    second = calculus.matrix_derivative(fun, q, order=2)

    def rate(x):
        return jax.jvp(fun, (x,), (dq,))[1]

    return (
        calculus.differential(first, dq),
        calculus.differential_from_transpose(of_transpose, dq),
        rate(q),
        calculus.differential(second, calculus.kronecker_square(dq)),
        jax.jvp(rate, (q,), (dq,))[1],
    )


@given(shape=SHAPES, seed=SEEDS)
def test_theorem_4_differential(shape, seed):
    m, n, _, _, r = shape
    q, (a,) = random_case(seed, r, (m, n))
    dq = np.random.default_rng([seed, 1]).normal(size=r)
    part_a, part_b, autodiff, second, second_autodiff = theorem_4(a, q, dq)
    oracle = smooth(np, a, q + 1e-30j * dq).imag / 1e-30
    check(part_a, autodiff, oracle)
    check(part_b, autodiff, oracle)
    # The same formula with q^[2] contracts the second derivative.
    np.testing.assert_allclose(second, second_autodiff, rtol=1e-12, atol=1e-12)


# --- use under transformations, and refusals -----------------------------------------------


def test_works_batched_and_differentiated():
    q, (a, c) = random_case(3, 2, (2, 3), (3, 2))
    batch = jnp.stack([q, 2 * q, -q])
    actual, autodiff = jax.vmap(theorem_3, in_axes=(None, None, 0))(a, c, batch)
    np.testing.assert_allclose(actual, autodiff, rtol=1e-12, atol=1e-12)
    gradients = jax.grad(lambda x: jnp.sum(theorem_3(a, c, x)[0]))(q)
    expected = jax.grad(lambda x: jnp.sum(theorem_3(a, c, x)[1]))(q)
    np.testing.assert_allclose(gradients, expected, rtol=1e-11)


def test_follows_the_dtype_of_its_inputs():
    A, dA = jnp.ones((2, 2), jnp.float32), jnp.ones((6, 2), jnp.float32)
    assert calculus.derivative_of_product(A, dA, A, dA).dtype == jnp.float32
    assert calculus.derivative_of_kronecker(A, dA, A, dA).dtype == jnp.float32
    assert calculus.differential(dA, jnp.ones(3, jnp.float32)).dtype == jnp.float32
    assert calculus.commutation_matrix(2, 3, jnp.float32).dtype == jnp.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: calculus.elementary_matrix(2, 0, 2, 2), r"\(2, 0\).*2 by 2.*start at 0"),
        (lambda x: calculus.commutation_matrix(0, 2), "positive, got 0 and 2"),
        (lambda x: calculus.unvec(x(5), 2, 3), "5 entries.*2 by 3"),
        (lambda x: calculus.unarrange_derivative(x(5, 2), 2), "5 rows.*2 coordinates"),
        (lambda x: calculus.differential(x(5, 2), x(2)), "5 rows.*2 coordinates"),
        (lambda x: calculus.matrix_derivative(lambda q: q, x(3)), "a matrix of one column"),
        (lambda x: calculus.matrix_derivative(jnp.diag, x(3), 0), "positive integer, got 0"),
        (
            lambda x: calculus.derivative_of_product(x(2, 2), x(5, 2), x(2, 2), x(4, 2)),
            r"derivative of A has shape \(5, 2\).*\(2 r, 2\)",
        ),
        (
            lambda x: calculus.derivative_of_kronecker(x(2, 2), x(4, 2), x(2, 2), x(6, 2)),
            "different sizes: {'A': 2, 'C': 3}",
        ),
    ],
)
def test_refuses_sizes_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call(lambda *shape: jnp.ones(shape))
