"""The posterior of fits by NUTS, against the Gauss-Newton covariance."""

import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.fitting import Prior, fit_parameters, fit_rhythm, sample_posterior
from empbody.rhythms import Affine

pytest.importorskip("blackjax", reason="BlackJAX draws the posterior: the extra bayes")

RNG = np.random.default_rng(2)
X = RNG.uniform(0.0, 1.5, size=(40, 1))
Y = 0.3 + 0.5 * X + 0.05 * RNG.normal(size=X.shape)


@pytest.fixture(scope="module")
def plain():
    fit = fit_rhythm(X, Y, "linear")
    return fit, sample_posterior(fit, X, Y, chains=2, draws=600, warmup=200)


def test_a_linear_family_agrees_with_gauss_newton(plain) -> None:
    fit, posterior = plain
    # Noise unknown: Student's t, whose variance is dof / (dof - 2) times the covariance.
    wide = np.sqrt(38 / 36)
    spread = np.sqrt(np.diagonal(posterior.covariance)) / wide
    np.testing.assert_allclose(posterior.mean, fit.coefficients, atol=0.15 * spread.max())
    np.testing.assert_allclose(spread, fit.spread, rtol=0.12)
    shape = np.asarray(posterior.covariance) / np.outer(spread, spread) / wide**2
    expected = np.asarray(fit.covariance) / np.outer(fit.spread, fit.spread)
    np.testing.assert_allclose(shape, expected, atol=0.1)
    for ours, theirs in zip(posterior.interval(), fit.interval(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.3 * fit.spread.max())
    assert posterior.divergences == 0
    assert posterior.trustworthy
    assert bool((posterior.rhat < 1.03).all())
    assert bool((posterior.ess > 200).all())
    assert posterior.labels == fit.labels
    assert abs(float(posterior.noise.mean()) - 0.05) < 0.02


def test_bands_agree(plain) -> None:
    fit, posterior = plain
    at = jnp.linspace(0.0, 1.5, 7)[:, None]
    ours, theirs = posterior.band(at), fit.band(at)
    width = np.asarray(theirs.upper - theirs.lower)
    np.testing.assert_allclose(ours.value, theirs.value, atol=0.05 * width.max())
    np.testing.assert_allclose(ours.upper - ours.lower, width, rtol=0.2)
    noisy = posterior.band(at, noise=True)
    assert bool(((noisy.upper - noisy.lower) > 2 * (ours.upper - ours.lower)).all())


def test_with_a_prior_few_poses_are_enough() -> None:
    prior = Prior.around(Affine(np.array([[0.4]]), np.array([0.2])), (0.1, 0.2), 0.05)
    fit = fit_rhythm(X[:1], Y[:1], prior=prior)
    posterior = sample_posterior(fit, X[:1], Y[:1], chains=2, draws=600, warmup=200)
    assert posterior.noise is None
    spread = np.sqrt(np.diagonal(posterior.covariance))
    np.testing.assert_allclose(spread, fit.spread, rtol=0.12)
    np.testing.assert_allclose(posterior.mean, fit.coefficients, atol=0.02)


@pytest.mark.slow
def test_parameters_of_a_model() -> None:
    body = eb.Body("bob", "ground", eb.Revolute((0, 0, 1)), 1.0, (0, -0.5, 0), (1e-2,) * 3)
    model = eb.Model.build(("q",), [body])
    measured = jnp.asarray(1.4 + 0.1 * RNG.normal(size=30))
    fit = fit_parameters(model, lambda m: m.mass[0], lambda m: m.mass[0] - measured)
    posterior = sample_posterior(fit, chains=2, draws=400, warmup=200)
    assert posterior.labels == ("mass[0]",)
    np.testing.assert_allclose(posterior.mean[0], fit.values["mass[0]"], atol=0.01)
    spread = float(jnp.sqrt(posterior.covariance[0, 0]))
    np.testing.assert_allclose(spread, fit.errors["mass[0]"], rtol=0.2)
    with pytest.raises(ValueError, match="needs the posterior of a rhythm"):
        posterior.band(X)


def test_what_cannot_work_is_refused(plain) -> None:
    fit, _ = plain
    with pytest.raises(ValueError, match="give the inputs and targets"):
        sample_posterior(fit)
    with pytest.raises(ValueError, match="3 rows of inputs for 40"):
        sample_posterior(fit, X[:3], Y)
    with pytest.raises(ValueError, match="at least 1"):
        sample_posterior(fit, X, Y, chains=0)
