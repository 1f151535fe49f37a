"""Inverse kinematics and inverse dynamics of whole motions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

import empbody as eb
from empbody.io import Markers, Motion
from empbody.pipeline import MarkerSet, in_blocks, marker_positions, moment_labels

ROWS = 300
PLACES = [
    ("ground", (0.0, 0.3, 0.1)),
    ("upper", (0.03, -0.05, 0.04)),
    ("upper", (-0.03, -0.2, 0.02)),
    ("slider", (0.02, 0.0, 0.05)),
    ("fore", (0.03, -0.1, 0.0)),
    ("fore", (-0.02, -0.2, 0.03)),
    ("fore", (0.0, -0.25, -0.04)),
]
NAMES = tuple(f"m{i}" for i in range(len(PLACES)))


@pytest.fixture(scope="module")
def model() -> eb.Model:
    """Two turning coordinates and a sliding one; a fourth joint follows the elbow."""
    turn = eb.Revolute
    bodies = [
        eb.Body("upper", joint=turn((0, 0, 1)), mass=2.0, com=(0, -0.15, 0), inertia=(0.01,) * 3),
        eb.Body(
            "slider", "upper", eb.Prismatic((0, 1, 0), translation=(0, -0.1, 0)), mass=0.1,
            com=(0, 0, 0), inertia=(1e-4,) * 3,
        ),
        eb.Body(
            "elbow", "upper", turn((0, 0, 1), translation=(0, -0.3, 0)), mass=0.0, com=(0, 0, 0),
            inertia=(0.0,) * 3,
        ),
        eb.Body("fore", "elbow", turn((0, 1, 0)), mass=1.5, com=(0, -0.12, 0),
                inertia=(0.008, 0.001, 0.008)),
    ]  # fmt: skip
    follow = jnp.array([[1.0, 0, 0], [0, 0, 1.0], [0, 1.0, 0], [0, 0.4, 0]])
    markers = [
        eb.Marker(name, *place) for name, place in zip(NAMES, PLACES, strict=True)
    ]  # fmt: skip
    return eb.Model.build(
        coordinates=("shoulder", "elbow", "slide"),
        bodies=bodies,
        rhythm=eb.rhythms.Affine(follow, jnp.zeros(4)),
        ranges={"elbow": (0.0, 2.0), "slide": (-0.05, 0.05)},
        markers=markers,
    )


@pytest.fixture(scope="module")
def motion() -> tuple[np.ndarray, np.ndarray]:
    time = np.arange(ROWS) / 100
    q = np.stack(
        [0.8 * np.sin(2 * time), 1.0 + 0.9 * np.cos(3 * time), 0.03 * np.sin(5 * time)], axis=1
    )
    return time, q


@pytest.fixture(scope="module")
def measured(model, motion) -> np.ndarray:
    return np.asarray(marker_positions(model, MarkerSet.of(model, NAMES), jnp.asarray(motion[1])))


def test_markers_are_where_points_are(model, motion, measured):
    for k, (body, point) in enumerate(PLACES):
        expected = jax.vmap(lambda q, b=body, p=point: eb.point_position(model, q, b, p))(
            jnp.asarray(motion[1][:3])
        )
        np.testing.assert_allclose(measured[:3, k], expected, atol=1e-15)


def test_exact_markers_give_the_motion_back(model, motion, measured):
    found = eb.inverse_kinematics(model, Markers(motion[0], NAMES, measured, 100.0))
    assert found.converged.all()
    np.testing.assert_allclose(found.q, motion[1], atol=1e-7)
    assert found.rms.max() < 1e-8
    assert not found.undetermined.any()
    assert found.marker_names == NAMES


def test_noisy_markers_agree_with_scipy(model, motion, measured):
    noisy = measured + 0.003 * np.random.default_rng(0).normal(size=measured.shape)
    weights = {"m1": 5.0, "m4": 0.5, "m6": 0.0}
    tracks = {name: noisy[:, k] for k, name in enumerate(NAMES)} | {"spare": noisy[:, 0]}
    found = eb.inverse_kinematics(model, tracks, weights, tolerance=1e-12)
    assert found.unused == ("spare",)
    root = np.sqrt([weights.get(name, 1.0) for name in NAMES])[:, None]
    markers = MarkerSet.of(model, NAMES)

    for row in (0, 57, 211, 290):

        def residual(q, row=row):
            here = marker_positions(model, markers, jnp.asarray(q)[None])[0]
            return np.ravel(root * (np.asarray(here) - noisy[row]))

        bounds = np.asarray(model.lower), np.asarray(model.upper)
        start = np.clip(motion[1][row], *np.array(bounds) * (1 - 1e-9))
        options = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
        theirs = least_squares(residual, start, bounds=bounds, **options)
        np.testing.assert_allclose(found.q[row], theirs.x, atol=2e-6)
        counted = np.array([0, 1, 2, 3, 4, 5])
        rms = np.sqrt(np.mean(found.errors[row, counted] ** 2))
        np.testing.assert_allclose(found.rms[row], rms)


def test_missing_markers_are_left_out(model, motion, measured):
    gaps = measured.copy()
    gaps[50:90, 5] = np.nan
    gaps[100:120, 4:] = np.nan  # nothing left on the forearm
    gaps[120:125, 3] = np.nan  # nor on the slider
    gaps[130] = np.nan
    found = eb.inverse_kinematics(model, {n: gaps[:, k] for k, n in enumerate(NAMES)})
    whole = np.ones(ROWS, dtype=bool)
    whole[100:125] = whole[130] = False
    np.testing.assert_allclose(found.q[whole], motion[1][whole], atol=1e-7)
    assert np.isnan(found.errors[60, 5])
    assert found.undetermined[110].tolist() == [False, True, False]
    assert found.undetermined[122].tolist() == [False, False, True]
    assert np.all(np.isfinite(found.q[100:125]))
    assert np.isnan(found.q[130]).all()
    assert np.isnan(found.rms[130])
    assert not found.converged[130]


def test_coordinates_stay_in_their_ranges(model, motion, measured):
    beyond = motion[1].copy()
    beyond[:, 2] += 0.04
    points = np.asarray(marker_positions(model, MarkerSet.of(model, NAMES), jnp.asarray(beyond)))
    tracks = {n: points[:, k] for k, n in enumerate(NAMES)}
    bounded = eb.inverse_kinematics(model, tracks)
    assert bounded.q[:, 2].max() == 0.05
    assert bounded.converged.all()
    free = eb.inverse_kinematics(model, tracks, bounded=False)
    np.testing.assert_allclose(free.q, beyond, atol=1e-7)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"markers": {"x": np.zeros((3, 3))}}, r"none of the markers measured \(x\)"),
        ({"markers": {"m1": np.zeros((3, 2))}}, r"arrays \(rows, 3\)"),
        ({"markers": {"m1": np.full((3, 3), np.nan)}}, "no frame shows any of the markers m1"),
        ({"weights": {"m9": 1.0}}, "there is no such marker"),
        ({"weights": {"m1": -1.0}}, "from 0 up"),
        ({"weights": {"m1": 0.0}}, "all markers have weight 0"),
        ({"q0": np.zeros(2)}, r"q0 has shape \(2,\) for 3 coordinates"),
        ({"q0": np.full(3, np.nan)}, "not finite"),
    ],
)
def test_what_does_not_fit_is_told(model, change, sentence):
    given = {"markers": {"m1": np.zeros((3, 3))}} | change
    with pytest.raises(ValueError, match=sentence):
        eb.inverse_kinematics(model, given.pop("markers"), **given)


def test_inverse_dynamics_along_a_motion(model, motion):
    time, q = motion
    found = eb.inverse_dynamics_along(model, Motion.of(model, time, q))
    speed = np.stack(
        [1.6 * np.cos(2 * time), -2.7 * np.sin(3 * time), 0.15 * np.cos(5 * time)], axis=1
    )
    push = np.stack(
        [-3.2 * np.sin(2 * time), -8.1 * np.cos(3 * time), -0.75 * np.sin(5 * time)], axis=1
    )
    inner = slice(20, -20)  # splines have natural ends
    np.testing.assert_allclose(found.qd[inner], speed[inner], atol=1e-6)
    np.testing.assert_allclose(found.qdd[inner], push[inner], atol=1e-4)
    row = 150
    need = eb.inverse_dynamics(model, found.q[row], found.qd[row], found.qdd[row])
    np.testing.assert_allclose(found.tau[row], need, rtol=1e-12)
    table = found.table()
    assert table.labels == ("shoulder_moment", "elbow_moment", "slide_force")
    assert table.labels == moment_labels(model)
    assert table.time.size == ROWS


def test_smoothing_lowers_noise(model, motion):
    time, q = motion
    noisy = Motion.of(model, time, q + 1e-3 * np.random.default_rng(1).normal(size=q.shape))
    clean = eb.inverse_dynamics_along(model, Motion.of(model, time, q)).tau
    errors = [
        np.abs(eb.inverse_dynamics_along(model, noisy, **options).tau - clean)[30:-30].max()
        for options in ({}, {"lowpass": 6.0}, {"spline": 6.0}, {"spline": "auto"})
    ]
    assert max(errors[1:]) < 0.1 * errors[0]


def test_a_motion_of_another_model_is_refused(model, motion):
    other = Motion(motion[0], motion[1], ("a", "b", "c"), (True, True, True))
    with pytest.raises(ValueError, match="a motion of a, b, c for a model of shoulder, elbow"):
        eb.inverse_dynamics_along(model, other)


@pytest.mark.parametrize("rows", [1, 256, 300])
def test_blocks_give_every_row_once(rows):
    counted = []
    values = np.arange(rows, dtype=float)
    out = in_blocks(lambda x: 2 * x, values, progress=lambda done, total: counted.append(done))
    np.testing.assert_array_equal(out, 2 * values)
    assert counted[-1] == rows


def test_sharing_names_frames_out_of_a_moving_points_range():
    """Frames are looked at before anything is computed."""
    slide = eb.rhythms.Affine([[0.01], [0.0], [0.0]], [0.05, -0.05, 0.0])
    muscle = eb.Muscle(
        "mover",
        [
            eb.PathPoint("ground", (0.03, 0.1, 0.0)),
            eb.MovingPoint("link", slide, ("angle",), ranges={"angle": (-1.0, 1.0)}),
        ],
        max_isometric_force=500.0,
        optimal_fibre_length=0.1,
        tendon_slack_length=0.05,
        tendon="rigid",
    )
    link = eb.Body("link", joint=eb.Revolute((0, 0, 1)), mass=1.0, com=(0, -0.1, 0))
    model = eb.Model.build(("angle",), [link], muscles=[muscle])
    q = jnp.array([[0.5], [0.9], [1.2], [1.3]])
    with pytest.raises(ValueError, match=r"frame 3 of 4: point 2 of 'mover' moves with 'angle'"):
        eb.sharing.share_frames(model, q, 0.0 * q, 0.0 * q)
    with pytest.raises(ValueError, match="point 2 of 'mover' moves with 'angle'"):
        eb.share_forces(model, q[2], jnp.zeros(1), jnp.zeros(1))
