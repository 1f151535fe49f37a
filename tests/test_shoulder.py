"""The shoulder: rhythm, bones, muscles, and moment arms beside stored ones of OpenSim."""

import csv
import functools
import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _holzbaur import FOLDER, holzbaur

import empbody as eb
from empbody.models import DeGroot, shoulder, shoulder_angles
from empbody.models._angle_choice import AngleChoice
from empbody.models._girdle import Girdle
from empbody.models._shoulder_axes import joint_basis
from empbody.models._shoulder_figures import figures
from empbody.rhythms import ANATOMICAL_ANGLES, AbstractRhythm, Affine, Named, Polynomial

COORDINATES = ("elv_angle", "shoulder_elv", "shoulder_rot")
MUSCLES = (
    "DELT1", "DELT2", "DELT3", "SUPSP", "INFSP", "SUBSC", "TMIN", "TMAJ",
    "PECM1", "PECM2", "PECM3", "LAT1", "LAT2", "LAT3",
)  # fmt: skip
RNG = np.random.default_rng(3)


def poses(model, count):
    """The corners of the range and poses within."""
    low, high = np.asarray(model.lower), np.asarray(model.upper)
    corners = np.stack(np.meshgrid(*zip(low, high, strict=True)), axis=-1).reshape(-1, 3)
    inside = low + (high - low) * RNG.random((count - len(corners), 3))
    return jnp.asarray(np.concatenate([corners, inside]))


@pytest.fixture(scope="module")
def model():
    return shoulder(muscles=False)


@eqx.filter_jit
def angles_taken(model, q):
    return jax.vmap(lambda q: shoulder_angles(model, q))(q)


# ---- structure ---------------------------------------------------------------------------


def test_coordinates_and_bones(model):
    assert model.coordinate_names == COORDINATES
    assert model.nj == 16
    assert {"thorax", "clavicle", "scapula", "humerus"} < set(model.body_names)
    low, high = np.degrees(model.lower), np.degrees(model.upper)
    np.testing.assert_allclose(low, [-90, 0, -90], atol=1e-9)
    np.testing.assert_allclose(high, [130, 180, 20], atol=1e-9)


def test_muscles_have_the_published_figures():
    model = shoulder(wrapping=False)
    assert model.muscle_names == MUSCLES
    hill = model.muscles.parameters
    deltoid = model.muscle_index("DELT2")
    given = hill.max_isometric_force, hill.optimal_fibre_length, hill.tendon_slack_length
    assert [float(x[deltoid]) for x in given] == [1142.6, 0.1078, 0.1095]
    assert float(hill.pennation[deltoid]) == pytest.approx(np.radians(15))
    assert model.muscles.tendon == "rigid"
    assert shoulder(wrapping=False, tendon="elastic").muscles.tendon == "elastic"
    assert shoulder(wrapping=False, muscles=("CORB", "LAT1")).muscle_names == ("CORB", "LAT1")
    assert shoulder(muscles=False).muscle_names == ()
    assert len(shoulder().paths.layout.wraps) == 37


def test_data_file_names_its_sources():
    assert set(figures()["sources"]) == {"geometry", "de_groot", "inertia"}


# ---- rhythm ------------------------------------------------------------------------------


def test_regression_at_the_published_check():
    """Hy = 30, Hz = 90: C = (-47.5, 19.4), S = (27.5, 40.8, 7.2) in their signs."""
    angles = np.degrees(DeGroot()(jnp.radians(jnp.array([30.0, 90.0]))))
    np.testing.assert_allclose(angles, [-47.5, -19.4, 27.5, -40.8, 7.2], atol=0.05)


def test_bones_take_the_regressed_angles_exactly(model):
    q = poses(model, 500)
    taken = angles_taken(model, q)
    wanted = jax.vmap(DeGroot())(q[:, :2])
    regressed = np.delete(np.asarray(taken), ANATOMICAL_ANGLES.index("sc_rotation"), axis=1)
    np.testing.assert_allclose(regressed, wanted, rtol=0, atol=1e-12)


def test_the_zero_pose_is_the_regression_at_zero(model):
    np.testing.assert_allclose(model.rhythm(jnp.zeros(3)), 0.0, atol=1e-15)
    turns = eb.body_transforms(model, jnp.zeros(3))[:, :3, :3]
    np.testing.assert_allclose(turns, np.broadcast_to(np.eye(3), turns.shape), atol=1e-14)


def test_axial_rotation_of_the_clavicle_turns_the_scapula_least_against_it(model):
    """By search over the third joint variable, with the same swing of the clavicle."""
    q = poses(model, 60)
    turns = np.asarray(jax.vmap(lambda q: eb.body_transforms(model, q)[:, :3, :3])(q))
    clavicle, scapula = (turns[:, model.body_index(bone)] for bone in ("clavicle", "scapula"))
    axis = joint_basis("clavicle")[2]
    skew = np.cross(axis, np.eye(3)).T
    traces = []
    for turn in (-1e-3, 0.0, 1e-3, 0.3, -0.3, 2.0):
        more = np.eye(3) + np.sin(turn) * skew + (1 - np.cos(turn)) * skew @ skew
        relative = np.einsum("nji,njk->nik", clavicle @ more, scapula)
        traces.append(np.trace(relative, axis1=1, axis2=2))
    best = traces.pop(1)
    assert np.all(best > np.array(traces))
    # Smallest means stationary: both small steps lose alike.
    np.testing.assert_allclose(best - traces[0], best - traces[1], rtol=0, atol=1e-14)


def test_the_clavicle_does_not_turn_the_scapula(model):
    """Joint variables of the clavicle are cancelled: the scapula's turn is its own three."""
    basis = joint_basis("scapula")

    def about(axis, angle):
        skew = jnp.asarray(np.cross(axis, np.eye(3)).T)
        return jnp.eye(3) + jnp.sin(angle) * skew + (1 - jnp.cos(angle)) * skew @ skew

    q = jnp.array([0.9, 1.8, -0.4])
    f = dict(zip(model.joint_names, model.rhythm(q), strict=True))
    names = [f"acromioclavicular_r{k}" for k in (2, 3, 1)]
    a, b, c = (about(axis, f[name]) for axis, name in zip(basis, names, strict=True))
    scapula = eb.body_transforms(model, q)[model.body_index("scapula"), :3, :3]
    np.testing.assert_allclose(scapula, a @ b @ c, atol=1e-14)
    assert f["shoulder1_r2"] == -q[0]


def test_humerus_turns_by_the_coordinates_alone(model):
    other = shoulder("holzbaur", muscles=False)
    q = poses(model, 40)
    turns = [
        jax.vmap(lambda q, m=m: eb.body_transforms(m, q)[m.body_index("humerus"), :3, :3])(q)
        for m in (model, other)
    ]
    np.testing.assert_allclose(*turns, atol=1e-13)


def fitted(targets, inputs=("plane", "elevation"), seed=1):
    """A smooth nonlinear rhythm whose angles stay well below 90 degrees."""
    rng = np.random.default_rng(seed)
    polynomial = Polynomial.total_degree(len(inputs), 2, 0.03 * rng.normal(
        size=(len(targets), (len(inputs) + 1) * (len(inputs) + 2) // 2)
    ))  # fmt: skip
    return Named(polynomial, inputs, targets)


RHYTHMS = {
    "de_groot": lambda: shoulder(muscles=False).rhythm,
    "all six, three inputs": lambda: (
        shoulder(
            fitted(ANATOMICAL_ANGLES, ("elv_angle", "shoulder_elv", "shoulder_rot")), muscles=False
        ).rhythm
    ),
}


@pytest.mark.parametrize("name", RHYTHMS)
def test_closed_forms_are_the_derivatives(name):
    rhythm = RHYTHMS[name]()
    q = jnp.asarray(RNG.uniform([-1.5, 0.0, -1.5], [2.2, 3.1, 0.3], size=(40, 3)))
    qd = jnp.asarray(RNG.normal(size=(40, 3)))

    @jax.jit
    @jax.vmap
    def both(q, qd):
        jacobian = jax.jacfwd(rhythm.__call__)(q)
        velocity = lambda x: jax.jvp(rhythm.__call__, (x,), (qd,))[1]  # noqa: E731
        known = rhythm(q), jacobian, jax.jvp(velocity, (q,), (qd,))[1]
        return tuple(rhythm.jet(q, qd)), rhythm.jacobian(q), known

    (value, jacobian, curvature), alone, known = both(q, qd)
    pairs = zip((value, jacobian, curvature, alone), (*known, known[1]), strict=True)
    for got, expected in pairs:
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_fitted_angles_are_taken_and_the_others_regressed(model):
    # upward rotation is the negative of medial rotation; the inputs stand the other way round
    rhythm = fitted(("upward_rotation", "SC_protraction"), ("shoulder_elv", "plane"))
    own = shoulder(rhythm, muscles=False)
    q = poses(model, 40)
    taken = dict(zip(ANATOMICAL_ANGLES, angles_taken(own, q).T, strict=True))
    upward, protraction = jax.vmap(rhythm)(q[:, 1::-1]).T
    regressed = jax.vmap(DeGroot())(q[:, :2]).T
    np.testing.assert_allclose(taken["st_medial_rotation"], -upward, atol=1e-12)
    np.testing.assert_allclose(taken["sc_protraction"], protraction, atol=1e-12)
    np.testing.assert_allclose(taken["sc_elevation"], regressed[1], atol=1e-12)
    np.testing.assert_allclose(taken["st_protraction"], regressed[2], atol=1e-12)
    np.testing.assert_allclose(taken["st_tilt"], regressed[4], atol=1e-12)


def test_axial_rotation_can_be_given(model):
    rhythm = fitted(("sc_rotation",))
    own = shoulder(rhythm, muscles=False)
    assert isinstance(own.rhythm, Girdle)
    assert isinstance(own.rhythm.angles, AngleChoice)
    q = poses(model, 40)
    taken = angles_taken(own, q)
    np.testing.assert_allclose(taken[:, 2], jax.vmap(rhythm)(q[:, :2])[:, 0], atol=1e-12)
    regressed = jax.vmap(DeGroot())(q[:, :2])
    others = np.delete(np.asarray(taken), 2, axis=1)
    np.testing.assert_allclose(others, regressed, atol=1e-12)


def test_rhythm_from_a_file(tmp_path):
    rhythm = fitted(("st_tilt", "st_protraction"))
    eb.save_rhythm(rhythm, tmp_path / "subject.json")
    q = jnp.array([0.4, 1.1, -0.2])
    given = shoulder(rhythm, muscles=False).rhythm(q)
    for path in (tmp_path / "subject.json", str(tmp_path / "subject.json")):
        np.testing.assert_allclose(shoulder(path, muscles=False).rhythm(q), given, atol=1e-15)


class OtherLandmarks(AbstractRhythm):
    """De Groot and Brand's scapula, its frame turned on the bone by a constant."""

    turn: jax.Array

    @property
    def n_in(self):
        return 2

    @property
    def n_out(self):
        return 3

    def __call__(self, q):
        y, x, z = DeGroot()(q)[2:]
        r = turn_y(y) @ turn_x(x) @ turn_z(z) @ self.turn
        return jnp.stack(
            [jnp.arctan2(r[0, 2], r[2, 2]), jnp.arcsin(-r[1, 2]), jnp.arctan2(r[1, 0], r[1, 1])]
        )


def about(axis, angle):
    s, c = jnp.sin(angle), jnp.cos(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    turn = jnp.zeros((3, 3)).at[axis, axis].set(1.0)
    return turn.at[i, i].set(c).at[j, j].set(c).at[i, j].set(-s).at[j, i].set(s)


turn_x, turn_y, turn_z = (functools.partial(about, axis) for axis in range(3))


def test_other_landmarks_are_aligned_away(model):
    constant = turn_y(0.35) @ turn_x(-0.2) @ turn_z(0.1)
    measured = Named(OtherLandmarks(constant), ("plane", "elevation"), ANATOMICAL_ANGLES[3:])
    q = poses(model, 40)
    published = jax.vmap(model.rhythm)(q)
    plain = jax.vmap(shoulder(measured, muscles=False).rhythm)(q)
    assert np.max(np.abs(plain - published)) > 0.3
    for pose in ((0.0, 0.0), (0.7, 0.4), (0.7, 0.4, -0.3)):
        own = shoulder(measured, muscles=False, align=pose)
        np.testing.assert_allclose(jax.vmap(own.rhythm)(q), published, atol=1e-12)
    # the angles are still those between the study's landmarks
    taken = angles_taken(own, q)[:, 3:]
    np.testing.assert_allclose(taken, jax.vmap(measured)(q[:, :2]), atol=1e-12)


def test_aligned_in_one_pose_with_all_angles_given(model, tmp_path):
    rhythm = fitted(ANATOMICAL_ANGLES)
    pose = jnp.array([0.5, 0.3, 0.0])
    own = shoulder(rhythm, muscles=False, align=pose[:2].tolist())
    np.testing.assert_allclose(own.rhythm(pose), model.rhythm(pose), atol=1e-12)
    np.testing.assert_allclose(shoulder_angles(own, pose)[2:], rhythm(pose[:2])[2:], atol=1e-12)
    # from a file: middle plane and least elevation of its data
    x = np.array([[0.2, 0.3], [0.8, 0.3], [0.2, 1.5], [0.8, 1.9], [0.5, 1.0]])
    fit = eb.fit_rhythm(
        x, np.asarray(jax.vmap(rhythm)(jnp.asarray(x)))[:, 5:], "linear",
        input_names=("plane", "elevation"), target_names=("st_tilt",),
    )  # fmt: skip
    eb.save_rhythm(fit, tmp_path / "subject.json")
    own = shoulder(tmp_path / "subject.json", muscles=False, align=True)
    np.testing.assert_allclose(own.rhythm(pose), model.rhythm(pose), atol=1e-12)


def test_what_cannot_be_aligned():
    with pytest.raises(ValueError, match="align is for rhythms of anatomical angles"):
        shoulder("holzbaur", muscles=False, align=True)
    with pytest.raises(ValueError, match=r"give align=\(plane, elevation\)"):
        shoulder(fitted(("st_tilt",)), muscles=False, align=True)
    with pytest.raises(ValueError, match="align is"):
        shoulder(fitted(("st_tilt",)), muscles=False, align=(0.1,))


def test_any_rhythm_of_all_joint_variables():
    rhythm = Affine(RNG.normal(size=(16, 3)))
    taken = shoulder(rhythm, muscles=False).rhythm
    assert isinstance(taken, Affine)
    np.testing.assert_array_equal(taken.matrix, rhythm.matrix)


def test_without_the_plane_only_elevation_counts():
    rhythm = shoulder("de_groot_elevation", muscles=False).rhythm
    at = [rhythm(jnp.array([plane, 1.2, 0.0]))[:12] for plane in (-1.0, 0.0, 2.0)]
    np.testing.assert_allclose(at[0], at[1], atol=1e-15)
    full = shoulder(muscles=False).rhythm(jnp.array([0.0, 1.2, 0.0]))[:12]
    np.testing.assert_allclose(at[1], full, atol=1e-15)


def test_rest_pose_and_coefficients_are_leaves(model):
    """Batched over subjects' rest poses, and differentiated to regression slopes."""
    q = jnp.array([0.5, 1.2, -0.3])
    rest = model.rhythm.angles.rest[None] + 0.1 * jnp.asarray(RNG.normal(size=(3, 5)))

    def height(value, leaf):
        subject = eqx.tree_at(lambda m: leaf(m.rhythm.angles), model, value)
        return eb.point_position(subject, q, "humerus", jnp.zeros(3))[1]

    heights = jax.vmap(lambda rest: height(rest, lambda a: a.rest))(rest)
    assert np.ptp(heights) > 1e-3
    slopes = model.rhythm.angles.elevation
    gradient = jax.grad(lambda s: height(s, lambda a: a.elevation))(slopes)
    direction, step = jnp.asarray(RNG.normal(size=5)), 1e-6
    ends = [height(slopes + s * step * direction, lambda a: a.elevation) for s in (-1, 1)]
    np.testing.assert_allclose(gradient @ direction, (ends[1] - ends[0]) / (2 * step), rtol=1e-7)


# ---- bones -------------------------------------------------------------------------------


def test_centres_of_mass_lie_in_the_bones(model):
    com = {name: np.asarray(model.com[model.body_index(name)]) for name in model.body_names}
    to_scapula = np.asarray(model.translation[model.joint_index("unrotscap_r1")])
    along = com["clavicle"] @ to_scapula / (to_scapula @ to_scapula)
    assert 0 < along < 1
    assert np.linalg.norm(com["clavicle"] - along * to_scapula) < 0.02
    # The blade: origins of the muscles that cover it, within the bone's and muscles' depth.
    points = [
        location
        for name in ("SUPSP", "INFSP", "SUBSC", "TMIN", "DELT3")
        for body, location in figures()["muscles"][name]["points"]
        if body == "scapula"
    ]
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    assert np.all(low < com["scapula"])
    assert np.all(com["scapula"] < high)
    assert -0.29 < com["humerus"][1] < -0.05
    assert np.linalg.norm(com["humerus"][[0, 2]]) < 0.02


def test_inertias_are_those_of_rigid_bodies(model):
    for body in model.topology.massive:
        small, middle, large = np.linalg.eigvalsh(model.inertia[body])
        assert small > 0
        assert large < small + middle + 1e-12
    assert float(jnp.sum(model.mass)) == pytest.approx(0.156 + 0.7054 + 2.0519)


def test_mass_matrix_is_positive_definite_within_the_range(model):
    low, high = np.asarray(model.lower), np.asarray(model.upper)
    q = jnp.asarray(low + (high - low) * (0.02 + 0.96 * RNG.random((60, 3))))
    least = np.linalg.eigvalsh(jax.jit(jax.vmap(lambda q: eb.mass_matrix(model, q)))(q))[:, 0]
    assert least.min() > 1e-6


def test_load_is_forearm_and_hand_on_a_straight_elbow(model):
    loaded = shoulder(muscles=False, load=True)
    assert {"ulna", "radius", "hand"} <= set(loaded.body_names)
    assert float(jnp.sum(loaded.mass - 0.0)) == pytest.approx(2.9133 + 2 * 0.5464 + 0.525)
    q = jnp.array([0.0, np.pi / 2, 0.0])
    hand = eb.point_position(loaded, q, "hand", loaded.com[loaded.body_index("hand")])
    elbow = eb.point_position(loaded, q, "ulna", jnp.zeros(3))
    shoulder_centre = eb.point_position(loaded, q, "humerus", jnp.zeros(3))
    assert abs(float(elbow[1] - shoulder_centre[1])) < 0.03  # the arm is level
    assert float(hand[2] - shoulder_centre[2]) > 0.55  # and points to the right
    # Weight of what hangs on: masses times g times their distances to the joint.
    more = eb.gravity(model, q)[1] - eb.gravity(loaded, q)[1]
    assert 0.9 * 8.0 < float(more) < 1.1 * 8.0


# ---- the elevation-only rhythm and OpenSim's tables --------------------------------------


def test_with_the_published_couplers_it_is_the_published_model():
    """14 of the 15 muscles of the stored table, straight paths."""
    with (FOLDER / "nowrap.csv").open() as file:
        rows = list(csv.DictReader(file))
    model = shoulder("holzbaur", wrapping=False)
    q = np.radians([[float(row[f"{c}_deg"]) for c in COORDINATES] for row in rows])
    evaluate = jax.jit(jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q)))
    lengths, arms = evaluate(jnp.asarray(q))
    table = [[float(row[f"len_{m}"]) for m in MUSCLES] for row in rows]
    np.testing.assert_allclose(lengths, table, rtol=0, atol=1e-10)
    for k, name in enumerate(COORDINATES):
        table = [[float(row[f"ma_{name}_{m}"]) for m in MUSCLES] for row in rows]
        np.testing.assert_allclose(arms[:, k], table, rtol=0, atol=1e-10)
    published = holzbaur()
    names = [model.joint_index(name) for name in published.joint_names]
    f, known = model.rhythm(jnp.asarray(q[3])), published.rhythm(jnp.asarray(q[3]))
    np.testing.assert_allclose(f[np.array(names)], known)


def test_figures_14_and_15_equal_opensim():
    model = shoulder("holzbaur", wrapping=False, muscles=eb.models.LEADERS)
    for sweep in ("elv_angle", "shoulder_elv"):
        ours = eb.models.sweep_moment_arms(model, sweep)
        stored = eb.models.opensim_moment_arms(sweep)
        assert len(stored.degrees) == {"elv_angle": 221, "shoulder_elv": 181}[sweep]
        np.testing.assert_allclose(ours.arms, stored.arms, rtol=0, atol=1e-13)
    with pytest.raises(ValueError, match="no stored sweep"):
        eb.models.opensim_moment_arms("elv_angle", wrapping=True)


@pytest.fixture(scope="module")
def difference():
    names = ("DELT2", "SUPSP")
    first, second = (
        shoulder(rhythm, wrapping=False, muscles=names)
        for rhythm in ("de_groot_elevation", "de_groot")
    )
    return eb.models.rhythm_difference(
        first, second, np.arange(-90, 131, 20), np.arange(0, 181, 30)
    )


def test_what_the_plane_changes_is_nothing_in_abduction(difference):
    far = difference.planes[:, None] * np.ones_like(difference.elevations)[None, :]
    # Slopes 0.140, 0.079, 0.028 of the three angles: roughly their size per degree of plane.
    bound = 0.17 * np.abs(far) + 1e-9
    assert np.all(difference.orientation <= bound)
    assert difference.orientation.max() > 15.0
    assert np.abs(difference.lengths).max() > 5.0
    with pytest.raises(ValueError, match="different muscles"):
        eb.models.rhythm_difference(shoulder(muscles=False), shoulder(muscles=("CORB",)))


def test_figures_are_drawn(difference, tmp_path):
    pytest.importorskip("matplotlib")
    from empbody import viz

    stored = eb.models.opensim_moment_arms("shoulder_elv")
    figures = {
        "one": viz.moment_arm_sweep(
            stored.degrees, stored.arms, stored.arms, eb.models.LEADERS,
            sweep="shoulder_elv", about="shoulder_rot",
        ),
        "two": viz.moment_arm_sweep(
            stored.degrees, [stored.arms, stored.arms], [stored.arms, 1.01 * stored.arms],
            eb.models.LEADERS, sweep="shoulder_elv", about="shoulder_rot", titles=("a", "b"),
        ),
        "difference": viz.rhythm_difference(difference, ("DELT2", "SUPSP"), title="t"),
    }  # fmt: skip
    for name, figure in figures.items():
        viz.save(figure, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 20_000


# ---- mistakes ----------------------------------------------------------------------------


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="de_groot, de_groot_elevation, holzbaur"):
        shoulder("inman")
    with pytest.raises(ValueError, match="neither one of"):
        shoulder(tmp_path / "absent.json")
    with pytest.raises(ValueError, match=r"no target 'gh_flexion'.*st_tilt"):
        shoulder(fitted(("gh_flexion", "st_tilt")))
    with pytest.raises(ValueError, match=r"no input 'elbow'.*plane, elevation, shoulder_rot"):
        shoulder(fitted(("st_tilt",), ("plane", "elbow")))
    with pytest.raises(ValueError, match="7 rhythm outputs for 16 joint variables"):
        shoulder(Affine(np.zeros((7, 3))), muscles=False)
    with pytest.raises(ValueError, match="no shoulder muscle 'BIC'"):
        shoulder(muscles=("BIC",))
    with pytest.raises(ValueError, match="load is 'hand'"):
        shoulder(load="hand")
    with pytest.raises(eb.SimulationError, match=r"shoulder_elv.*outside its range"):
        eb.simulate(shoulder(muscles=False), jnp.array([0.0, 3.5, 0.0]), jnp.zeros(3), [0.0, 0.1])


def test_the_data_file_is_json_that_a_person_can_read():
    path = pathlib.Path(eb.models.__file__).parent / "_shoulder.json"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert json.loads("\n".join(lines)) == figures()
    assert len(lines) > 150


@pytest.mark.slow
def test_moment_arms_are_slopes_over_surfaces_with_the_plane():
    """All fourteen muscles, both inputs of the rhythm; contact changes within no step."""
    model, step = shoulder(), 1e-5
    low, high = np.radians([-60.0, 5.0, -60.0]), np.radians([100.0, 150.0, 10.0])
    q = low + (high - low) * np.random.default_rng(0).random((16, 3))
    moved = q[:, None, None] + step * np.stack([-np.eye(3), np.eye(3)], axis=1)[None]
    evaluate = jax.jit(jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q)))
    lengths, arms = evaluate(jnp.asarray(np.concatenate([q, moved.reshape(-1, 3)])))
    ends = lengths[16:].reshape(16, 3, 2, -1)
    np.testing.assert_allclose(arms[:16], -(ends[:, :, 1] - ends[:, :, 0]) / (2 * step), atol=1e-7)
