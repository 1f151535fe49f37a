"""Recordings made usable: gaps, resampling, filters and smoothing splines."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.interpolate

from empbody.signals import (
    fill_gaps,
    find_gaps,
    low_pass,
    resample,
    rows_at_ends,
    smooth,
    smoothing_spline,
)
from empbody.signals._checks import signal

RATE = 100.0


def sines(*frequencies, seconds=10.0, rate=RATE):
    time = np.arange(round(seconds * rate) + 1) / rate
    return time, np.stack([np.sin(2 * np.pi * f * time) for f in frequencies], axis=1)


def gain(values, reference):
    """Amplitude of a sine relative to the input's, away from the ends."""
    inner = slice(len(values) // 4, -len(values) // 4)
    return np.linalg.norm(values[inner]) / np.linalg.norm(reference[inner])


# Filters


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize("cutoff", [3.0, 6.0, 20.0])
def test_cutoff_is_where_half_of_the_power_passes(order, cutoff):
    time, x = sines(cutoff)
    assert gain(low_pass(time, x, cutoff=cutoff, order=order), x) == pytest.approx(0.5**0.5, 1e-3)
    plain = low_pass(time, x, cutoff=cutoff, order=order, corrected=False)
    assert gain(plain, x) == pytest.approx(0.5, 1e-3)


def test_filter_has_no_lag_and_falls_off():
    time, x = sines(1.0, 12.0)
    y = low_pass(time, x)  # 6 Hz, fourth order
    inner = slice(200, -200)
    # no lag: what is left is in phase
    np.testing.assert_allclose(y[inner, 0], x[inner, 0] * gain(y[:, 0], x[:, 0]), atol=1e-6)
    assert gain(y[:, 0], x[:, 0]) == pytest.approx(1.0, abs=1e-3)
    # an octave above: squared gain of two passes with C = (√2 - 1)^(1/4), prewarped
    warped = np.tan(np.pi * 12 / RATE) / np.tan(np.pi * 6 / RATE) * (np.sqrt(2) - 1) ** 0.25
    assert gain(y[:, 1], x[:, 1]) == pytest.approx(1 / (1 + warped**4), 1e-3)


def test_filter_keeps_shapes_and_straight_lines():
    time = np.arange(200) / RATE
    x = (time[:, None, None] * np.arange(1.0, 7.0).reshape(1, 2, 3)) + 3.0
    np.testing.assert_allclose(low_pass(time, x), x, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": 3}, "even order"),
        ({"cutoff": 50.0}, "between 0 and 50 Hz"),
        ({"cutoff": 0.0}, "between 0 and 50 Hz"),
    ],
)
def test_filter_refuses(options, words):
    time, x = sines(1.0)
    with pytest.raises(ValueError, match=words):
        low_pass(time, x, **options)


def test_bad_signals_are_named():
    time, x = sines(1.0, 2.0)
    gap = x.copy()
    gap[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"row 8, column 2 is not a number; fill_gaps"):
        low_pass(time, gap)
    late = time.copy()
    late[20:] += 0.5
    with pytest.raises(ValueError, match=r"not even: at row 21 .* use resample"):
        low_pass(late, x)
    late[5] = late[4]
    with pytest.raises(ValueError, match="time does not increase at row 6"):
        smooth(late, x)
    with pytest.raises(ValueError, match=r"shape \(1001,\) for values of shape \(3,\)"):
        signal(time, np.zeros(3))
    with pytest.raises(ValueError, match="5 rows are too few"):
        low_pass(time[:5], x[:5])
    with pytest.raises(ValueError, match="5 rows are too few"):
        smooth(time[:5], x[:5])
    # times that were rounded to milliseconds are even
    low_pass(np.round(np.arange(200) / 120, 3), np.zeros(200))


# Resampling and gaps


def test_resampling():
    time, x = sines(1.0, 3.0)
    new, y = resample(time, x, rate=250.0)
    np.testing.assert_allclose(new, np.arange(2501) / 250)
    np.testing.assert_allclose(y, sines(1.0, 3.0, rate=250.0)[1], atol=2e-4)
    new, z = resample(time, x, at=new, order=5)
    np.testing.assert_allclose(z, sines(1.0, 3.0, rate=250.0)[1], atol=1e-5)
    np.testing.assert_allclose(resample(time, x, at=time, order=1)[1], x)
    new, y = resample(np.array([0.0, 0.4, 1.0]), np.array([0, 4, 10]), rate=3.0, order=1)
    np.testing.assert_allclose(y, [0, 10 / 3, 20 / 3, 10])
    for options, words in [
        ({}, "either rate or at"),
        ({"rate": -1.0}, "samples per second"),
        ({"at": np.array([11.0])}, "time 11 is outside the recording, 0 to 10 s"),
        ({"rate": 9.0, "order": 2}, "choose 1, 3 or 5"),
    ]:
        with pytest.raises(ValueError, match=words):
            resample(time, x, **options)


def test_gaps_are_found_and_filled():
    time = np.arange(100) / RATE
    x = np.stack([np.sin(3 * time), time**3, np.full(100, np.nan)], axis=1)[:, None, :]
    broken = x.copy()
    broken[10:15, 0, 0] = np.nan
    broken[40:70, 0, 1] = np.nan
    broken[:3, 0, 1] = np.nan
    gaps = find_gaps(time, broken)
    assert [(g.column, g.first, g.last, g.at_end) for g in gaps] == [
        (1, 0, 2, True),
        (2, 0, 99, True),
        (0, 10, 14, False),
        (1, 40, 69, False),
    ]
    assert gaps[2].duration == pytest.approx(0.06)
    filled = fill_gaps(time, broken, longest=0.1)
    np.testing.assert_allclose(filled[:, 0, 0], x[:, 0, 0], atol=3e-6)
    assert np.isnan(filled[40:70, 0, 1]).all()
    filled = fill_gaps(time, broken)
    np.testing.assert_allclose(filled[3:, 0, 1], x[3:, 0, 1], atol=1e-12)  # a cubic is exact
    assert np.isnan(filled[:3, 0, 1]).all()
    assert np.isnan(filled[..., 2]).all()
    np.testing.assert_allclose(fill_gaps(time[:3], np.array([1.0, np.nan, 2.0])), [1, 1.5, 2])
    with pytest.raises(ValueError, match="duration in seconds"):
        fill_gaps(time, broken, longest=0.0)


# Smoothing splines


def test_spline_gives_derivatives_of_noisy_motion():
    rng = np.random.default_rng(0)
    frequencies = np.array([0.3, 0.8, 1.5])
    time, x = sines(*frequencies)
    noisy = x + 2e-3 * rng.normal(size=x.shape)
    found = smooth(time, noisy)
    rate = (2 * np.pi * frequencies)[None, :]
    speed = rate * np.cos(time[:, None] * rate)
    assert np.sqrt(np.mean((found.q - x) ** 2)) < 1e-3
    assert np.sqrt(np.mean((found.qd - speed) ** 2)) < 0.01 * np.sqrt(np.mean(speed**2))
    inner = slice(50, -50)
    error = found.qdd[inner] + rate**2 * x[inner]
    assert np.sqrt(np.mean(error**2)) < 0.02 * np.sqrt(np.mean((rate**2 * x) ** 2))


@pytest.mark.parametrize("cutoff", [2.0, 6.0, 15.0])
def test_spline_has_a_cutoff(cutoff):
    time, x = sines(cutoff, cutoff / 2)
    spline = smoothing_spline(time, x, cutoff=cutoff)
    assert gain(spline(time)[:, 0], x[:, 0]) == pytest.approx(0.5**0.5, 2e-3)
    drop = (np.sqrt(2) - 1) / 2**6
    assert gain(spline(time)[:, 1], x[:, 1]) == pytest.approx(1 / (1 + drop), 2e-3)
    np.testing.assert_allclose(spline.cutoff, cutoff)
    again = smoothing_spline(time, x, smoothing=float(spline.smoothing[0]))
    np.testing.assert_allclose(again(time), spline(time), atol=1e-12)


def dense_smoother(time, weight):
    """Matrix from samples to smoothed samples, by orthogonal factors of full matrices."""
    u = (time - time[0]) / (time[-1] - time[0]) * (time.size - 1)
    knots = np.concatenate([[u[0]] * 5, u, [u[-1]] * 5])
    basis = scipy.interpolate.BSpline(knots, np.eye(time.size + 4), 5)
    points, areas = np.polynomial.legendre.leggauss(3)
    half, middle = np.diff(u) / 2, (u[1:] + u[:-1]) / 2
    at = (middle[:, None] + half[:, None] * points).ravel()
    root = np.sqrt(weight * (half[:, None] * areas).ravel())
    stacked = np.vstack([basis(u), root[:, None] * basis(at, 3)])
    q = np.linalg.qr(stacked)[0][: time.size]
    return q @ q.T


@pytest.mark.parametrize("weight", [1e-3, 1.0, 1e4, 7e5, 1e9, 1e13])
@pytest.mark.parametrize("even", [True, False])
def test_spline_is_the_minimiser(weight, even):
    """Against full matrices and orthogonal factors; with thinned knots too."""
    rng = np.random.default_rng(3)
    time = np.arange(80) / RATE
    if not even:
        time = time + rng.uniform(-0.3, 0.3, 80) / RATE
    x = np.sin(4 * time) + 0.05 * rng.normal(size=80)
    mean = (time[-1] - time[0]) / 79
    spline = smoothing_spline(time, x, smoothing=weight * mean**5)
    np.testing.assert_allclose(spline(time), dense_smoother(time, weight) @ x, atol=3e-7)


def test_endless_smoothing_leaves_a_parabola():
    rng = np.random.default_rng(3)
    for rows in (7, 80, 1000):
        time = np.cumsum(rng.uniform(0.5, 1.5, rows)) / RATE
        x = rng.normal(size=rows)
        parabola = np.polynomial.Polynomial.fit(time, x, 2)
        for smoothing in (1e12, 1e30):
            found = smooth(time, x, smoothing=smoothing)
            np.testing.assert_allclose(found.q, parabola(time), atol=2e-6)


def test_cross_validation_minimises_its_score():
    rng = np.random.default_rng(4)
    time = np.sort(rng.uniform(0, 3, 70))
    x = np.sin(4 * time) + 0.02 * rng.normal(size=70)
    spline = smoothing_spline(time, x)
    mean = (time[-1] - time[0]) / 69

    def score(weight):
        matrix = dense_smoother(time, weight)
        return np.mean((x - matrix @ x) ** 2) / (1 - np.trace(matrix) / 70) ** 2

    weights = np.geomspace(1e-3, 1e7, 60)
    best = min(score(weight) for weight in weights)
    assert score(float(spline.smoothing) / mean**5) <= best * (1 + 1e-4)


@hypothesis.given(st.integers(7, 60), st.sampled_from([0.0, 1e-8, 1.0, 1e8]), st.integers(0, 2**31))
def test_quadratics_pass_unchanged(rows, smoothing, seed):
    rng = np.random.default_rng(seed)
    time = rng.normal() + np.cumsum(rng.uniform(0.005, 0.02, rows))
    a, b, c = rng.normal(size=3)
    found = smooth(time, a + b * time + c * time**2, smoothing=smoothing)
    size = 1 + abs(a) + abs(b) + abs(c)
    np.testing.assert_allclose(found.q, a + b * time + c * time**2, atol=1e-5 * size)


def test_no_smoothing_interpolates():
    time, x = sines(1.0)
    found = smooth(time, x, smoothing=0.0)
    np.testing.assert_allclose(found.q, x, atol=1e-12)
    inner = slice(20, -20)
    np.testing.assert_allclose(found.qdd[inner], -((2 * np.pi) ** 2) * x[inner], atol=1e-3)


def test_splines_have_times_of_their_own():
    time, x = sines(0.5, 1.0)
    positions = np.stack([x, -x, 2 * x], axis=-1)  # (rows, 2, 3), as markers are
    spline = smoothing_spline(time, positions, cutoff=20.0)
    at = np.linspace(1, 9, 33)
    assert spline.smoothing.shape == (2, 3)
    assert spline(at).shape == (33, 2, 3)
    step = 1e-5
    slope = (spline(at + step) - spline(at - step)) / (2 * step)
    np.testing.assert_allclose(spline(at, 1), slope, atol=1e-6)
    found = smooth(time, positions, cutoff=20.0, at=at)
    np.testing.assert_array_equal(found.qd, spline(at, 1))
    with pytest.raises(ValueError, match="outside the recording, 0 to 10 s"):
        spline(np.array([10.1]))
    for options, words in [
        ({"cutoff": 6.0, "smoothing": 1.0}, "not both"),
        ({"cutoff": 60.0}, "between 0 and 50 Hz"),
        ({"smoothing": -1.0}, "0 or positive"),
    ]:
        with pytest.raises(ValueError, match=words):
            smoothing_spline(time, x, **options)


@pytest.mark.parametrize("values", [np.zeros(50), np.ones(50), np.arange(50.0)])
def test_cross_validation_of_motion_without_noise(values):
    found = smooth(np.arange(50) / RATE, values)
    np.testing.assert_allclose(found.q, values, atol=1e-5)
    assert np.isfinite(found.qdd).all()


@pytest.mark.parametrize(("rate", "cutoff"), [(100.0, 6.0), (250.0, 4.0)])
def test_rows_at_ends_are_those_that_a_longer_recording_changes(rate, cutoff):
    time = np.arange(1500) / rate
    walk = np.cumsum(np.cumsum(np.random.default_rng(3).normal(size=(1500, 4)), axis=0), axis=0)
    part = slice(400, 1000)
    count = rows_at_ends(time[part], cutoff=cutoff)
    assert 0.5 < count * cutoff / rate < 1.2  # about one period of the cutoff
    apart = low_pass(time, walk, cutoff=cutoff)[part] - low_pass(
        time[part], walk[part], cutoff=cutoff
    )
    error = np.abs(np.diff(apart, 2, axis=0)).max(axis=1)
    assert error[count:-count].max() < 0.02 * error.max()
    assert rows_at_ends(time[:13], cutoff=cutoff) == 13
