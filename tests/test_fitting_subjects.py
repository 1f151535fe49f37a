"""Ten living subjects (Kolz et al. 2020, as collected by the Spartacus data set).

The table stays outside this repository; without it these tests are skipped. It has one raise
of the arm in each of three planes for every subject: no lowering and no repetition. So a raise
is dealt into trials: it is cut into stretches, and every fifth (or second) makes a trial that
goes over the whole range, as a repetition would.
"""

import pathlib

import jax
import numpy as np
import pytest

from empbody.fitting import (
    blocks,
    choose_poses,
    cross_validate,
    fit_population,
    fit_rhythm,
    frame_weights,
)
from empbody.io import read_observations

TABLE = pathlib.Path(__file__).parents[2] / "shared/reference/rhythms/henninger_subjects_odd.csv"
pytestmark = pytest.mark.skipif(
    not TABLE.is_file(), reason="the table of measured subjects is not beside the repository"
)
PLANES = {"frontal": 0.0, "scapular": np.radians(40.0), "sagittal": np.radians(90.0)}
TARGETS = ("st_protraction", "st_medial_rotation", "st_tilt")


@pytest.fixture(scope="module")
def subjects():
    data = read_observations(
        TABLE, ("plane", "elevation"), TARGETS, ("subject",), {"plane": PLANES}
    )
    return data.inputs, data.targets, np.asarray(data.labels["subject"])


def mean_over(who, squares) -> float:
    """Mean over subjects of the root mean square (deg)."""
    each = [np.sqrt(squares[who == s].mean()) for s in np.unique(who)]
    return float(np.degrees(np.mean(each)))


def test_the_pooled_quadratic_misses_a_new_subject(subjects) -> None:
    x, y, who = subjects
    found = cross_validate(x, y, "poly:2", groups=who)
    assert 7.6 < mean_over(who, found.residuals**2) < 8.0


@pytest.mark.parametrize("family", [pytest.param("poly:2", marks=pytest.mark.slow), "poly:3"])
def test_five_poses_with_the_population_as_prior(subjects, family) -> None:
    found = fit_population(*subjects, family)
    assert np.degrees(found.left_out.mean) < 2.3
    assert len(found.left_out.subjects) == 10


def test_five_poses_alone(subjects) -> None:
    x, y, who = subjects
    squares = np.zeros_like(y)
    for s in np.unique(who):
        mine = np.flatnonzero(who == s)
        rows = mine[choose_poses(x[mine], 5)]
        fit = fit_rhythm(x[rows], y[rows], "linear")
        guess = x[mine] @ np.asarray(fit.rhythm.matrix).T + np.asarray(fit.rhythm.offset)
        squares[mine] = (guess - y[mine]) ** 2
    assert 2.8 < mean_over(who, squares) < 3.3


def raises(x, who):
    """Rows of each subject in each plane."""
    for s in np.unique(who):
        for plane in PLANES.values():
            yield s, np.flatnonzero((who == s) & (np.abs(x[:, 0] - plane) < 1e-6))


def test_the_table_has_one_raise_in_each_plane(subjects) -> None:
    x, _, who = subjects
    found = list(raises(x, who))
    assert len(found) == 30
    for _, rows in found:
        elevation = np.degrees(x[rows, 1])
        assert elevation.argmax() == len(rows) - 1  # nothing comes down again
        assert np.max(np.maximum.accumulate(elevation) - elevation) < 4.0
        assert np.abs(np.diff(elevation)).max() < 4.0  # and nothing starts anew


@pytest.mark.parametrize(
    ("degree", "trials", "runs", "least", "most"),
    [(3, 5, 4, 0.6, 0.75), (4, 5, 4, 0.45, 0.6), (3, 5, 2, 0.8, 1.0), (3, 2, 10, 0.5, 0.7)],
)
def test_trials_that_were_not_seen(subjects, degree, trials, runs, least, most) -> None:
    x, y, who = subjects
    squares = np.zeros_like(y)
    for _, rows in raises(x, who):
        design = np.vander(x[rows, 1] / 1.4 - 1.0, degree + 1)
        group = blocks(len(rows), trials, runs)
        for g in range(trials):
            seen, left = rows[group != g], rows[group == g]
            solution = np.linalg.lstsq(design[group != g], y[seen], rcond=None)[0]
            squares[left] = (design[group == g] @ solution - y[left]) ** 2
    assert least < mean_over(who, squares) < most
    if (degree, trials, runs) != (3, 5, 4):
        return
    one = (who == who[0]) & (x[:, 0] == 0.0)
    ours = cross_validate(x[one][:, 1:], y[one], "poly:3")
    assert abs(ours.rms_all - np.sqrt(squares[one].mean())) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("family", ["poly:3", "poly:4"])
def test_a_contiguous_fifth_that_was_not_seen(subjects, family) -> None:
    # First and last fifth must be extrapolated: only a prior knows anything there.
    x, y, who = subjects
    squares, middle = np.zeros_like(y), np.zeros(len(y), dtype=bool)
    priors = {
        s: fit_population(x[who != s], y[who != s], who[who != s], family, leave_one_out=None).prior
        for s in np.unique(who)
    }
    for s, rows in raises(x, who):
        fifth = np.arange(len(rows)) * 5 // len(rows)
        found = cross_validate(
            x[rows], y[rows], None, groups=fifth, prior=priors[s], weights=frame_weights
        )
        squares[rows] = found.residuals**2
        middle[rows] = (fifth > 0) & (fifth < 4)
    errors = mean_over(who, squares), mean_over(who[middle], squares[middle])
    assert errors[0] < 1.35, errors
    assert errors[1] < 1.05, errors


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "most"), [(4, 0.4), (1, 1.1)])
def test_smooth_splines_of_rows_that_were_not_seen(subjects, runs, most) -> None:
    """Of elevation alone, without any prior: stretches in turn, and contiguous fifths."""
    x, y, who = subjects
    squares = np.zeros_like(y)
    for _, rows in raises(x, who):
        group = blocks(len(rows), 5, runs)
        for g in range(5):
            seen, left = rows[group != g], rows[group == g]
            some = seen[np.linspace(0, len(seen) - 1, 64).astype(int)]  # one shape: compiled once
            fit = fit_rhythm(x[some][:, 1:], y[some], "spline:8", smoothness="auto")
            # To the same length again, by repeating the last row.
            padded = np.pad(x[left][:, 1:], ((0, 64 - len(left)), (0, 0)), mode="edge")
            guess = np.asarray(jax.vmap(fit.rhythm)(padded))[: len(left)]
            squares[left] = (guess - y[left]) ** 2
    assert mean_over(who, squares) < most, mean_over(who, squares)
