"""Paths as lines to draw: on their surfaces, as long as the path, and drawn."""

import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody import viz
from empbody.paths._polyline import _strings
from empbody.paths._string import unit_lengths

LINK = eb.Body("link", joint=eb.Revolute((0, 0, 1)), mass=1.0, inertia=(1, 1, 1))
CYLINDER = eb.WrapCylinder(
    "cylinder", "ground", 0.03, length=0.2, translation=(0.01, 0, 0), rotation=(0.2, 0.1, 0)
)
ELLIPSOID = eb.WrapEllipsoid(
    "ellipsoid", "link", (0.02, 0.035, 0.05), translation=(0.02, 0, 0.4), rotation=(0.3, 0.2, 0.1)
)
Q = jnp.array([-0.1])


def path(name, begin, end, *wraps):
    begin, end = eb.PathPoint("ground", begin), eb.PathPoint("link", end)
    return eb.Path(name, [begin, end], [eb.Wrap(surface) for surface in wraps])


def build(units, surfaces):
    return eb.Model.build(("angle",), [LINK], muscles=units, surfaces=surfaces)


def polyline_length(points):
    return np.linalg.norm(np.diff(points, axis=0), axis=1).sum()


def in_frame(model, surface, points):
    """Points of the ground in the frame of a surface."""
    slot = model.paths.layout.surfaces[surface]
    frame = np.eye(4) if slot.body < 0 else np.asarray(eb.body_transforms(model, Q)[slot.body])
    body = (points - frame[:3, 3]) @ frame[:3, :3]
    shifted = body - np.asarray(model.paths.surface_translation[surface])
    return shifted @ np.asarray(model.paths.surface_rotation[surface])


@pytest.fixture(scope="module")
def model():
    """Both kinds alone, both on one stretch, one-sided, with an end inside, and free."""
    units = [
        path("round", (-0.1, 0.02, 0.01), (0.12, 0.015, -0.02), "cylinder"),
        path("egg", (-0.08, -0.05, 0.38), (0.12, 0.01, 0.41), "ellipsoid"),
        path("held", (-0.1, 0.05, 0.0), (0.12, 0.0, -0.02), "sided"),
        path("dipped", (-0.1, 0.02, 0.01), (0.02, 0.005, 0.0), "cylinder"),
        path("free", (-0.1, 0.3, 0.0), (0.12, 0.3, 0.0), "cylinder"),
        path("both", (-0.2, 0.03, 0.0), (0.2, -0.01, 0.0), "cylinder", "post"),
    ]
    sided = eb.WrapCylinder("sided", "ground", 0.03, quadrant="-y")
    post = eb.WrapCylinder("post", "link", 0.02, translation=(0.1, 0, 0))
    return build(units, [CYLINDER, ELLIPSOID, sided, post])


@pytest.fixture(scope="module")
def lengths(model):
    # From what the lines are made of, which saves compiling all of it again.
    found = unit_lengths(model.paths.layout, _strings(model, Q))[:, 0]
    return dict(zip(model.muscle_names, found, strict=True))


def test_lines_are_as_long_as_the_paths(model, lengths):
    errors = []
    for count in (25, 201):
        lines = eb.path_polylines(model, Q, count)
        assert list(lines) == list(model.muscle_names)
        errors.append([float(lengths[name]) - polyline_length(lines[name]) for name in lines])
    coarse, fine = np.abs(errors)
    # Chords are too short by the square of their number.
    assert np.all(np.asarray(errors) > -1e-9)
    assert coarse.max() < 3e-5
    assert np.all(fine < coarse / 50 + 1e-9)


def test_lines_begin_and_end_at_the_path_points(model):
    frame = np.asarray(eb.body_transforms(model, Q)[0])
    for name, line in eb.path_polylines(model, Q, 5).items():
        place = model.paths.location[2 * model.muscle_index(name) :][:2]
        np.testing.assert_allclose(line[0], place[0], rtol=0, atol=1e-15)
        end = frame[:3, :3] @ place[1] + frame[:3, 3]
        np.testing.assert_allclose(line[-1], end, rtol=0, atol=1e-15)
    counts = {name: len(line) for name, line in eb.path_polylines(model, Q, 5).items()}
    assert counts == {"round": 7, "egg": 7, "held": 7, "dipped": 7, "free": 2, "both": 12}


def test_points_are_on_the_surfaces(model):
    lines = eb.path_polylines(model, Q, 30)
    arcs = {name: line[1:-1] for name, line in lines.items()}
    round_ = in_frame(model, 0, arcs["round"])
    np.testing.assert_allclose(np.hypot(round_[:, 0], round_[:, 1]), 0.03, rtol=0, atol=1e-9)
    egg = in_frame(model, 1, arcs["egg"]) / np.asarray(ELLIPSOID.dimensions)
    np.testing.assert_allclose(np.linalg.norm(egg, axis=1), 1.0, rtol=0, atol=1e-8)
    first, second = in_frame(model, 0, arcs["both"][:30]), in_frame(model, 3, arcs["both"][30:])
    np.testing.assert_allclose(np.hypot(first[:, 0], first[:, 1]), 0.03, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.hypot(second[:, 0], second[:, 1]), 0.02, rtol=0, atol=1e-9)
    # With an end inside, what is left of the cylinder goes through that end.
    dipped = in_frame(model, 0, lines["dipped"][1:])
    reach = np.hypot(dipped[:, 0], dipped[:, 1])
    np.testing.assert_allclose(reach, reach[-1], rtol=0, atol=1e-9)
    assert reach[0] < 0.029


def test_points_are_evenly_spaced(model):
    for name, line in eb.path_polylines(model, Q, 30).items():
        if name in ("round", "egg", "held"):
            steps = np.linalg.norm(np.diff(line[1:-1], axis=0), axis=1)
            assert np.ptp(steps) < 2e-3 * steps.mean(), name


def test_points_that_do_not_count_are_left_out():
    points = [
        eb.PathPoint("ground", (0, 0.1, 0)),
        eb.ConditionalPoint("ground", (0.05, 0.1, 0), "angle", (0.0, 0.5)),
        eb.PathPoint("link", (0.1, 0, 0)),
    ]
    model = build([eb.Path("p", points)], [])
    assert len(eb.path_polylines(model, jnp.array([0.3]))["p"]) == 3
    assert len(eb.path_polylines(model, jnp.array([0.6]))["p"]) == 2


def test_bad_arguments():
    model = build([path("p", (0, 0.1, 0), (0.1, 0, 0))], [])
    with pytest.raises(ValueError, match="points_per_arc is 1"):
        eb.path_polylines(model, Q, 1)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        eb.path_polylines(model, jnp.zeros(2))


@pytest.mark.slow
def test_sphere_and_torus():
    ball = eb.WrapSphere("ball", "ground", 0.03, translation=(0, 0, 0.2), quadrant="-y")
    ring = eb.WrapTorus(
        "ring", "ground", 0.008, 0.03, translation=(0.02, 0.03, 0), rotation=(0, 1.5, 0)
    )
    units = [
        path("over", (-0.1, 0.012, 0.21), (0.09, -0.05, 0.18), "ball"),
        path("through", (-0.1, -0.02, 0.01), (0.12, 0.015, -0.02), "ring"),
    ]
    model = build(units, [ball, ring])
    lines = eb.path_polylines(model, Q, 101)
    assert min(len(line) for line in lines.values()) == 103
    for line, length in zip(lines.values(), eb.path_lengths(model, Q), strict=True):
        assert -1e-9 < length - polyline_length(line) < 5e-6
    local = in_frame(model, 1, lines["through"][1:-1])
    tube = np.hypot(np.hypot(local[:, 0], local[:, 1]) - 0.03, local[:, 2])
    np.testing.assert_allclose(tube, 0.008, rtol=0, atol=1e-9)


def test_drawing(model, tmp_path):
    figure = viz.muscle_paths(model, Q)
    (axes,) = figure.axes
    drawn = {line.get_label() for line in axes.get_lines()}
    assert set(model.muscle_names) <= drawn
    # What lies outside is left out, and so are axes that reach out.
    low, high = np.transpose([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()])
    for line in axes.get_lines():
        points = np.transpose(line.get_data_3d())
        assert np.all((points >= low) & (points <= high))
    viz.save(figure, tmp_path / "paths.png")
    assert (tmp_path / "paths.png").stat().st_size > 10_000
    some = viz.muscle_paths(model, Q, muscles=["round"], surfaces=False)
    assert "egg" not in {line.get_label() for line in some.axes[0].get_lines()}
    with pytest.raises(ValueError, match="there is no musculotendon unit 'rond'"):
        viz.muscle_paths(model, Q, muscles=["rond"])
