"""Explicit rhythms: every property runs over the whole list of families."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline, RectBivariateSpline, make_interp_spline

import empbody.rhythms as rh

RNG = np.random.default_rng(7)
GRID = np.array([-1.3, -1.0, -0.6, -0.1, 0.0, 0.45, 0.8, 1.1, 1.5])  # uneven on purpose
GRID1 = np.linspace(-1.2, 1.4, 8)


def smooth(x):
    return np.stack([np.sin(1.7 * x + 0.3), np.exp(-x) * x, np.cos(2 * x)], axis=-1)


def smooth2(x0, x1):
    a, b = x0[..., None, None], x1[None, ..., None]
    return np.concatenate([np.sin(a + 0.4 * b * a), np.cos(1.3 * b) * np.sin(a) + b**2], axis=-1)


def normal(*shape):
    return RNG.normal(size=shape)


def spline(**options):
    return rh.Spline.fit(GRID, smooth(GRID), **options)


def periodic(degree):
    x = np.append(np.sort(RNG.uniform(0.1, 2.4, 9)), 2.5)
    return rh.Spline.fit(x, normal(10, 2), degree=degree, boundary="periodic", period=2.6)


def tensor(**options):
    return rh.TensorSpline.fit(GRID, GRID1, smooth2(GRID, GRID1), **options)


def neural(*sizes):
    nq, nj = sizes[0], sizes[-1]
    scaling = {"centre": normal(nq), "scale": 1 + normal(nq) ** 2}
    net = rh.Neural(sizes, key=jax.random.key(2), **scaling, offset=normal(nj), gain=normal(nj))
    return eqx.tree_at(lambda n: n.biases, net, tuple(b + 0.3 for b in net.biases))


FAMILIES = {
    "identity": rh.Identity(),
    "affine": rh.Affine(normal(4, 3), normal(4)),
    "polynomial": rh.Polynomial(((0, 0), (1, 0), (3, 2), (0, 7)), normal(3, 4)),
    "polynomial-total": rh.Polynomial.total_degree(
        3, 4, normal(2, 35), centre=normal(3), scale=[1.5, 2.0, 0.7]
    ),
    "spline-cubic-natural": spline(degree=3, boundary="natural"),
    "spline-cubic-periodic": periodic(3),
    "spline-quintic": spline(),
    "spline-quintic-periodic": periodic(5),
    "tensor-cubic": tensor(degree=3),
    "tensor-quintic-periodic": tensor(
        boundary=("natural", "periodic"), period=(None, 2.9), extrapolation="linear"
    ),
    "fourier": rh.Fourier(normal(11, 3), winding=[1.0, 0.0, -2.0], period=3.0),
    "fourier-tensor": rh.FourierTensor(normal(5, 7, 2), normal(2, 2), period=(3.0, 5.0)),
    "neural": neural(2, 6, 3),
    "neural-deep": neural(3, 5, 4, 2),
    "compose": rh.Compose(rh.Polynomial.total_degree(3, 2, normal(2, 10)), spline(degree=3)),
    "stack": rh.Stack(
        [(rh.Identity(), (2,)), (spline(degree=3), (0,)), (rh.Affine(normal(2, 2)), (1, 0))],
        n_in=3,
        order=(4, 0, 2, 5, 3, 1),
    ),
}

# In and out of every fitted range, at breakpoints, at the ends, and at zero (0**0).
SPECIAL = np.array([0.0, -1.3, 1.5, 0.45, -1.30001, 1.6, -4.0, 7.3])


def points(rhythm):
    nq = rhythm.n_in or 3
    q = np.concatenate([np.tile(SPECIAL[:, None], nq), RNG.uniform(-1.2, 1.4, (24, nq))])
    return jnp.asarray(q), jnp.asarray(normal(*q.shape))


def own(rhythm, q, qd):
    return rhythm(q), rhythm.jacobian(q), rhythm.hessian(q), rhythm.jet(q, qd)


def by_autodiff(rhythm, q, qd):
    value, jac = rhythm(q), jax.jacfwd(rhythm.__call__)
    hess = jax.jacfwd(jac)(q)
    along = jnp.einsum("iab,a,b->i", hess, qd, qd)
    return value, jac(q), hess, rh.Jet(value, jac(q), along)


TRACES = {}


@pytest.fixture(scope="module", params=FAMILIES)
def case(request):
    """A family, its points, and compiled batched evaluation shared by the tests."""
    rhythm = FAMILIES[request.param]

    @eqx.filter_jit
    def evaluate(r, q, qd):
        TRACES[request.param] = TRACES.get(request.param, 0) + 1
        batched = jax.vmap(lambda a, b: (own(r, a, b), by_autodiff(r, a, b)))
        return batched(q, qd)

    return request.param, rhythm, *points(rhythm), evaluate


def close(got, expected, tolerance):
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale)


def scaled(rhythm, factor):
    return jax.tree.map(lambda a: a * factor if eqx.is_inexact_array(a) else a, rhythm)


def cast(rhythm, dtype):
    return jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, rhythm)


def test_derivatives_equal_autodiff_of_the_value(case):
    _, _, q, qd, evaluate = case
    got, expected = evaluate(case[1], q, qd)
    for g, e in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert np.all(np.isfinite(g))
        close(g, e, 1e-12)


def test_sizes_are_as_declared(case):
    _, rhythm, q, qd, evaluate = case
    (value, jac, hess, jet), _ = evaluate(rhythm, q, qd)
    n, nq = q.shape
    nj = nq if rhythm.n_out is None else rhythm.n_out
    assert value.shape == jet.value.shape == jet.curvature.shape == (n, nj)
    assert jac.shape == jet.jacobian.shape == (n, nj, nq)
    assert hess.shape == (n, nj, nq, nq)


def test_new_numbers_do_not_recompile(case):
    name, rhythm, q, qd, evaluate = case
    evaluate(rhythm, q, qd)
    evaluate(scaled(rhythm, 1.01), q, qd)
    assert TRACES[name] == 1


def test_a_batch_of_rhythms(case):
    _, rhythm, q, _, _ = case
    both = [rhythm, scaled(rhythm, 1.1)]
    stacked = jax.tree.map(lambda a, b: jnp.stack([a, b]) if eqx.is_array(a) else a, *both)
    call = eqx.filter_vmap(lambda r: r(q[-1]), in_axes=eqx.if_array(0), axis_size=2)
    one_by_one = eqx.filter_jit(lambda rs: jnp.stack([r(q[-1]) for r in rs]))(both)
    close(eqx.filter_jit(call)(stacked), one_by_one, 1e-13)


def test_gradients_to_the_leaves(case):
    name, rhythm, q, qd, _ = case
    numbers, rest = eqx.partition(rhythm, eqx.is_inexact_array)
    if not jax.tree.leaves(numbers):
        assert name == "identity"
        return

    @jax.jit
    def loss_and_grad(numbers):
        def loss(numbers):
            # Inside the ranges; test_derivatives has the special points.
            jets = jax.vmap(eqx.combine(numbers, rest).jet)(q[8:14], qd[8:14])
            return sum(jnp.sum(jnp.sin(a)) for a in jets)

        return jax.value_and_grad(loss)(numbers)

    _, grad = loss_and_grad(numbers)
    assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(grad))

    # Central differences over the coefficients; points stay clear of moving breakpoints.
    step = jax.tree.map(lambda a: jnp.asarray(RNG.normal(size=a.shape)), numbers)
    fixed = {"breaks": 0.0}
    step = jax.tree_util.tree_map_with_path(
        lambda path, a: a * np.prod([fixed.get(getattr(p, "name", ""), 1.0) for p in path]), step
    )
    h = 1e-6
    high, low = (
        loss_and_grad(jax.tree.map(lambda a, s, k=k: a + k * h * s, numbers, step))[0]
        for k in (1, -1)
    )
    along = sum(jnp.vdot(g, s) for g, s in zip(*map(jax.tree.leaves, (grad, step)), strict=True))
    size = sum(float(jnp.linalg.norm(g)) for g in jax.tree.leaves(grad))
    assert abs((high - low) / (2 * h) - along) < 1e-6 * size + 1e-9


def test_single_precision(case):
    _, rhythm, q, qd, evaluate = case
    exact, _ = evaluate(rhythm, q, qd)
    single = eqx.filter_jit(eqx.filter_vmap(own, in_axes=(None, 0, 0)))(
        *(cast(a, jnp.float32) for a in (rhythm, q, qd))
    )
    # The ends of a range round to either side in float32, where f'' jumps: left out.
    keep = np.setdiff1d(np.arange(len(q)), [1, 2, 4])
    for s, e in zip(jax.tree.leaves(single), jax.tree.leaves(exact), strict=True):
        assert s.dtype == jnp.float32
        close(s[keep], np.asarray(e)[keep], 2e-4)
    mixed = rhythm(q[-1].astype(jnp.float32))
    close(mixed, exact[0][-1], 1e-5)


def test_a_wrong_number_of_coordinates_is_named(case):
    rhythm = case[1]
    if rhythm.n_in is not None:
        with pytest.raises(ValueError, match=rf"{rhythm.n_in + 1} coordinates for a .* of"):
            rhythm(jnp.zeros(rhythm.n_in + 1))


# ---- splines -----------------------------------------------------------------------------

X = np.linspace(-1.3, 1.5, 57)


def derivatives(rhythm, x):
    """f, f', f'' at x (n,), each (n, nj)."""
    q = jnp.asarray(x)[:, None]

    def one(q):
        return rhythm(q), rhythm.jacobian(q)[:, 0], rhythm.hessian(q)[:, 0, 0]

    return eqx.filter_jit(jax.vmap(one))(q)


@pytest.mark.parametrize("degree", [3, 5])
@pytest.mark.parametrize("boundary", ["natural", "not-a-knot", "periodic"])
def test_spline_equals_scipy(degree, boundary):
    y = smooth(GRID)
    if boundary == "periodic":
        y[-1] = y[0]
    ours = derivatives(rh.Spline.fit(GRID, y, degree=degree, boundary=boundary), X)
    if degree == 3:
        theirs = CubicSpline(GRID, y, bc_type=boundary)
    else:
        ends = [(3, np.zeros(3)), (4, np.zeros(3))]
        kinds = {"natural": (ends, ends), "not-a-knot": None, "periodic": "periodic"}
        theirs = make_interp_spline(GRID, y, degree, bc_type=kinds[boundary])
    for order, got in enumerate(ours):
        # The last point of a periodic spline is its first.
        close(got[:-1], theirs(X, order)[:-1], 1e-12)


def higher(rhythm, x, order):
    f = lambda q: rhythm.hessian(jnp.stack([q]))[:, 0, 0]  # noqa: E731
    for _ in range(order - 2):
        f = jax.jacfwd(f)
    return np.asarray(jax.jit(f)(jnp.asarray(x)))


@pytest.mark.parametrize(("degree", "orders"), [(3, (2,)), (5, (3, 4))])
def test_natural_ends(degree, orders):
    natural = spline(degree=degree, boundary="natural")
    for order in orders:
        for end in GRID[[0, -1]]:
            assert np.abs(higher(natural, end, order)).max() < 1e-10


@pytest.mark.parametrize("degree", [3, 5])
def test_not_a_knot_ends(degree):
    free = (degree - 1) // 2
    np.testing.assert_array_equal(spline(degree=degree).breaks[1:-1], GRID[free + 1 : -free - 1])


@pytest.mark.parametrize("degree", [3, 5])
def test_periodic_seam(degree):
    rhythm = FAMILIES[f"spline-{'cubic' if degree == 3 else 'quintic'}-periodic"]
    low = float(rhythm.breaks[0])
    for order in range(2, degree):
        left, right = (higher(rhythm, low + s * 1e-13, order) for s in (-1, 1))
        close(left, right, 1e-8)
    x = np.linspace(-1, 1, 9)
    for got, expected in zip(derivatives(rhythm, x + 3 * 2.6), derivatives(rhythm, x), strict=True):
        close(got, expected, 1e-11)


def test_any_coefficients_keep_a_periodic_spline_periodic():
    rhythm = rh.Spline(np.sort(normal(9)), normal(8, 2), degree=5, periodic=True)
    low, high = float(rhythm.breaks[0]), float(rhythm.breaks[-1])
    for a, b in zip(
        *(derivatives(rhythm, np.array([e])) for e in (low, high - 1e-14)), strict=True
    ):
        close(a, b, 1e-8)


@pytest.mark.parametrize("name", ["spline-cubic-natural", "spline-quintic"])
def test_linear_continuation(name):
    rhythm = FAMILIES[name]
    ends = GRID[[0, -1]]
    f, d, _ = derivatives(rhythm, ends)
    beyond = np.array([-0.7, 2.0])
    value, slope, bend = derivatives(rhythm, ends + beyond)
    close(value, f + d * beyond[:, None], 1e-14)
    close(slope, d, 1e-14)
    assert np.all(bend == 0)


def test_range_error_names_the_range():
    strict = spline(extrapolation="error")
    close(strict(jnp.array([1.5])), smooth(np.array(1.5)), 1e-12)
    for x in (-1.31, 1.6, np.nan):
        with pytest.raises(Exception, match=r"outside the fitted range \[-1.3, 1.5\]"):
            jax.block_until_ready(strict(jnp.array([x])))
    with pytest.raises(Exception, match=r"q\[1\] is outside the fitted range \[-1.2, 1.4\]"):
        jax.block_until_ready(tensor(degree=3, extrapolation="error")(jnp.array([0.0, 2.0])))


@pytest.mark.parametrize("degree", [3, 5])
def test_tensor_spline_equals_scipy(degree):
    y = smooth2(GRID, GRID1)
    rhythm = rh.TensorSpline.fit(GRID, GRID1, y, degree=degree)
    q = np.stack([RNG.uniform(-1.3, 1.5, 40), RNG.uniform(-1.2, 1.4, 40)], axis=1)
    (value, jac, hess, _), _ = jax.jit(jax.vmap(lambda a: (own(rhythm, a, a), None)))(
        jnp.asarray(q)
    )
    for j in range(2):
        theirs = RectBivariateSpline(GRID, GRID1, y[..., j], kx=degree, ky=degree, s=0)
        for got, order in [
            (value[:, j], (0, 0)),
            (jac[:, j, 0], (1, 0)),
            (jac[:, j, 1], (0, 1)),
            (hess[:, j, 0, 0], (2, 0)),
            (hess[:, j, 0, 1], (1, 1)),
            (hess[:, j, 1, 1], (0, 2)),
        ]:
            close(got, theirs.ev(q[:, 0], q[:, 1], *order), 1e-11)


def test_tensor_spline_continues_smoothly_and_wraps():
    rhythm = FAMILIES["tensor-cubic"]
    jac = jax.jit(jax.vmap(rhythm.jacobian))
    edge = np.array([[1.5, 3.0], [1.5, 0.2], [2.5, 1.4], [0.3, -1.2], [-2.0, -1.2]])
    for axis in np.eye(2):
        close(jac(jnp.asarray(edge + 1e-10 * axis)), jac(jnp.asarray(edge - 1e-10 * axis)), 1e-8)
    corner = jax.vmap(rhythm)(jnp.asarray([[2.0, 2.0], [3.0, 2.0], [2.0, 3.0], [3.0, 3.0]]))
    bend = jax.vmap(rhythm.hessian)(jnp.asarray([[2.0, 2.0]]))[0]
    close(corner[3] - corner[1] - corner[2] + corner[0], bend[:, 0, 1], 1e-12)
    wrapping = FAMILIES["tensor-quintic-periodic"]
    q = jnp.array([0.3, 0.2])
    close(wrapping(q + jnp.array([0.0, 2 * 2.9])), wrapping(q), 1e-12)


# ---- series, polynomials, networks ---------------------------------------------------------


def test_fourier_value_and_high_order():
    rhythm = rh.Fourier(normal(41, 2), winding=[1.0, 0.5], period=3.0)
    x = RNG.uniform(-9, 9, 30)
    phase = 2 * np.pi / 3.0 * x[:, None] * np.arange(1, 21)
    a, c, s = np.split(np.asarray(rhythm.coefficients), [1, 21])
    expected = np.outer(x, [1.0, 0.5]) + a + np.cos(phase) @ c + np.sin(phase) @ s
    assert rhythm.order == 20
    close(derivatives(rhythm, x)[0], expected, 1e-13)


def test_fourier_fit_recovers_coefficients():
    truth = FAMILIES["fourier"]
    x = np.linspace(0, 3.0, 40, endpoint=False)
    y = jax.vmap(truth)(jnp.asarray(x)[:, None])
    fitted = rh.Fourier.fit(x, y, order=5, winding=truth.winding, period=3.0)
    close(fitted.coefficients, truth.coefficients, 1e-12)
    report = rh.fit_report(fitted, x, y)
    assert report.samples == 40
    assert np.all(report.rms <= report.max)
    assert np.all(report.max < 1e-12)


def test_fourier_tensor_fit_recovers_coefficients():
    truth = FAMILIES["fourier-tensor"]
    x = RNG.uniform(0, 5, (150, 2))
    y = jax.vmap(truth)(jnp.asarray(x))
    fitted = rh.FourierTensor.fit(x, y, (2, 3), truth.winding, period=(3.0, 5.0))
    assert fitted.orders == (2, 3)
    close(fitted.coefficients, truth.coefficients, 1e-10)


def test_affine_and_polynomial_fits_recover_their_maps():
    for name in ("affine", "polynomial-total"):
        truth = FAMILIES[name]
        x = RNG.uniform(-1, 2, (200, 3))
        y = jax.vmap(truth)(jnp.asarray(x))
        degree = {"polynomial-total": {"degree": 4}}.get(name, {})
        fitted = type(truth).fit(x, y, **degree)
        fresh = RNG.uniform(-1, 2, (50, 3))
        report = rh.fit_report(fitted, fresh, jax.vmap(truth)(jnp.asarray(fresh)))
        assert np.all(report.max < 1e-11 * np.abs(y).max())


def test_polynomial_value_and_total_degree():
    rhythm = rh.Polynomial.total_degree(2, 2, [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    assert rhythm.exponents == ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    x, y = 0.3, -1.7
    expected = 1 + 2 * x + 3 * y + 4 * x * x + 5 * x * y + 6 * y * y
    close(rhythm(jnp.array([x, y])), np.array([expected]), 1e-14)
    assert rh.Polynomial.total_degree(3, 3, n_out=5).coefficients.shape == (5, 20)


def test_report_prints_one_row_for_each_joint():
    report = rh.fit_report(rh.Affine([[2.0]]), [0.0, 1.0], [0.0, 2.5])
    np.testing.assert_allclose(report.max, [0.5])
    np.testing.assert_allclose(report.rms, [0.5 / np.sqrt(2)])
    assert len(str(report).splitlines()) == 3


# ---- composition -----------------------------------------------------------------------------


def test_stack_routes_inputs_and_outputs():
    parts = [(rh.Affine([[2.0]], [1.0]), (1,)), (rh.Identity(), (2, 0))]
    q = jnp.array([5.0, 7.0, 9.0])
    np.testing.assert_array_equal(rh.Stack(parts, n_in=3)(q), [15.0, 9.0, 5.0])
    np.testing.assert_array_equal(rh.Stack(parts, n_in=3, order=(2, 0, 1))(q), [5.0, 15.0, 9.0])


def test_compose_takes_the_size_of_either_part():
    affine = FAMILIES["affine"]
    for both in (rh.Compose(affine, rh.Identity()), rh.Compose(rh.Identity(), affine)):
        assert (both.n_in, both.n_out) == (3, 4)
        q = jnp.array([0.1, 0.2, 0.3])
        np.testing.assert_array_equal(both(q), affine(q))
    assert rh.Compose(rh.Identity(), rh.Identity()).n_in is None


# ---- what is refused ---------------------------------------------------------------------------

FOUR = np.arange(4.0)
NAN = np.array([0.0, 1.0, np.nan, 3.0])
KEY = jax.random.key(0)
REFUSED = [
    (lambda: rh.Affine([1.0, 2.0]), r"matrix must have shape \(nj, nq\)"),
    (lambda: rh.Affine([[1.0, 2.0]], [1.0, 2.0]), r"offset of shape \(2,\) for 1 rows"),
    (lambda: rh.Affine.fit(FOUR, np.zeros(5)), "5 rows of y for 4 abscissae"),
    (lambda: rh.Affine.fit(np.ones(4), FOUR), "determine only 1 of the 2 coefficients"),
    (lambda: rh.Polynomial([(1, 0), (2,)], [[1.0, 2.0]]), "term 1 has 1 exponents, term 0 has 2"),
    (lambda: rh.Polynomial([(1,), (-2,)], [[1.0, 2.0]]), "negative exponent"),
    (lambda: rh.Polynomial([(1,), (1,)], [[1.0, 2.0]]), r"\(1,\) occurs twice"),
    (lambda: rh.Polynomial([(1,), (2,)], [[1.0]]), "for 2 exponents"),
    (lambda: rh.Polynomial([(1,)], [[1.0]], scale=[1.0, 2.0]), r"scale of shape \(2,\) for 1"),
    (lambda: rh.Polynomial.total_degree(0, 2), "n_in = 0"),
    (lambda: rh.Polynomial.fit(FOUR, FOUR, 6), "4 samples cannot determine the 7 coefficients"),
    (lambda: rh.Spline.fit(FOUR, np.zeros((5, 2))), "5 rows of y for 4 abscissae"),
    (lambda: rh.Spline.fit(FOUR, FOUR), "4 points along x; .* degree 5 needs at least 6"),
    (lambda: rh.Spline.fit([0, 2, 1, 3], FOUR, degree=3), r"x\[1\] = 2, x\[2\] = 1"),
    (lambda: rh.Spline.fit(FOUR, NAN, degree=3), r"y holds 1 values that are NaN .* \[2\]"),
    (lambda: rh.Spline.fit(NAN, FOUR, degree=3), "x holds 1 values that are NaN"),
    (lambda: rh.Spline.fit(FOUR, FOUR, degree=4), "degree = 4"),
    (lambda: rh.Spline.fit(FOUR, FOUR, degree=3, boundary="periodic"), "they differ by 3"),
    (lambda: rh.Spline.fit(FOUR, FOUR, degree=3, period=4.0), "needs boundary="),
    (
        lambda: rh.Spline.fit(FOUR, FOUR, degree=3, boundary="periodic", period=2.0),
        "x spans 3, more than one period of 2",
    ),
    (lambda: rh.Spline(FOUR, np.zeros((5, 1)), degree=3), "5 coefficients for 4 .*; 6 are"),
    (lambda: rh.Spline(-FOUR, np.zeros((6, 1)), degree=3), "must increase strictly"),
    (lambda: rh.TensorSpline.fit(FOUR, FOUR, np.zeros((4, 5, 1))), "for a grid of 4 by 4"),
    (lambda: rh.TensorSpline.fit(GRID, FOUR, np.zeros((9, 4))), "4 points along x1"),
    (lambda: rh.TensorSpline((FOUR, FOUR), np.zeros((6, 5, 1)), degree=3), r"q\[1\]: 5 coeff"),
    (lambda: rh.Fourier(np.zeros((4, 1))), "4 coefficients: .* odd number"),
    (lambda: rh.Fourier(np.zeros((3, 1)), winding=[1.0, 2.0]), r"winding of shape \(2,\) for 1"),
    (lambda: rh.Fourier.fit(FOUR, FOUR, order=3), "4 samples cannot determine the 7"),
    (lambda: rh.Fourier.fit(FOUR, FOUR, order=1, period=1.0), "determine only 1 of the 3"),
    (lambda: rh.Fourier.fit(np.zeros((4, 2)), FOUR, order=1), "x has 2 columns"),
    (lambda: rh.FourierTensor(np.zeros((3, 2, 1))), r"2 coefficients along q\[1\]"),
    (lambda: rh.Neural((2, 3), key=KEY), r"sizes = \(2, 3\)"),
    (lambda: rh.Neural((2, 3, 1), key=KEY, gain=[1.0, 2.0]), r"gain of shape \(2,\)"),
    (
        lambda: rh.Compose(rh.Affine(np.zeros((1, 2))), rh.Affine(np.zeros((3, 1)))),
        "inner Affine gives 3 variables, outer Affine takes 2",
    ),
    (lambda: rh.Stack([], n_in=1), "at least one"),
    (
        lambda: rh.Stack([(rh.Affine([[1.0, 2.0]]), (0,))], n_in=1),
        r"part 0 \(Affine\) takes 2 coordinates, 1 inputs are given",
    ),
    (lambda: rh.Stack([(rh.Identity(), (0, 3))], n_in=2), "input 3 of 2 coordinates"),
    (lambda: rh.Stack([(rh.Identity(), (0, 0))], n_in=2), "names a coordinate twice"),
    (lambda: rh.Stack([(rh.Identity(), (0, 1))], n_in=2, order=(0, 0)), "for 2 outputs"),
    (lambda: rh.fit_report(rh.Identity(), FOUR, np.zeros((4, 2))), "2 columns of y for 1 joint"),
    (lambda: rh.Affine([[1.0]]).check_coordinates(jnp.zeros((3, 1))), "use jax.vmap to batch"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_bad_structure_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
