"""Rhythms fitted to one subject: recovery, losses, solvers, bands, refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.spatial.transform import Rotation

import empbody as eb
from empbody.fitting import (
    Angles,
    Coefficients,
    MarkerPositions,
    Orientations,
    Prior,
    Residuals,
    choose_family,
    choose_poses,
    cross_validate,
    euler_matrix,
    fit_rhythm,
    frame_weights,
    geodesic_distance,
    make_family,
    rotation_vector,
)
from empbody.fitting._problem import robust
from empbody.rhythms import Affine, Compose, Named, Neural, Polynomial, Stack

RNG = np.random.default_rng(3)
X = np.radians([90.0, 150.0]) * RNG.random((150, 2))
LINEAR = ("linear", "poly:3", "spline:2:3", "fourier:2")


def truth(family: str, x: np.ndarray = X, nj: int = 3) -> eb.rhythms.AbstractRhythm:
    """A rhythm of the family with coefficients of order a half."""
    rng = np.random.default_rng(11)
    codec = Coefficients(make_family(family, x, np.zeros((len(x), nj))))
    return codec.rhythm(jnp.asarray(0.5 * rng.normal(size=codec.size)))


def values(rhythm: eb.rhythms.AbstractRhythm, x: np.ndarray = X) -> np.ndarray:
    return np.asarray(jax.vmap(rhythm)(jnp.asarray(x)))


@pytest.mark.parametrize("family", LINEAR)
def test_parameters_of_linear_families_are_recovered(family: str) -> None:
    true = truth(family)
    fit = fit_rhythm(X, values(true), family)
    codec = Coefficients(true)
    np.testing.assert_allclose(fit.coefficients, codec.vector(), atol=1e-6)
    assert fit.report.solver == "exact"
    assert fit.report.rms_all < 1e-9
    assert len(fit.labels) == codec.size == fit.report.parameters


@pytest.mark.parametrize("family", ["spline:6", "fourier:3"])
def test_families_of_one_input(family: str) -> None:
    x = np.linspace(0.1, 2.4, 60)[:, None]
    true = truth(family, x, 2)
    fit = fit_rhythm(x, values(true, x), family, units=False)
    np.testing.assert_allclose(fit.coefficients, Coefficients(true).vector(), atol=1e-6)


def test_network_is_recovered_from_nearby() -> None:
    true = Neural((2, 3, 2), key=jax.random.key(1))
    codec = Coefficients(true)
    near = codec.rhythm(codec.vector() + 0.03 * np.random.default_rng(0).normal(size=codec.size))
    fit = fit_rhythm(X, values(true), near, tolerance=1e-12)
    np.testing.assert_allclose(fit.coefficients, codec.vector(), atol=1e-6)
    assert fit.report.solver == "Levenberg-Marquardt"


def test_composition_is_fitted_where_it_is_free() -> None:
    inner = Polynomial.total_degree(2, 2, np.random.default_rng(1).normal(size=(2, 6)) / 4)
    true = Compose(Affine([[0.4, 0.2], [-0.3, 0.8]], [0.1, -0.2]), inner)
    start = eqx.tree_at(lambda c: c.outer, true, Affine(np.eye(2)))
    fit = fit_rhythm(X, values(true), start, free=lambda c: (c.outer.matrix, c.outer.offset))
    np.testing.assert_allclose(fit.rhythm.outer.matrix, true.outer.matrix, atol=1e-6)
    np.testing.assert_array_equal(fit.rhythm.inner.coefficients, inner.coefficients)
    parts = Stack([(truth("linear", X[:, :1], 1), [0]), (truth("poly:2", X[:, 1:], 1), [1])], 2)
    found = fit_rhythm(X, values(parts), parts)
    assert found.report.solver == "exact"
    np.testing.assert_allclose(found.coefficients, Coefficients(parts).vector(), atol=1e-9)


def test_masks_of_single_numbers() -> None:
    true = Affine([[0.4, 0.2]], [0.3])
    mask = Affine([[0.0, 0.0]], [0.0])
    free = eqx.tree_at(
        lambda m: (m.matrix, m.offset), mask, (np.array([[True, False]]), np.array([True]))
    )
    fit = fit_rhythm(X, values(true), Affine([[0.0, 0.2]], [0.0]), free=free)
    np.testing.assert_allclose(fit.coefficients, [0.4, 0.3], atol=1e-12)
    np.testing.assert_allclose(fit.rhythm.matrix, true.matrix, atol=1e-12)


@pytest.mark.parametrize("sequence", ["YXZ", "YXY"])
def test_euler_angles_against_scipy(sequence: str) -> None:
    angles = np.random.default_rng(0).uniform(-1.2, 1.2, (20, 3))
    ours = jax.vmap(lambda a: euler_matrix(a, sequence))(jnp.asarray(angles))
    theirs = Rotation.from_euler(sequence, angles)
    np.testing.assert_allclose(ours, theirs.as_matrix(), atol=1e-14)
    np.testing.assert_allclose(jax.vmap(rotation_vector)(ours), theirs.as_rotvec(), atol=1e-12)
    far = jax.vmap(geodesic_distance)(ours[:-1], ours[1:])
    np.testing.assert_allclose(far, (theirs[:-1].inv() * theirs[1:]).magnitude(), atol=1e-12)
    slope = jax.jacfwd(rotation_vector)(jnp.eye(3))
    assert bool(jnp.isfinite(slope).all())


def test_orientations_are_fitted_in_any_sequence() -> None:
    true = truth("poly:2")
    true = Coefficients(true).rhythm(0.3 * Coefficients(true).vector())
    fit = fit_rhythm(X, Orientations(values(true), "ZYX"), "poly:2")
    np.testing.assert_allclose(fit.coefficients, Coefficients(true).vector(), atol=1e-6)
    turns = jax.vmap(lambda a: euler_matrix(a, "ZYX"))(jnp.asarray(values(true)))
    same = Orientations(turns, "ZYX")
    np.testing.assert_allclose(same.turns, Orientations(values(true), "ZYX").turns, atol=1e-15)


def two_links(rhythm: eb.rhythms.AbstractRhythm) -> eb.Model:
    bodies = [
        eb.Body("upper", parent="ground", joint=eb.Revolute(axis=(0, 0, 1)), mass=1.0),
        eb.Body(
            "fore", parent="upper", mass=1.0,
            joint=eb.Revolute(axis=(0, 1, 0), translation=(0.3, 0.0, 0.0)),
        ),
    ]  # fmt: skip
    return eb.Model.build(coordinates=("a", "b"), bodies=bodies, rhythm=rhythm)


PLACES = {"m1": ("upper", (0.1, 0.05, 0.0)), "m2": ("fore", (0.2, 0.0, 0.03))}


def marker_targets(true: Affine) -> MarkerPositions:
    model = two_links(true)
    seen = jax.vmap(
        lambda q: jnp.stack([eb.point_position(model, q, b, p) for b, p in PLACES.values()])
    )(jnp.asarray(X[:40]))
    positions = np.array(seen)
    positions[3, 1] = np.nan  # a marker that was not seen
    return MarkerPositions(two_links(Affine(np.eye(2))), positions, places=PLACES)


def test_markers_through_a_model() -> None:
    true = Affine([[0.9, 0.15], [-0.2, 0.7]], [0.05, -0.1])
    fit = fit_rhythm(X[:40], marker_targets(true))
    np.testing.assert_allclose(fit.rhythm.matrix, true.matrix, atol=1e-6)
    np.testing.assert_allclose(fit.rhythm.offset, true.offset, atol=1e-6)


def test_a_loss_of_the_users_own() -> None:
    true = truth("linear", nj=2)
    wanted = jnp.asarray(values(true))
    xs = jnp.asarray(X)
    start = Affine(np.zeros((2, 2)))

    def loss(rhythm: eb.rhythms.AbstractRhythm) -> jax.Array:
        return jnp.mean((jax.vmap(rhythm)(xs) - wanted) ** 2)

    fit = fit_rhythm(X, loss, start, tolerance=1e-14, steps=300, patience=50)
    np.testing.assert_allclose(fit.coefficients, Coefficients(true).vector(), atol=1e-6)
    own = Residuals(lambda r, q: jax.vmap(r)(q) - wanted, len(X), 2)
    again = fit_rhythm(X, own, start)
    np.testing.assert_allclose(again.coefficients, Coefficients(true).vector(), atol=1e-6)
    with pytest.raises(ValueError, match="needs residuals"):
        fit_rhythm(X, loss, start, solver="lm")


@pytest.mark.parametrize("loss", ["huber", "soft_l1"])
def test_robust_losses_bear_outliers(loss: str) -> None:
    true = truth("linear", nj=2)
    rng = np.random.default_rng(2)
    y = values(true) + 0.002 * rng.normal(size=(len(X), 2))
    y[::15] += 0.8
    plain = fit_rhythm(X, y, "linear")
    robust_fit = fit_rhythm(X, y, "linear", loss=loss)
    aim = np.asarray(Coefficients(true).vector())
    error = np.abs(np.asarray(robust_fit.coefficients) - aim).max()
    assert error < 0.01 < np.abs(np.asarray(plain.coefficients) - aim).max()


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_gradient_descent_finds_the_same(solver: str) -> None:
    y = values(truth("linear", nj=2)) + 0.01 * RNG.normal(size=(len(X), 2))
    best = fit_rhythm(X, y, "linear")
    seen = []
    fit = fit_rhythm(
        X, y, "linear", solver=solver, rate=0.05 if solver == "adam" else None, steps=1000,
        progress=lambda done, total: seen.append(done),
    )  # fmt: skip
    np.testing.assert_allclose(fit.coefficients, best.coefficients, atol=1e-5)
    assert seen == sorted(seen)
    assert fit.report.solver == solver


def test_early_stopping_looks_at_validation() -> None:
    y = values(truth("linear", nj=2))
    fit = fit_rhythm(
        X[:50], y[:50], "linear", solver="adam", rate=0.05, validation=(X[50:], y[50:]),
        patience=60, tolerance=1e-3, steps=3000,
    )  # fmt: skip
    assert fit.report.converged
    assert fit.report.steps < 3000


def test_frames_of_a_recording_weigh_as_poses() -> None:
    fast, slow = np.linspace(0.0, 1.0, 21), np.linspace(1.0, 2.0, 401)[1:]
    both = np.concatenate([fast, slow])[:, None]
    w = frame_weights(both, 0.1)
    inner = np.r_[6:14], np.r_[121:321]
    per_rad = [w[inner[0]].mean() * 20, w[inner[1]].mean() * 400]
    np.testing.assert_allclose(per_rad, 1.0 / (0.1 * np.sqrt(2 * np.pi)), rtol=0.01)
    # Two planes at once: far apart, neither sees the other; 700 rows, in blocks.
    planes = np.concatenate([np.hstack([both, 0 * both]), np.hstack([both, 0 * both + 1.5])])
    np.testing.assert_allclose(frame_weights(planes, 0.1), np.tile(w, 2), rtol=1e-12)
    with pytest.raises(ValueError, match="width = 0"):
        frame_weights(both, 0.0)


def test_descent_is_compiled_once_for_new_data() -> None:
    traced = []

    def update(grads, state, params=None):
        traced.append("step")
        return -1e-3 * grads, state

    slow = optax.GradientTransformation(lambda params: (), update)
    goals = [values(truth("linear", nj=2)) * scale for scale in (1.0, 2.0)]
    fits = [fit_rhythm(X, y, "linear", solver=slow, steps=50) for y in goals]
    assert len(traced) == 1
    assert np.abs(fits[0].coefficients - fits[1].coefficients).max() > 1e-3

    def loss(rhythm):  # a user's own; JAX traces it, so it is not called for every step
        traced.append("loss")
        return jnp.mean(jax.vmap(rhythm)(jnp.asarray(X)) ** 2)

    start = make_family("linear", X, goals[0])
    fit_rhythm(X, loss, start, solver="adam", steps=25)
    once = traced.count("loss")
    fit_rhythm(X, loss, start, solver="adam", steps=25)
    assert traced.count("loss") == once


@pytest.mark.slow
def test_restarts_keep_the_best() -> None:
    y = values(truth("poly:2", nj=1))
    start = make_family("mlp:3", X, y)
    one = fit_rhythm(X, y, start, steps=60, tolerance=1e-6)
    many = fit_rhythm(X, y, start, steps=60, tolerance=1e-6, restarts=3)
    assert many.report.rms_all <= one.report.rms_all * (1 + 1e-6)


def test_weights_and_smoothness() -> None:
    y = values(truth("poly:3", nj=1))
    half = np.arange(len(X)) < 75
    spoilt = np.where(half[:, None], y, y + 1.0)
    fit = fit_rhythm(X, spoilt, "poly:3", weights=half.astype(float))
    np.testing.assert_allclose(values(fit.rhythm)[half], y[half], atol=1e-9)
    flat = fit_rhythm(X, y, "poly:3", smoothness=1e6)
    line = fit_rhythm(X, y, "linear")
    np.testing.assert_allclose(values(flat.rhythm), values(line.rhythm), atol=1e-4)
    assert flat.report.effective < 3.1


def curve(noise: float, seed: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """300 frames of a smooth raise, and of what is beyond its ends."""
    x = np.linspace(0.2, 2.6, 300)[:, None]
    beyond = np.array([[0.0], [2.8]])
    scatter = noise * np.random.default_rng(seed).standard_normal((300, 2))

    def f(x):
        return np.hstack([0.4 * np.sin(x), 0.2 * x**2 / (1.0 + x)])

    return x, f(x) + scatter, f(beyond)


def test_smoothness_that_the_data_choose() -> None:
    x, y, outside = curve(0.004)
    beyond = np.array([[0.0], [2.8]])
    rough = fit_rhythm(x, y, "spline:8")
    smooth = fit_rhythm(x, y, "spline:8", smoothness="auto")
    assert rough.report.smoothness == 0.0
    assert 1e-6 < smooth.report.smoothness < 1.0
    assert smooth.report.effective < 0.7 * rough.report.effective
    # The same number given is the same fit.
    again = fit_rhythm(x, y, "spline:8", smoothness=smooth.report.smoothness)
    np.testing.assert_array_equal(again.coefficients, smooth.coefficients)
    errors = np.zeros(2)
    for seed in range(8):
        x, y, _ = curve(0.01, seed)
        fits = [fit_rhythm(x, y, "spline:8", smoothness=s) for s in (0.0, "auto")]
        errors += [np.mean((values(fit.rhythm, beyond) - outside) ** 2) for fit in fits]
    assert errors[1] < 0.5 * errors[0], errors


def test_smoothness_of_rows_that_weigh_nothing_is_not_asked() -> None:
    x, y, _ = curve(0.004)
    seen = np.arange(300) < 200
    spoilt = np.where(seen[:, None], y, 9.0 * np.cos(40.0 * x))
    fits = [
        fit_rhythm(x, aim, "spline:8", smoothness="auto", weights=seen.astype(float), units=False)
        for aim in (y, spoilt)
    ]
    assert fits[0].report.smoothness == fits[1].report.smoothness > 0.0
    np.testing.assert_allclose(fits[0].coefficients, fits[1].coefficients, atol=1e-10)


@pytest.mark.parametrize("family", ["spline:4", "poly:3", "fourier:2"])
def test_clean_data_choose_no_smoothness(family) -> None:
    x, _, _ = curve(0.0)
    true = truth(family, x, 2)
    fit = fit_rhythm(x, values(true, x), family, smoothness="auto")
    assert fit.report.smoothness == 0.0
    np.testing.assert_allclose(fit.coefficients, Coefficients(true).vector(), atol=1e-6)


def test_a_prior_decides_where_data_do_not() -> None:
    base = truth("linear", nj=1)
    prior = Prior.around(base, 0.1, 0.01)
    fit = fit_rhythm(X[:1], values(base)[:1], prior=prior)
    np.testing.assert_allclose(fit.coefficients, Coefficients(base).vector(), atol=1e-9)
    assert np.all(np.asarray(fit.spread) <= np.asarray(prior.spread) + 1e-12)
    # The textbook formula for a normal prior.
    y = values(base)[:4] + 0.05
    fit = fit_rhythm(X[:4], y, prior=prior)
    a = np.column_stack([X[:4], np.ones(4)])
    precision = a.T @ a / 0.01**2 + np.eye(3) / 0.1**2
    mean = np.asarray(Coefficients(base).vector())
    shift = np.linalg.solve(precision, a.T @ np.full(4, 0.05) / 0.01**2)
    np.testing.assert_allclose(fit.coefficients, mean + shift, atol=1e-9)
    np.testing.assert_allclose(fit.covariance, np.linalg.inv(precision), atol=1e-10)


def test_bands_hold_the_truth_in_95_of_100_cases() -> None:
    """200 noisy repetitions; the exact solution of each is linear in its noise."""
    family, cases = "poly:2", 200
    x = X[:40]
    true = truth(family, x, 2)
    clean = values(true, x)
    rng = np.random.default_rng(5)
    inside, on_curve = [], []
    aim = np.asarray(Coefficients(true).vector())
    where = jnp.asarray([[0.3, 0.4], [1.2, 2.0]])
    curve = np.asarray(jax.vmap(true)(where))
    for _ in range(cases):
        fit = fit_rhythm(x, clean + 0.02 * rng.normal(size=clean.shape), family)
        low, high = (np.asarray(b) for b in fit.interval())
        inside.append((low <= aim) & (aim <= high))
        band = fit.band(where)
        on_curve.append((np.asarray(band.lower) <= curve) & (curve <= np.asarray(band.upper)))
    assert 0.93 < np.mean(inside) < 0.97
    assert 0.92 < np.mean(on_curve) < 0.98


def test_gradients_of_every_loss_against_differences() -> None:
    y = jnp.asarray(values(truth("linear")) + 0.05)
    start = truth("linear")
    codec = Coefficients(start)
    xs = jnp.asarray(X)
    markers = marker_targets(Affine(np.eye(2)))
    small = Coefficients(Affine(0.9 * np.eye(2), [0.02, -0.03]))
    scale = jnp.asarray(0.03)
    cases = [
        (codec, lambda c, k=k: jnp.sum(robust(Angles(y).residuals(codec.rhythm(c), xs), scale, k)
                                       ** 2))
        for k in ("square", "huber", "soft_l1")
    ]  # fmt: skip
    turns = Orientations(0.3 * y, "YXZ")
    cases += [
        (codec, lambda c: jnp.sum(turns.residuals(codec.rhythm(0.3 * c), xs) ** 2)),
        (small, lambda c: jnp.sum(markers.residuals(small.rhythm(c), xs[:40]) ** 2)),
    ]
    for codec_, loss in cases:
        at = codec_.vector() + 0.01
        along = jnp.asarray(np.random.default_rng(0).normal(size=at.shape))
        run = jax.jit(loss)
        h = 1e-5
        difference = (run(at + h * along) - run(at - h * along)) / (2 * h)
        np.testing.assert_allclose(jax.grad(run)(at) @ along, difference, rtol=1e-6)


def test_cross_validation_and_choice_of_family() -> None:
    y = values(truth("poly:2")) + 0.01 * RNG.normal(size=(len(X), 3))
    checked = cross_validate(X, y, "poly:2")
    assert 0.009 < checked.rms_all < 0.012
    assert len(checked.folds) == 5
    by_trial = cross_validate(X, y, "poly:2", groups=np.arange(len(X)) % 3)
    assert set(by_trial.folds) == {"0", "1", "2"}
    for criterion in ("cv", "bic"):
        choice = choose_family(X, y, ("linear", "poly:2", "poly:3"), criterion=criterion)
        assert choice.family == "poly:2"
    with pytest.raises(ValueError, match="one group only"):
        cross_validate(X, y, groups=np.zeros(len(X)))


def test_poses_are_spread() -> None:
    rows = choose_poses(X, 5)
    assert len(set(rows.tolist())) == 5
    assert np.ptp(X[rows], axis=0).min() > 0.75 * np.ptp(X, axis=0).min()
    prior = Prior.around(truth("linear"), 0.2, 0.01)
    assert len(set(choose_poses(X, 5, prior).tolist())) == 5
    with pytest.raises(ValueError, match="500 poses of 150 rows"):
        choose_poses(X, 500)


def test_splines_leave_no_hole_between_planes() -> None:
    """Three planes cannot determine a spline across them: it takes its smoothest course."""
    x = np.column_stack([np.repeat(np.radians([0.0, 40.0, 90.0]), 30), np.tile(X[:30, 1], 3)])
    y = np.column_stack([np.sin(x[:, 1]) + 0.2 * x[:, 0]])
    fit = fit_rhythm(x, y, "spline:2:3")
    assert fit.report.notes
    assert fit.report.rms_all < 2e-3
    between = values(fit.rhythm, np.array([[np.radians(65.0), 1.0]]))
    np.testing.assert_allclose(between, np.sin(1.0) + 0.2 * np.radians(65.0), atol=0.01)


Y = values(truth("linear"))
BROKEN = [
    (X[:2], Y[:2], {"family": "linear"}, "fewer than the 9 parameters of linear.*prior"),
    (np.column_stack([0 * X[:, 0], X[:, 1]]), Y, {}, r"input 'plane' is constant \(0 in all 150"),
    (np.where(np.arange(150)[:, None] == 7, np.nan, X), Y, {}, r"inputs are NaN.*rows.*: 7;"),
    (X, np.where(np.arange(150)[:, None] == 9, np.inf, Y), {}, "targets are NaN.*: 9;"),
    (np.degrees(X), Y, {}, "input 'plane' should be in radians but is 8.*degrees"),
    (X, np.degrees(Y), {}, "target 'a' should be in radians"),
    (X, Y, {"family": "cubic"}, "no family 'cubic'; there are linear, poly"),
    (X, Y, {"family": "poly:x"}, "'poly:x' is no family"),
    (X, Y[:9], {}, "150 rows of inputs for 9 rows of targets"),
    (X, Y, {"loss": "cauchy"}, 'loss = "cauchy"'),
    (X, Y, {"solver": "exact", "family": "mlp:2"}, '"exact" needs a family that is linear'),
    (X, Y, {"solver": "nonsense", "family": "mlp:2"}, 'solver = "nonsense"'),
    (X, Y, {"weights": -np.ones(150)}, "weights must be finite"),
    (X, Y, {"weights": {"z": 1.0}}, "no target 'z' to weight; there are a, b, c"),
    (X, Y, {"prior": Prior.around(Affine([[1.0]]), 1, 1)}, "2 columns of inputs for a rhythm of 1"),
    (X, Y, {"free": lambda r: ()}, "nothing of this"),
    (X, Y, {"smoothness": -1.0}, r'smoothness = -1.0; "auto" or a number of at least 0'),
    (X, Y, {"smoothness": "much"}, "smoothness = 'much'"),
    (X, Y, {"smoothness": "auto", "family": "mlp:2"}, "linear in its coefficients.*mlp:2"),
    (X, Y, {"smoothness": "auto", "prior": Prior.around(Affine(np.ones((3, 2))), 1, 1)}, "prior"),
]


@pytest.mark.parametrize(("x", "y", "options", "message"), BROKEN)
def test_what_cannot_work_says_so(x, y, options, message) -> None:
    names = {"input_names": ("plane", "elevation"), "target_names": ("a", "b", "c")}
    with pytest.raises(ValueError, match=message):
        fit_rhythm(x, y, **(names | options))


def test_names_and_report() -> None:
    fit = fit_rhythm(
        X, Y, "poly:2", input_names=("plane", "elevation"), target_names=("a", "b", "c")
    )
    assert isinstance(fit.rhythm, Named)
    assert fit.labels[3] == "a: plane^2"
    assert "poly:2: 18 parameters" in str(fit)
    assert eb.fit_rhythm is fit_rhythm
