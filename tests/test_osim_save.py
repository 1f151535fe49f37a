"""Models written back as .osim: what is read again is the model, and what cannot be is refused."""

import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.io.osim._frames import placement
from empbody.rhythms import Affine, Compose, Fourier, Identity, Polynomial, SimmSpline, Stack

HERE = pathlib.Path(__file__).parent
FILES = [path for path in sorted((HERE / "osim").glob("*.osim")) if "loop" not in path.stem]
PLACEMENTS = ("translation", "rotation", "body_translation", "body_rotation")

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


def edited(model: eb.Model) -> eb.Model:
    """Most numbers changed somewhat; placements of joints too, where they can be written."""
    chance = np.random.default_rng(0)

    def near(x, size=1e-2):
        return x * (1 + size * chance.uniform(-1, 1, x.shape))

    def apart(x, size=1e-2):
        return x + size * chance.uniform(-1, 1, x.shape)

    def turned(x):
        return x @ np.stack([placement(np.zeros(3), apart(np.zeros(3)))[:3, :3] for _ in x])

    owners = [name.rpartition(".")[0] for name in model.joint_names]
    first = [k for k, owner in enumerate(owners) if owner not in owners[:k]]
    if not model.source.spec.constraints:  # a loop closes with the placements that it was loaded with
        placed = {name: np.array(getattr(model, name)) for name in PLACEMENTS}
        placed["translation"][first] = apart(placed["translation"][first])
        placed["rotation"][first] = turned(placed["rotation"][first])
        placed["body_translation"] = apart(placed["body_translation"])
        placed["body_rotation"] = turned(placed["body_rotation"])
        model = eqx.tree_at(
            lambda m: [getattr(m, name) for name in PLACEMENTS],
            model,
            [jnp.asarray(x) for x in placed.values()],
        )
    parts = {
        "mass": near(model.mass),
        "com": near(model.com),
        "inertia": model.inertia * 1.01,
        "gravity": apart(model.gravity),
        "default_q": model.default_q * 0.98,
        "marker_positions": apart(model.marker_positions),
    }
    model = eqx.tree_at(lambda m: [getattr(m, part) for part in parts], model, list(parts.values()))
    if model.nm:
        moving = [k for k, _ in model.paths.layout.moving]
        location = np.array(apart(model.paths.location))
        location[moving] = 0.0
        model = eqx.tree_at(
            lambda m: [m.paths.location, m.paths.surface_size, m.paths.surface_translation],
            model,
            [
                jnp.asarray(location),
                model.paths.surface_size * 1.001,
                apart(model.paths.surface_translation),
            ],
        )
    if model.muscles is not None:
        names = ("max_isometric_force", "optimal_fibre_length", "tendon_slack_length", "pennation")
        old = model.muscles.parameters
        model = eqx.tree_at(
            lambda m: [getattr(m.muscles.parameters, n) for n in names],
            model,
            [near(getattr(old, n)) for n in names],
        )
    return model


def assert_same(a: eb.Model, b: eb.Model):
    """All numbers but those of forces, which hold copies of others."""
    assert a.coordinate_names == b.coordinate_names
    for part in ("mass", "com", "inertia", "gravity", "translation", "rotation", "axis", "lower",
                 "upper", "body_translation", "body_rotation", "paths", "muscles", "default_q",
                 "marker_positions"):  # fmt: skip
        for x, y in zip(
            jax.tree.leaves(getattr(a, part)), jax.tree.leaves(getattr(b, part)), strict=True
        ):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13, err_msg=part)


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
