"""Pre-modelling: the errors it has, as reported, and what it refuses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mechanism_tables as tables
import numpy as np
import pytest

from empbody.models._loops import FiveBarLoop, FourBarLoop, SqueezerLoop
from empbody.rhythms import Fourier, FourierTensor, Spline, TensorSpline, premodel

PI = np.pi
FOUR_BAR = (FourBarLoop(), [2.0], [PI / 2, -PI / 2, -np.arctan(2.0)], -2.0, 2.0)
SQUEEZER = (SqueezerLoop(), [0.0], [-0.34, 0.487, -1.116, -1.349, 1.349, -1.054], -PI, PI)
FIVE_BAR = (FiveBarLoop(), [0.0, 0.0], [1.9, -2.8], -PI, PI)


@eqx.filter_jit
def evaluate(rhythm, q):
    return jax.vmap(lambda x: (rhythm(x), rhythm.jacobian(x), rhythm.hessian(x)))(q)


def errors(rhythm, mechanism):
    q, *expected = tables.load(mechanism)
    found = evaluate(rhythm, jnp.asarray(q))
    return [float(np.max(np.abs(a - b))) for a, b in zip(found, expected, strict=True)]


def inner_errors(rhythm):
    """As `errors`, for the four-bar away from its folds: |q| ≤ 1.5."""
    q, *expected = tables.load("four_bar")
    found = evaluate(rhythm, jnp.asarray(q))
    inner = np.abs(q[:, 0]) <= 1.5
    return [float(np.max(np.abs(a - b)[inner])) for a, b in zip(found, expected, strict=True)]


def test_cubic_as_in_the_manuscript_is_poor_in_the_second_derivative():
    rhythm, report = premodel(*FOUR_BAR, family="cubic", step=0.01)
    assert isinstance(rhythm, Spline)
    assert report.samples == 401
    # Natural ends force f'' = 0 where it is about 22; the report must not hide it.
    assert errors(rhythm, "four_bar")[2] > 20
    assert np.max(report.hessian) > 20
    assert 1e-5 < np.max(report.value) < 1e-3
    assert report.closure < 1e-3
    value, first, second = inner_errors(rhythm)
    assert value < 1e-12  # the table's rows are samples of the sweep
    assert first < 1e-6
    assert 1e-3 < second < 1e-2


def test_quintic_is_better():
    rhythm, report = premodel(*FOUR_BAR, family="quintic", step=0.01)
    _, first, second = inner_errors(rhythm)
    assert first < 1e-8
    assert second < 1e-5
    # Near the folds even a quintic is off by 0.15 of 22.
    assert 0.01 < np.max(report.hessian) < 0.2
    assert np.max(report.value) < 1e-6
    assert "quintic, 401 samples" in str(report)


@pytest.mark.parametrize(("order", "bound"), [(8, 1e-6), (20, 1e-13)])
def test_fourier_of_the_squeezer(order, bound):
    rhythm, report = premodel(*SQUEEZER, family="fourier", order=order, periodic=True, n=256)
    assert isinstance(rhythm, Fourier)
    assert np.max(report.value) < bound
    assert max(errors(rhythm, "squeezer")) < 1e2 * bound
    np.testing.assert_array_equal(rhythm.winding, 0.0)


def test_periodic_spline_of_the_squeezer():
    rhythm, report = premodel(*SQUEEZER, family="quintic", n=256, periodic=True)
    assert np.max(report.hessian) < 1e-5
    q = jnp.asarray([[0.3], [0.3 + 6 * PI]])
    value = evaluate(rhythm, q)[0]
    np.testing.assert_allclose(value[0], value[1], atol=1e-12)


def test_two_coordinates():
    rhythm, report = premodel(*FIVE_BAR, n=48)
    assert isinstance(rhythm, TensorSpline)
    assert np.max(report.value) < 1e-4
    series, fourier = premodel(*FIVE_BAR, n=32, family="fourier", order=10, periodic=True)
    assert isinstance(series, FourierTensor)
    np.testing.assert_allclose(series.winding, [[-1.0, -1.0], [0.0, 0.0]], atol=1e-12)
    assert np.max(fourier.value) < 1e-2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "fourier", "order": 3}, "full periods"),
        ({"family": "fourier", "periodic": True}, "order="),
        ({"order": 3}, "order="),
        ({"step": -0.1}, "positive"),
        ({"n": 10, "step": 0.1}, "either n"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        premodel(*FOUR_BAR, **change)


def test_a_winding_unknown_is_not_a_periodic_spline():
    with pytest.raises(ValueError, match="winds"):
        premodel(*FIVE_BAR, n=32, periodic=True)
