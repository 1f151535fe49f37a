"""Many subjects at once, and what they say about the next one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.bench._fitting import population
from empbody.fitting import Coefficients, choose_family, choose_poses, fit_population, fit_rhythm
from empbody.fitting._features import directions
from empbody.fitting._mixed import shrunk

NAMES = {"input_names": ("plane", "elevation"), "target_names": ("a", "b", "c")}
X, Y, WHO = population(subjects=24, rows=40, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return fit_population(X, Y, WHO, "poly:3", **NAMES)


def rms(rhythm, x, y) -> float:
    miss = np.asarray(jax.vmap(rhythm)(jnp.asarray(x))) - y
    return float(np.degrees(np.sqrt(np.mean(miss**2))))


def test_subjects_and_noise_are_found(fitted) -> None:
    assert fitted.converged
    np.testing.assert_allclose(np.degrees(fitted.prior.noise), 0.5, rtol=0.1)
    mine = WHO == 3
    own = fit_rhythm(X[mine], Y[mine], "poly:3")
    # With 40 rows each, a subject's own fit and the shared one agree within the noise.
    assert rms(fitted.subject(3), X[mine], Y[mine]) < 1.3 * np.degrees(own.report.rms_all)
    assert len(fitted.subjects) == 24
    assert fitted.labels[1] == "a: plane"
    with pytest.raises(ValueError, match="no subject 99"):
        fitted.subject(99)


def test_spread_is_that_of_the_subjects(fitted) -> None:
    spread = np.asarray(fitted.prior.spread)
    scatter = np.asarray(fitted.coefficients).std(axis=0, ddof=1)
    np.testing.assert_allclose(spread, scatter, rtol=0.4)
    np.testing.assert_allclose(np.mean(spread / scatter), 1.0, rtol=0.15)
    np.linalg.cholesky(np.asarray(fitted.prior.covariance) + 1e-12 * np.eye(len(spread)))


def test_the_prior_helps_a_new_subject(fitted) -> None:
    x, y, _ = population(subjects=25, rows=40, seed=1)  # another draw of the same population
    x, y = x[-40:], y[-40:]
    with pytest.raises(ValueError, match="fewer than the"):
        fit_rhythm(x[:5], y[:5], "poly:3")
    rows = choose_poses(x, 5, fitted.prior)
    few = fit_rhythm(x[rows], y[rows], prior=fitted.prior)
    alone = fit_rhythm(x[rows], y[rows], "linear")
    assert rms(few.rhythm, x, y) < rms(fitted.rhythm, x, y)
    assert rms(few.rhythm, x, y) < rms(alone.rhythm, x, y)
    assert few.report.effective <= 15
    many = fit_rhythm(x, y, prior=fitted.prior)
    assert rms(many.rhythm, x, y) < 0.7


def test_leaving_subjects_out_is_honest(fitted) -> None:
    left = fitted.left_out
    assert left.poses == 5
    assert left.rms.shape == (20, 3)
    assert left.mean < np.sqrt((left.unmeasured**2).mean(axis=1)).mean()
    # One fold done by hand: the subject's rows are nowhere in the prior.
    name = left.subjects[0]
    other = str(name) != WHO.astype(str)
    prior = fit_population(X[other], Y[other], WHO[other], "poly:3", leave_one_out=None).prior
    mine = ~other
    rows = choose_poses(X[mine], 5, prior)
    fit = fit_rhythm(X[mine][rows], Y[mine][rows], prior=prior)
    rest = np.setdiff1d(np.arange(mine.sum()), rows)
    by_hand = rms(fit.rhythm, X[mine][rest], Y[mine][rest])
    claimed = float(np.degrees(np.sqrt((left.rms[0] ** 2).mean())))
    np.testing.assert_allclose(by_hand, claimed, rtol=0.15)  # the box of inputs differs a little


@pytest.mark.slow
def test_families_that_are_not_linear_are_linearised() -> None:
    found = fit_population(X[:400], Y[:400], WHO[:400], "mlp:3", leave_one_out=None)
    assert found.coefficients.shape == (10, 3 * 3 + 4 * 3)
    assert np.isfinite(np.asarray(found.prior.covariance)).all()


def test_ragged_rows_give_the_same_as_weights() -> None:
    keep = np.ones(len(X), dtype=bool)
    keep[5:25] = False
    a = fit_population(X[keep], Y[keep], WHO[keep], "linear", leave_one_out=None)
    b = fit_population(X, Y, WHO, "linear", weights=keep.astype(float), leave_one_out=None)
    np.testing.assert_allclose(a.coefficients, b.coefficients, atol=1e-4)


def test_choice_of_family_for_new_subjects() -> None:
    keep = WHO < 8
    choice = choose_family(X[keep], Y[keep], ("linear", "poly:3"), subjects=WHO[keep])
    assert choice.family == "poly:3"


def test_directions_are_orthonormal_from_smooth_to_rough() -> None:
    rhythm = eb.fitting.make_family("poly:3", X, Y)
    found = directions(rhythm, X)
    assert found.matrix.shape == (Coefficients(rhythm).size, 30)
    assert found.members.shape == (3, 10)
    rough = found.roughness[found.block == 0]
    assert np.all(np.diff(rough) >= -1e-9)
    assert rough[0] < 1e-9


def test_shrinkage_keeps_variances() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(6, 4))
    scatter = jnp.asarray(a.T @ a / 5)
    out = shrunk(scatter, jnp.asarray([0, 0, 1, 1]), jnp.asarray(6.0))
    np.testing.assert_allclose(jnp.diagonal(out), jnp.diagonal(scatter))
    assert np.all(np.abs(np.asarray(out)) <= np.abs(np.asarray(scatter)) + 1e-15)
    assert np.linalg.eigvalsh(np.asarray(out)).min() > 0


def test_what_cannot_work_says_so() -> None:
    two = WHO < 2
    with pytest.raises(ValueError, match=r"2 subjects .* at least 3"):
        fit_population(X[two], Y[two], WHO[two])
    with pytest.raises(ValueError, match="should be in radians"):
        fit_population(np.degrees(X), Y, WHO, **NAMES)
    with pytest.raises(ValueError, match="subjects; one each"):
        fit_population(X, Y, WHO[:-1])
