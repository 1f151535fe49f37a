"""Ten living subjects (Kolz et al. 2020, as collected by the Spartacus data set).

The table stays outside this repository; without it these tests are skipped. It has one raise
of the arm in each of three planes for every subject, and no repeated trials: a held-out trial
is a held-out stretch of a raise.
"""

import pathlib

import numpy as np
import pytest

from empbody.fitting import blocks, choose_poses, cross_validate, fit_population, fit_rhythm
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


def test_stretches_of_a_raise_that_were_not_seen(subjects) -> None:
    x, y, who = subjects
    squares = np.zeros_like(y)
    for s in np.unique(who):
        for plane in PLANES.values():
            rows = np.flatnonzero((who == s) & (np.abs(x[:, 0] - plane) < 1e-6))
            design = np.vander(x[rows, 1] / 1.4 - 1.0, 4)
            group = blocks(len(rows), 5)
            for g in range(5):
                seen, left = rows[group != g], rows[group == g]
                solution = np.linalg.lstsq(design[group != g], y[seen], rcond=None)[0]
                squares[left] = (design[group == g] @ solution - y[left]) ** 2
    assert mean_over(who, squares) < 0.75
    one = (who == who[0]) & (x[:, 0] == 0.0)
    ours = cross_validate(x[one][:, 1:], y[one], "poly:3")
    assert abs(ours.rms_all - np.sqrt(squares[one].mean())) < 1e-9
