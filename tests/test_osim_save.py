"""Models written back as .osim: what is read again is the model, and what cannot be is refused."""

import pathlib
import xml.etree.ElementTree as ElementTree

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _osim_edits import edited

import empbody as eb
from empbody.rhythms import Affine, Compose, Fourier, Identity, Polynomial, SimmSpline, Stack

HERE = pathlib.Path(__file__).parent
FILES = [path for path in sorted((HERE / "osim").glob("*.osim")) if "loop" not in path.stem]

RODS = """<?xml version="1.0" encoding="UTF-8"?>
<OpenSimDocument Version="{version}">
  <Model name="rods">
    <!--a remark that stays-->
    <BodySet><objects>{bodies}</objects></BodySet>
    <JointSet><objects>{joints}</objects></JointSet>
    <ConstraintSet><objects>{constraints}</objects></ConstraintSet>
  </Model>
</OpenSimDocument>"""
BODY = (
    "<Body name='{0}'><mass>1</mass><mass_center>0.1 0 0</mass_center>"
    "<inertia>0.01 0.02 0.02 0 0 0</inertia></Body>"
)
JOINT = """<PinJoint name="j_{c}"><socket_parent_frame>{p}</socket_parent_frame>
  <socket_child_frame>/bodyset/{b}</socket_child_frame><coordinates><Coordinate name="{c}">
  <default_value>0.2</default_value><range>-1 1.5</range><locked>{locked}</locked></Coordinate>
  </coordinates><frames/></PinJoint>"""
COUPLER = """<CoordinateCouplerConstraint name="c_of_a"><isEnforced>true</isEnforced>
  <coupled_coordinates_function><LinearFunction><coefficients>0.5 0.1</coefficients>
  </LinearFunction></coupled_coordinates_function>
  <independent_coordinate_names>a</independent_coordinate_names>
  <dependent_coordinate_name>c</dependent_coordinate_name><scale_factor>2</scale_factor>
  </CoordinateCouplerConstraint>"""


@pytest.fixture
def rods(tmp_path: pathlib.Path) -> pathlib.Path:
    """Four bodies in a row: a and b are free, c follows a, d is locked."""
    letters = "abcd"
    parents = ["/ground", *(f"/bodyset/body_{x}" for x in letters)]
    path = tmp_path / "rods.osim"
    path.write_text(
        RODS.format(
            version=40500,
            bodies="".join(BODY.format(f"body_{x}") for x in letters),
            joints="".join(
                JOINT.format(c=x, p=p, b=f"body_{x}", locked="true" if x == "d" else "false")
                for x, p in zip(letters, parents, strict=False)
            ),
            constraints=COUPLER,
        )
    )
    return path


def assert_same(a: eb.Model, b: eb.Model):
    """All numbers but those of forces, which hold copies of others."""
    assert a.coordinate_names == b.coordinate_names
    for part in ("mass", "com", "inertia", "gravity", "translation", "rotation", "axis", "lower",
                 "upper", "body_translation", "body_rotation", "paths", "muscles", "default_q",
                 "marker_positions"):  # fmt: skip
        for x, y in zip(
            jax.tree.leaves(getattr(a, part)), jax.tree.leaves(getattr(b, part)), strict=True
        ):
            np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-14, err_msg=part)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_changed(path, tmp_path):
    model = eb.load(path)
    assert eb.save(model, tmp_path / "out.osim") == ()
    again = eb.load(tmp_path / "out.osim")
    assert_same(again, model)
    assert again.source.spec.version == model.source.spec.version
    assert len(again.forces) == len(model.forces)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_numbers_changed(path, tmp_path):
    model = edited(eb.load(path))
    assert eb.save(model, tmp_path / "out.osim") == ()
    assert_same(eb.load(tmp_path / "out.osim"), model)


def test_old_files_get_frames_with_all_digits(tmp_path):
    """OpenSim 4 reads these, and so does the loader; what disagrees with them is reported."""
    path, out = HERE / "osim" / "stem_10902.osim", tmp_path / "out.osim"
    model = eb.load(path)
    eb.save(model, out)
    assert "PhysicalOffsetFrame" not in out.read_text()  # six digits hold everything
    third = model.translation.at[0].set(jnp.array([0.1, 0.5, 1.0 / 3.0]))
    model = eqx.tree_at(lambda m: m.translation, model, third)
    eb.save(model, out)
    text = out.read_text()
    assert text.count('<PhysicalOffsetFrame name="ground_offset">') == 1
    assert text.count(" 0.3333333333333333</") == 2  # as numbers for OpenSim 3, and in the frame
    again = eb.load(out)
    assert not [note for note in again.report.approximated if "frame" in note.words]
    eb.save(again, out)
    assert out.read_text() == text
    short = again.translation.at[0].set(jnp.array([0.1, 0.5, 0.2]))
    eb.save(eqx.tree_at(lambda m: m.translation, again, short), out)
    assert out.read_text().count("<translation>0.1 0.5 0.2</translation>") == 1
    assert out.read_text().count('<PhysicalOffsetFrame name="ground_offset">') == 1
    # A hand that changes the numbers alone.
    out.write_text(text.replace(" 0.3333333333333333</loc", " 0.9</loc"))
    by_hand = eb.load(out)
    np.testing.assert_allclose(by_hand.translation, model.translation, rtol=0, atol=1e-15)
    (note,) = [note for note in by_hand.report.approximated if "frame" in note.words]
    assert "'ground_offset' and its numbers differ" in note.words


def test_old_files_keep_inertias(tmp_path):
    path, out = HERE / "osim" / "leg_30000.osim", tmp_path / "out.osim"
    model = eb.load(path)
    model = eqx.tree_at(lambda m: m.inertia, model, model.inertia / 3.0)
    eb.save(model, out)
    again = eb.load(out)
    np.testing.assert_array_equal(again.inertia, model.inertia)
    assert again.report.warnings == model.report.warnings
    root = ElementTree.parse(out)
    written = [body.findtext("inertia") for body in root.iter("Body")]
    assert sum(words is not None for words in written) == model.nb


def test_frames_turn_and_remarks_stay(rods, tmp_path):
    model = eb.load(rods)
    c, s = np.cos(0.3), np.sin(0.3)
    turn = jnp.asarray([[1.0, 0, 0], [0, c, -s], [0, s, c]])
    model = eqx.tree_at(lambda m: m.rotation, model, model.rotation.at[1].set(turn))
    model = eqx.tree_at(
        lambda m: m.body_translation, model, model.body_translation.at[0].set([0.0, 0.1, 0.0])
    )
    eb.save(model, tmp_path / "out.osim")
    assert_same(eb.load(tmp_path / "out.osim"), model)
    assert "a remark that stays" in (tmp_path / "out.osim").read_text()


def test_choices_of_the_caller_are_kept(rods, tmp_path):
    model = eb.load(rods, lock={"b": 0.4}, free=["c", "d"])
    eb.save(model, tmp_path / "out.osim")
    again = eb.load(tmp_path / "out.osim")
    assert again.coordinate_names == ("a", "c", "d")
    assert_same(again, model)


RHYTHMS = {
    # Of (a, b); joint variables a, b, c (d is locked and has none).
    "affine": Affine([[1.0, 0.0], [0.0, 1.0], [0.4, -0.3]], [0.0, 0.0, 0.2]),
    "polynomial": Stack(
        [
            (Identity(), [0, 1]),
            (Polynomial.total_degree(2, 3, np.arange(10.0)[None] / 20, centre=[0.1, 0.2]), [0, 1]),
        ],
        2,
    ),
    "one input": Stack(
        [(Identity(), [0, 1]), (Polynomial([[0], [1], [3]], [[0.1, 0.5, -0.2]]), [1])], 2
    ),
    "spline": Stack(
        [
            (Identity(), [0, 1]),
            (
                Compose(
                    Affine([[-2.0]], [0.3]),
                    SimmSpline([-1.0, 0.0, 0.7, 1.5], [[0.1], [0.2], [0.0], [0.4]]),
                ),
                [0],
            ),
        ],
        2,
    ),
}
TAGS = {
    "affine": "LinearFunction",
    "polynomial": "MultivariatePolynomialFunction",
    "one input": "PolynomialFunction",
    "spline": "SimmSpline",
}


@pytest.mark.parametrize("family", RHYTHMS)
def test_rhythms_become_couplers(rods, tmp_path, family):
    model = eb.load(rods).with_rhythm(RHYTHMS[family])
    assert eb.save(model, tmp_path / "out.osim") == ()
    again = eb.load(tmp_path / "out.osim")
    assert again.coordinate_names == ("a", "b")
    q = jnp.asarray(np.random.default_rng(1).uniform(-1, 1.5, (10, 2)))
    np.testing.assert_allclose(
        jax.vmap(again.rhythm)(q), jax.vmap(model.rhythm)(q), rtol=0, atol=1e-13
    )
    assert f"<{TAGS[family]}>" in (tmp_path / "out.osim").read_text()


def test_other_families_are_sampled_or_refused(rods, tmp_path):
    wave = Stack([(Identity(), [0, 1]), (Fourier([[0.0], [0.1], [0.2]], period=6.0), [0])], 2)
    model = eb.load(rods).with_rhythm(wave)
    (note,) = eb.save(model, tmp_path / "out.osim")
    assert note.startswith("joint variable 'j_c.rotation1' is sampled")
    again = eb.load(tmp_path / "out.osim")
    q = jnp.asarray([[0.3, 0.1], [1.2, 0.0]])
    np.testing.assert_allclose(jax.vmap(again.rhythm)(q), jax.vmap(model.rhythm)(q), atol=1e-6)
    with pytest.raises(ValueError, match="only; fit a SimmSpline"):
        eb.save(model, tmp_path / "finer.osim", tolerance=1e-15)
    assert not (tmp_path / "finer.osim").exists()


def test_what_cannot_be_written_is_refused(rods, tmp_path):
    model = eb.load(rods)
    out = tmp_path / "out.osim"
    swapped = Affine([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], np.zeros(3))
    with pytest.raises(ValueError, match="free coordinate 'a'"):
        eb.save(model.with_rhythm(swapped), out)
    turned = eqx.tree_at(lambda m: m.axis, model, model.axis.at[0].set([1.0, 0.0, 0.0]))
    with pytest.raises(ValueError, match="model's axis"):
        eb.save(turned, out)
    with pytest.raises(ValueError, match="did not come from"):
        eb.save(eb.models.four_bar(), out)
    assert not out.exists()


KNEE = """<CustomJoint name="knee"><socket_parent_frame>/ground</socket_parent_frame>
  <socket_child_frame>/bodyset/shank</socket_child_frame><coordinates><Coordinate name="t">
  <range>-1 1</range></Coordinate></coordinates><SpatialTransform>
  <TransformAxis name="rotation3"><coordinates>t</coordinates><axis>0 0 1</axis></TransformAxis>
  <TransformAxis name="translation1"><coordinates>t</coordinates><axis>1 0 0</axis>
  <SimmSpline name="function"><x>-1 0 0.5 1</x><y>0.1 0.2 0.1 0</y></SimmSpline></TransformAxis>
  </SpatialTransform></CustomJoint>"""


def test_functions_of_axes(tmp_path):
    """A joint variable that the file makes a function of its joint's own coordinate."""
    path, out = tmp_path / "knee.osim", tmp_path / "out.osim"
    body = BODY.format("shank")
    path.write_text(RODS.format(version=40000, bodies=body, joints=KNEE, constraints=""))
    model = eb.load(path)
    assert model.joint_names == ("knee.translation1", "knee.rotation3")
    curve = Polynomial([[0], [2]], [[0.1, 0.25]])
    model = model.with_rhythm(Stack([(curve, [0]), (Identity(), [0])], 1))
    assert eb.save(model, out) == ()
    again = eb.load(out)
    np.testing.assert_allclose(again.rhythm(jnp.array([0.8])), [0.26, 0.8], atol=1e-15)
    # An axis without a function is written as what it means.
    assert any("without a function" in note.words for note in model.report.approximated)
    assert not again.report.approximated


def leaves(tree):
    return [np.asarray(x) for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def test_passive_elements(tmp_path):
    """Springs, limits, bushings and strings: every number that their elements have."""
    model, out = eb.load(HERE / "osim" / "passive_40600.osim"), tmp_path / "out.osim"
    kinds = {type(force).__name__: k for k, force in enumerate(model.forces)}
    assert set(kinds) == {"SoftStops", "VariableSprings", "PointSpring", "Bushing", "PathForce"}

    def numbers(m):
        f = {name: m.forces[k] for name, k in kinds.items()}
        stops, springs, coil = f["SoftStops"], f["VariableSprings"], f["PointSpring"]
        strings = f["PathForce"]
        return [
            *(stops.lower, stops.upper, stops.lower_stiffness, stops.damping, stops.transition),
            *(springs.stiffness, springs.rest, springs.damping),
            *(coil.stiffness, coil.rest_length, coil.point_a, coil.point_b),
            *(f["Bushing"].rotational_stiffness, f["Bushing"].translational_damping),
            *(law.rest_length for law in strings.laws),
            strings.laws[0].stiffness,
            strings.carrier.paths.location,
        ]

    new = eqx.tree_at(numbers, model, [1.01 * x for x in numbers(model)])
    assert eb.save(new, out) == ()
    for a, b in zip(leaves(eb.load(out).forces), leaves(new.forces), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)
    frame = eqx.tree_at(
        lambda m: m.forces[kinds["Bushing"]].frame_a.translation, model, jnp.ones(3)
    )
    with pytest.raises(ValueError, match="a frame of BushingForce 'rubber' was changed"):
        eb.save(frame, out)
    damped = eqx.tree_at(lambda m: m.forces[kinds["PointSpring"]].damping, model, jnp.array(1.0))
    with pytest.raises(ValueError, match="damping of PointToPointSpring 'coil'"):
        eb.save(damped, out)
    with pytest.raises(ValueError, match="force elements"):
        eb.save(model.with_forces(model.forces[:-1]), out)


def test_points_that_move_or_come_and_go(tmp_path):
    model, out = eb.load(HERE / "osim" / "leg_30000.osim"), tmp_path / "out.osim"
    paths = model.paths
    larger = jax.tree.map(lambda x: x, paths.moving[0])
    values = [x for x in jax.tree.leaves(larger) if x.ndim == 2 and x.shape[0] == 6]
    assert values
    larger = jax.tree.map(lambda x: 1.02 * x if any(x is v for v in values) else x, larger)
    new = eqx.tree_at(
        lambda m: (m.paths.moving, m.paths.condition),
        model,
        ((larger, *paths.moving[1:]), paths.condition + jnp.array([[0.02, 0.01]])),
    )
    eb.save(new, out)
    again = eb.load(out)
    assert_same(again, new)
    q = jnp.array([0.1, 0.0, 0.1, -0.6])
    lengths = [eb.path_lengths(m, q) for m in (model, new, again)]
    np.testing.assert_allclose(lengths[2], lengths[1], rtol=0, atol=1e-12)
    assert abs(float(lengths[1][1] - lengths[0][1])) > 1e-4
    moved = eqx.tree_at(lambda m: m.paths.location, model, model.paths.location + 0.01)
    with pytest.raises(ValueError, match=r"location of MovingPathPoint 'broad-2' of 'broad'"):
        eb.save(moved, out)
    bounded = jnp.zeros_like(model.paths.moving_range)
    with pytest.raises(ValueError, match="range of MovingPathPoint 'broad-2'"):
        eb.save(eqx.tree_at(lambda m: m.paths.moving_range, model, bounded), out)


def test_curves_of_muscles(tmp_path):
    model, out = eb.load(HERE / "osim" / "muscles_40000.osim"), tmp_path / "out.osim"
    known = {"active_shape", "passive_shape", "passive_strain", "plateau", "active_width_scale"}
    done, refused = 0, []
    for k, family in enumerate(model.muscles.curves.families):
        for what in sorted(known & set(vars(family))):
            new = eqx.tree_at(
                lambda m, k=k, what=what: getattr(m.muscles.curves.families[k], what),
                model,
                1.02 * getattr(family, what),
            )
            try:
                eb.save(new, out)
            except ValueError as error:
                refused.append(str(error))
                continue
            assert_same(eb.load(out), new)
            done += 1
    assert done >= 5
    assert all("of the curves of" in words for words in refused)


def test_closed_loops(tmp_path):
    model = eb.load(HERE / "osim" / "loop_30000.osim")
    model = eqx.tree_at(
        lambda m: [m.mass, m.default_q], model, [model.mass * 1.1, jnp.array([0.1])]
    )
    out = tmp_path / "out.osim"
    eb.save(model, out)
    moved = eqx.tree_at(lambda m: m.translation, model, model.translation + 0.01)
    with pytest.raises(ValueError, match="closed loops"):
        eb.save(moved, out)
