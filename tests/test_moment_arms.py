"""Moment arms: three implementations on random trees, and against OpenSim's."""

import functools
import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _random_paths import random_case
from hypothesis import assume, given, strategies as st

import empbody as eb
from empbody import autodiff, kronecker
from empbody.kronecker._lines_of_action import all_points, gmlav, lines_of_action, with_ground
from empbody.paths import effective_points, opensim_moment_arms
from empbody.paths._effective import sample_strings
from empbody.rhythms import Affine, Compose, Polynomial

TREES = ("branched", "chains")
"""Prismatic joints, welds and rhythms of several inputs among them."""
SEEDS = st.integers(0, 2**32 - 1)
QUICK = {"xla_backend_optimization_level": 0}  # compiling is most of the time


@functools.cache
def everything():
    """One compiled function for all that is compared; compiled anew for each tree."""

    def run(case):
        model, q = case.model, case.q
        nq, step = q.shape[0], 1e-4
        aside = step * jnp.array([-2, -1, 1, 2])[None, :, None] * jnp.eye(nq)[:, None, :]
        moved = (q[None, None, :] + aside).reshape(-1, nq)
        lengths = jax.lax.map(lambda x: autodiff.path_lengths(model, x), moved)
        slopes = jnp.array([1, -8, 8, -1]) / (12 * step)
        differences = jnp.einsum("s,qsm->qm", slopes, lengths.reshape(nq, 4, -1))
        fast_lengths, speeds = jax.jvp(lambda x: eb.path_lengths(model, x), (q,), (case.qd,))
        return {
            "autodiff": autodiff.moment_arms(model, q),
            "block": kronecker.moment_arms(model, q, "block"),
            "sparse": kronecker.moment_arms(model, q, "sparse"),
            "fast": eb.moment_arms(model, q),
            "differences": -differences,
            "lengths": autodiff.path_lengths(model, q),
            "fast_lengths": fast_lengths,
            "speeds": speeds,
        }

    return jax.jit(run, compiler_options=QUICK)


def relative(found, expected):
    return float(jnp.max(jnp.abs(found - expected)) / jnp.max(jnp.abs(expected)))


@pytest.mark.parametrize("tree", TREES)
@given(seed=SEEDS)
def test_all_implementations_agree(tree, seed):
    found = everything()(random_case(tree, seed))
    assert relative(found["block"], found["autodiff"]) < 1e-10
    assert relative(found["sparse"], found["autodiff"]) < 1e-10
    assert relative(found["fast"], found["autodiff"]) < 1e-10
    assert relative(found["fast_lengths"], found["lengths"]) < 1e-12


@pytest.mark.parametrize("tree", TREES)
@given(seed=SEEDS)
def test_moment_arm_is_minus_the_slope_of_length(tree, seed):
    case = random_case(tree, seed)
    coordinate = np.array([i for _, i in case.model.paths.layout.conditional])
    # A difference across the end of a conditional point's range is no slope.
    assume(jnp.abs(case.q[coordinate][:, None] - case.model.paths.condition).min() > 1e-3)
    found = everything()(case)
    np.testing.assert_allclose(found["block"], found["differences"], rtol=0, atol=1e-7)


@pytest.mark.parametrize("tree", TREES)
@given(seed=SEEDS)
def test_muscle_power_equals_joint_power(tree, seed):
    case = random_case(tree, seed)
    found = everything()(case)
    muscle = case.tension @ found["speeds"]
    for name in ("autodiff", "block", "sparse", "fast"):
        joint = -(found[name] @ case.tension) @ case.qd
        size = jnp.abs(case.tension) @ jnp.abs(found["speeds"])
        assert abs(joint - muscle) < 1e-10 * size


def test_a_path_pulls_with_no_net_force_or_moment():
    """Action and reaction: over all bodies and the ground, E and Ê cancel."""

    def net(case):
        poses = with_ground(kronecker.body_transforms(case.model, case.q))
        points = all_points(effective_points(case.model, case.q))
        pulls = gmlav(
            lines_of_action(poses, points), points, range(case.model.nm), range(-1, case.model.nb)
        )
        force, moment = (jnp.einsum("bij,kbj->kbi", poses[:, :3, :3], pull) for pull in pulls)
        moment = moment + jnp.cross(poses[None, :, :3, 3], force)
        return force.sum(axis=1), moment.sum(axis=1)

    run = jax.jit(net, compiler_options=QUICK)
    for seed in range(3):
        np.testing.assert_allclose(run(random_case("branched", seed)), 0, atol=1e-13)


def elbow(*units, surfaces=()):
    """Upper arm 0.3 m along -y, forearm turning about z, and a slide along x on it."""
    return eb.Model.build(
        coordinates=("shoulder", "elbow", "slide"),
        bodies=[
            eb.Body("upper", parent="ground", joint=eb.Revolute((0, 0, 1)), mass=1.0),
            eb.Body("fore", "upper", eb.Revolute((0, 0, 1), (0, -0.3, 0)), mass=1.0),
            eb.Body("tray", "fore", eb.Prismatic((1, 0, 0)), mass=1.0),
        ],
        muscles=units,
        surfaces=surfaces,
    )


IMPLEMENTATIONS = {
    "autodiff": autodiff.moment_arms,
    "block": functools.partial(kronecker.moment_arms, form="block"),
    "sparse": functools.partial(kronecker.moment_arms, form="sparse"),
    "fast": eb.moment_arms,
}


@pytest.fixture(scope="module")
def hand_model():
    moving = Affine([[0.0], [0.5], [0.0]], [0.1, 0.0, 0.0])  # y = elbow / 2
    wide = ("elbow", (-1.0, 1.0))
    return elbow(
        # Origin a above the elbow, insertion b beyond it.
        eb.Path(
            "hinge", [eb.PathPoint("upper", (0, -0.1, 0)), eb.PathPoint("fore", (0, -0.15, 0))]
        ),
        eb.Path("rail", [eb.PathPoint("fore", (-0.2, 0, 0)), eb.PathPoint("tray", (0.1, 0, 0))]),
        eb.Path(
            "mover",
            [
                eb.PathPoint("fore", (0.1, -0.4, 0)),
                eb.MovingPoint("fore", moving, ("elbow",)),
            ],
        ),
        eb.Path(
            "gate",
            [
                eb.PathPoint("ground", (0, 0.1, 0)),
                eb.ConditionalPoint("upper", (0.05, -0.2, 0), *wide),
                eb.PathPoint("fore", (0, -0.15, 0)),
            ],
        ),
        eb.Path(
            "same_place", [eb.PathPoint("ground", (0, 0, 0)), eb.PathPoint("upper", (0, 0, 0))]
        ),
        # The gate's path with its point for good, and without.
        eb.Path(
            "through",
            [
                eb.PathPoint("ground", (0, 0.1, 0)),
                eb.PathPoint("upper", (0.05, -0.2, 0)),
                eb.PathPoint("fore", (0, -0.15, 0)),
            ],
        ),
        eb.Path("past", [eb.PathPoint("ground", (0, 0.1, 0)), eb.PathPoint("fore", (0, -0.15, 0))]),
    )


ANGLES = (0.8, 0.99, 1.01, 1.0, -1.0)
"""Elbow angles at which the hand-made model is evaluated; the gate closes beyond ±1."""


@pytest.fixture(scope="module")
def hand_values(hand_model):
    """R by implementation, for all `ANGLES`."""

    def run(model, q):
        functions = IMPLEMENTATIONS | {"opensim": opensim_moment_arms}
        found = {name: function(model, q) for name, function in functions.items()}
        return found | {"speeds": eb.lengthening_speeds(model, q, jnp.arange(1.0, 4.0))}

    q = jnp.array([[0.3, angle, 0.05] for angle in ANGLES])
    return jax.jit(jax.vmap(run, in_axes=(None, 0)), compiler_options=QUICK)(hand_model, q)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_known_values(hand_values, name):
    R = hand_values[name][0]
    a, b = 0.2, 0.15
    length = np.sqrt(a**2 + b**2 + 2 * a * b * np.cos(0.8))  # law of cosines, π - 0.8 between
    np.testing.assert_allclose(R[:, 0], [0, a * b * np.sin(0.8) / length, 0], atol=1e-15)
    np.testing.assert_allclose(R[:, 1], [0, 0, -1], atol=1e-15)
    np.testing.assert_allclose(R[:, 2], [0, -0.5, 0], atol=1e-15)  # straight up, at half speed


def test_lengthening_speeds(hand_values):
    expected = -jnp.einsum("q,kqm->km", jnp.arange(1.0, 4.0), hand_values["autodiff"])
    np.testing.assert_allclose(hand_values["speeds"], expected, atol=1e-14)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_conditional_point_counts_within_its_range_only(hand_values, name):
    R = np.asarray(hand_values[name])
    alike, other = [5, 5, 6, 5, 5], [6, 6, 5, 6, 6]
    k = np.arange(len(ANGLES))
    np.testing.assert_allclose(R[k, :, 3], R[k, :, alike], atol=1e-15)
    assert (np.abs(R[k, :, 3] - R[k, :, other]).max(axis=1) > 1e-3).all()


def test_points_in_one_place_give_no_nan():
    here, there = eb.PathPoint("ground", (0, 0, 0)), eb.PathPoint("upper", (0, 0, 0))

    def run(model, q):
        functions = IMPLEMENTATIONS | {"opensim": opensim_moment_arms}
        return [
            jax.jvp(functools.partial(function, model), (q,), (jnp.ones(3),))
            for function in functions.values()
        ]

    found = jax.jit(run, compiler_options=QUICK)(elbow(eb.Path("knot", [here, there])), jnp.ones(3))
    for R, slope in found:
        np.testing.assert_array_equal(R, 0)
        assert jnp.isfinite(slope).all()


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_no_units(name):
    assert IMPLEMENTATIONS[name](elbow(), jnp.zeros(3)).shape == (3, 0)


def test_all_implementations_agree_on_wrapped_paths():
    """On and off a cylinder and a sphere; a point moves on the body of the cylinder."""
    sliding = Affine([[0.0], [-0.03], [0.0]], [0.06, -0.1, 0.01])
    model = elbow(
        eb.Path(
            "extensor",
            [
                eb.PathPoint("ground", (0.07, 0.05, 0)),
                eb.MovingPoint("upper", sliding, ("elbow",)),
                eb.PathPoint("fore", (0.02, -0.15, 0)),
            ],
            [eb.Wrap("pulley", first=2, last=3)],
        ),
        eb.Path(
            "rounder",
            [eb.PathPoint("ground", (-0.06, 0.02, 0.01)), eb.PathPoint("tray", (-0.02, -0.2, 0))],
            [eb.Wrap("ball")],
        ),
        surfaces=[
            eb.WrapCylinder("pulley", "upper", 0.03, translation=(0.03, -0.3, 0)),
            eb.WrapSphere("ball", "fore", 0.04, translation=(-0.03, -0.02, 0.005)),
        ],
    )
    step = 1e-4
    names = ("autodiff", "sparse", "fast")  # "block" differs from "sparse" in sums only

    def run(model, q):
        aside = step * jnp.concatenate([jnp.eye(3), -jnp.eye(3)])
        lengths = jax.lax.map(lambda x: eb.path_lengths(model, x), q[None, :] + aside)
        found = {name: IMPLEMENTATIONS[name](model, q) for name in names}
        on = jnp.stack([points.alive.all() for points in effective_points(model, q)])
        return found, (lengths[3:] - lengths[:3]) / (2 * step), on

    q = jnp.array([[0.2, angle, 0.01] for angle in np.linspace(-1.2, 1.2, 8)])
    run = jax.jit(jax.vmap(run, in_axes=(None, 0)), compiler_options=QUICK)
    found, differences, on = run(model, q)
    assert on.any(axis=0).all()
    assert not on.all(axis=0).any()
    for name in names:
        assert relative(found[name], found["autodiff"]) < 1e-10
        np.testing.assert_allclose(found[name], differences, rtol=0, atol=1e-7)


def test_all_implementations_agree_where_surfaces_give_way():
    """An end that moves into a cylinder and out again, and sides that let go of a sphere and of
    an ellipsoid: the size that is left does work."""
    sliding = Affine([[0.005], [0.0], [0.0]], [0.03, -0.03, 0.0])
    above = eb.PathPoint("ground", (0.03, 0.06, 0))
    inside = eb.MovingPoint("upper", sliding, ("elbow",))
    higher = eb.PathPoint("ground", (-0.02, 0.15, 0.003))
    model = elbow(
        eb.Path("entering", [above, inside], [eb.Wrap("bar")]),
        eb.Path(
            "slipping", [above, eb.PathPoint("upper", (0.02, -0.12, 0.005))], [eb.Wrap("ball")]
        ),
        eb.Path("leaving", [higher, eb.PathPoint("upper", (-0.02, -0.03, 0))], [eb.Wrap("egg")]),
        surfaces=[
            eb.WrapCylinder("bar", "ground", 0.02, translation=(0.01, -0.03, 0)),
            eb.WrapSphere("ball", "ground", 0.025, quadrant="+x"),
            eb.WrapEllipsoid(
                "egg", "ground", (0.02, 0.025, 0.035), rotation=(0.1, 0.2, 0.1), quadrant="-x"
            ),
        ],
    )
    names = ("autodiff", "sparse", "fast")

    def run(model, q):
        left = sample_strings(model, q)[0].left.scale[:, 0]
        return {name: IMPLEMENTATIONS[name](model, q) for name in names}, left

    q = jnp.array([[angle, 0.3, 0.0] for angle in np.linspace(-1.2, 1.6, 141)])
    run = jax.jit(jax.vmap(run, in_axes=(None, 0)), compiler_options=QUICK)
    found, left = run(model, q)
    # Each of them is partly gone at several poses.
    assert np.all(np.sum((left > 0.05) & (left < 0.95), axis=0) > 4)
    for name in names:
        assert relative(found[name], found["fast"]) < 1e-10


def test_speeds_that_are_no_numbers_are_refused(hand_model):
    with pytest.raises(ValueError, match="qd of 'elbow' is nan"):
        eb.lengthening_speeds(hand_model, jnp.zeros(3), jnp.array([0.0, jnp.nan, 0.0]))


def test_attachment_sequence(hand_model):
    points = eqx.filter_jit(effective_points)
    inside = points(hand_model, jnp.array([0.3, 0.8, 0.0]))
    outside = points(hand_model, jnp.array([0.3, 1.8, 0.0]))
    upper, fore = hand_model.body_index("upper"), hand_model.body_index("fore")
    assert kronecker.attachment_sequence(inside[2]) == (fore,)
    assert kronecker.attachment_sequence(inside[3]) == (-1, upper, fore)
    assert kronecker.attachment_sequence(outside[3]) == (-1, fore)


def test_unknown_form_is_refused(hand_model):
    with pytest.raises(Exception, match="dense"):  # the type checker of the tests may be first
        kronecker.moment_arms(hand_model, jnp.zeros(3), form="dense")


@pytest.fixture(scope="module")
def opensim():
    """The table, and the model that it was made with."""
    file = pathlib.Path(__file__).parent / "reference" / "opensim_moment_arms.json"
    table = json.loads(file.read_text(encoding="utf-8"))
    matrix = np.array([[1, 0], [0, 1], *(table["couplers"][c][:2] for c in ("c1", "c2"))])
    offset = np.array([0, 0, *(table["couplers"][c][2] for c in ("c1", "c2"))])
    place = [
        {"translation": r, "rotation": angles}
        for r, angles in zip(table["translations"], table["rotations"], strict=True)
    ]
    z, x = (0, 0, 1), (1, 0, 0)
    joints = [eb.Revolute(z, **place[k]) for k in range(3)]
    joints += [eb.Prismatic(x, **place[3]), eb.Weld(**place[4])]
    names = ("ground", "b1", "b2", "b3", "b4", "b5")

    def point(entry):
        if "location" in entry:
            return eb.PathPoint(entry["body"], entry["location"])
        row = ("q1", "q2", "c1", "c2").index(entry["coordinate"])
        cubic = Polynomial([(2,), (1,), (0,)], entry["polynomials"])
        location = Compose(cubic, Affine(matrix[[row]], offset[[row]]))
        return eb.MovingPoint(entry["body"], location, ("q1", "q2"))

    model = eb.Model.build(
        coordinates=("q1", "q2"),
        bodies=[eb.Body(names[k + 1], names[k], joint, mass=1.0) for k, joint in enumerate(joints)],
        rhythm=Affine(matrix, offset),
        muscles=[eb.Path(name, [point(p) for p in ps]) for name, ps in table["paths"].items()],
    )
    return model, table["poses"]


def test_opensim_convention(opensim):
    """Two-input couplers, moving points across and within bodies, a weld: OpenSim's numbers."""
    model, poses = opensim
    q = jnp.array([pose["q"] for pose in poses])

    def run(model, q):
        lengths, ours = autodiff.path_lengths(model, q), autodiff.moment_arms(model, q)
        return lengths, ours, opensim_moment_arms(model, q)

    run = jax.jit(jax.vmap(run, in_axes=(None, 0)), compiler_options=QUICK)
    lengths, ours, found = run(model, q)
    expected = np.array([pose["moment_arms"] for pose in poses])
    np.testing.assert_allclose(lengths, [pose["lengths"] for pose in poses], atol=1e-13)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    assert (np.abs(ours - expected).max(axis=(0, 1)) > 0.01).all()


def test_opensim_convention_is_the_derivative_without_couplers_and_moving_points(hand_values):
    found, ours = hand_values["opensim"], hand_values["autodiff"]
    fixed = np.array([0, 1, 3, 4, 5, 6])
    np.testing.assert_allclose(found[:, :, fixed], ours[:, :, fixed], atol=1e-15)
    np.testing.assert_array_equal(found[:, :, 2], 0)  # all on one body


GROUND, FORE = eb.PathPoint("ground", (0, 0, 0)), eb.PathPoint("fore", (0, 0.1, 0))


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([GROUND], "path of 'biceps' has 1 point; it needs an origin and an insertion"),
        ([], "path of 'biceps' has 0 points"),
        ([GROUND, eb.PathPoint("hand", (0, 0, 0))], "point 2 of 'biceps'.*'hand'"),
        ([GROUND, eb.PathPoint("fore", (0, 0))], "location of point 2 of 'biceps'"),
        ([GROUND, eb.PathPoint("fore", (0, np.nan, 0))], "location of point 2 of 'biceps'"),
        (
            [GROUND, eb.MovingPoint("fore", Affine(np.ones((2, 1))), ("elbow",))],
            "point 2 of 'biceps' needs a function of 1 coordinates with 3 outputs, got one of 1 "
            "with 2",
        ),
        (
            [GROUND, eb.MovingPoint("fore", Affine(np.ones((3, 1))), ("elbow", "slide"))],
            "point 2 of 'biceps' needs a function of 2 coordinates with 3 outputs, got one of 1",
        ),
        (
            [GROUND, eb.MovingPoint("fore", Affine(np.ones((3, 1))), ("wrist",))],
            "point 2 of 'biceps'.*'wrist'",
        ),
        (
            [
                GROUND,
                eb.MovingPoint("fore", Affine(np.ones((3, 1))), ("elbow",), {"slide": (0.0, 1.0)}),
            ],
            "point 2 of 'biceps' has a range for 'slide', which does not move it",
        ),
        (
            [GROUND, eb.ConditionalPoint("fore", (0, 0, 0), "elbow", (0, 1))],
            "last point of 'biceps' is conditional",
        ),
        (
            [GROUND, eb.ConditionalPoint("fore", (0, 0, 0), "elbow", (1, 0)), FORE],
            "point 2 of 'biceps': range of 'elbow' is empty",
        ),
        (
            [GROUND, eb.ConditionalPoint("fore", (0, 0, 0), "wrist", (0, 1)), FORE],
            "point 2 of 'biceps'.*'wrist'",
        ),
    ],
)
def test_bad_paths_are_refused_by_name(points, message):
    with pytest.raises(ValueError, match=message):
        elbow(eb.Path("biceps", points))
