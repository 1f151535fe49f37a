"""Forces of .osim files: muscles, strings, springs and stops beside OpenSim's values."""

import csv
import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from empbody import (
    HillState,
    applied_forces,
    forward_dynamics,
    moment_arms,
    path_lengths,
    potential_energy,
)
from empbody.io import FileFormatError
from empbody.io._errors import UnsupportedElementError
from empbody.io.osim._load import load
from empbody.kinematics import Motion
from empbody.model import ConditionalPoint, MovingPoint, PathPoint
from empbody.muscles import ZajacActivation
from empbody.paths import PathForce, lengths_and_arms, string_lengths

HERE = pathlib.Path(__file__).parent
DATA = HERE / "reference" / "osim_forces"
SHARED = HERE.parents[1] / "shared"


@pytest.fixture(scope="module")
def values():
    return json.loads((DATA / "forces.json").read_text())


def column(rows, key):
    return np.asarray([row[key] for row in rows], dtype=float)


# Muscles


@pytest.fixture(scope="module")
def elastic():
    return load(DATA / "elastic.osim")


@pytest.fixture(scope="module")
def elastic_outputs(elastic, values):
    rows = values["elastic"]
    units = np.asarray([elastic.muscle_index(row["muscle"]) for row in rows])
    one = jnp.ones(elastic.nm)

    @jax.jit
    @jax.vmap
    def at(activation, fibre, length):
        state = HillState(activation * one, fibre * one / 0.1)
        muscles = elastic.muscles
        outputs = muscles.outputs(state, length * one, 0.0 * one)
        rates = [
            muscles.derivative(state, e * one, length * one, 0.0 * one).activation
            for e in (0.02, 0.9)
        ]
        return outputs, jnp.stack(rates)

    found, rates = at(
        column(rows, "activation"), column(rows, "fibre_length"), column(rows, "length")
    )
    pick = np.arange(len(rows)), units
    force = np.asarray(elastic.muscles.parameters.max_isometric_force)[units]
    return rows, lambda key: np.asarray(getattr(found, key))[pick], np.asarray(rates), units, force


def test_muscles_keep_names_and_order(elastic):
    assert elastic.muscle_names == (
        *("thelen", "thelen_own", "millard", "millard_own", "millard_undamped"),
        *("degroote", "degroote_own", "degroote_bare", "schutte", "schutte_own"),
    )


def test_tendon_forces_are_opensims(elastic_outputs):
    rows, get, _, _, force = elastic_outputs
    np.testing.assert_allclose(
        get("tendon_force") / force, column(rows, "tendon_force") / force, atol=1e-12
    )


def test_fibre_speeds_are_opensims(elastic_outputs):
    rows, get, _, _, _ = elastic_outputs
    theirs = column(rows, "fibre_velocity")
    # OpenSim's explicit De Groote-Fregly muscle has no damping, so its speeds explode.
    kept = np.asarray([r["muscle"] != "degroote_bare" for r in rows]) & (np.abs(theirs) < 2.0)
    assert kept.sum() > 150
    np.testing.assert_allclose(get("fibre_velocity")[kept], theirs[kept], atol=1e-8)


def test_fibre_forces_are_opensims(elastic_outputs):
    rows, get, _, _, force = elastic_outputs
    told = np.asarray([r.get("active_force") is not None for r in rows])
    told &= np.asarray([r["muscle"] != "degroote_bare" for r in rows])
    told &= np.abs(column(rows, "fibre_velocity")) < 2.0
    theirs = [r for r, use in zip(rows, told, strict=True) if use]
    ours = get("active_force")[told] / force[told]
    np.testing.assert_allclose(ours, column(theirs, "active_force") / force[told], atol=1e-9)
    # OpenSim counts damping as passive.
    ours = (get("passive_force") + get("damping_force"))[told] / force[told]
    np.testing.assert_allclose(ours, column(theirs, "passive_force") / force[told], atol=1e-9)


def test_passive_force_can_be_left_out(elastic, elastic_outputs):
    _, get, _, units, _ = elastic_outputs
    bare = units == elastic.muscle_index("degroote_bare")
    assert np.all(get("passive_force")[bare] == 0.0)


def test_activation_rates_are_opensims_for_every_kind(elastic_outputs):
    rows, _, rates, units, _ = elastic_outputs
    for k, key in enumerate(("0.02", "0.9")):
        theirs = np.asarray([row["activation_rate"][key] for row in rows])
        ours = rates[np.arange(len(rows)), k, units]
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_zajacs_activation_falls_slower_than_it_rises():
    one = jnp.ones(1)
    rate = ZajacActivation().rate
    up = rate(0.2 * one, 0.8 * one, 0.01 * one, 0.07 * one, 0.0 * one)
    down = rate(0.8 * one, 0.2 * one, 0.01 * one, 0.07 * one, 0.0 * one)
    np.testing.assert_allclose(up, 0.6 * (1 / 0.07 + 0.8 * (1 / 0.01 - 1 / 0.07)))
    np.testing.assert_allclose(down, -0.6 / 0.07)


def test_rigid_tendons_are_opensims(values):
    model = load(DATA / "stiff.osim")
    assert model.muscles.tendon == "rigid"
    rows = values["stiff"]
    units = np.asarray([model.muscle_index(row["muscle"]) for row in rows])
    one = jnp.ones(model.nm)

    def at(activation, length, speed):
        return model.muscles.force(HillState(activation * one), length * one, speed * one)

    found = jax.jit(jax.vmap(at))(
        column(rows, "activation"), column(rows, "length"), column(rows, "speed")
    )
    ours = np.asarray(found)[np.arange(len(rows)), units]
    # OpenSim's Millard muscle never pushes; ours may, by its damping.
    ours = np.where([r["muscle"] == "millard_stiff" for r in rows], np.maximum(ours, 0.0), ours)
    np.testing.assert_allclose(ours, column(rows, "tendon_force"), atol=1e-8)
    assert any("activation is its excitation" in str(note) for note in model.report.approximated)


@pytest.mark.parametrize("kind", ["tendon", "velocity"])
def test_tables_can_be_inverted(elastic, kind):
    curves = elastic.muscles.curves.families[-1]
    force = jnp.linspace(0.05, 1.2, 6)
    if kind == "tendon":
        strain = jnp.full(6, 0.04)
        length = curves.tendon_length(force, strain)
        np.testing.assert_allclose(curves.tendon_force(length, strain), force, atol=1e-9)
        slope = jax.jvp(lambda f: curves.tendon_length(f, strain), (force,), (0 * force + 1,))[1]
        along = jax.jvp(lambda x: curves.tendon_force(x, strain), (length,), (0 * force + 1,))[1]
        np.testing.assert_allclose(slope * along, 1.0, atol=1e-5)
    else:
        speed = curves.velocity(0.8 + 0.0 * force, 0.1 + 0.0 * force, force)
        back = 0.8 * curves.force_velocity(speed) + 0.1 * speed
        np.testing.assert_allclose(back, force, atol=1e-12)


# Strings, springs, stops

GROUPS = (
    ("between",),
    ("bush",),
    ("turn_stop", "slide_stop", "follow_stop"),
    ("slide_spring", "follow_spring"),
    ("cord", "band", "own_band", "fibre"),
)


@pytest.fixture(scope="module")
def elements():
    return load(DATA / "elements.osim")


@pytest.fixture(scope="module")
def states(values):
    rows = values["elements"]
    return jnp.asarray(column(rows, "q")), jnp.asarray(column(rows, "qd"))


@pytest.mark.parametrize("number", range(len(GROUPS)), ids=[group[0] for group in GROUPS])
def test_elements_are_opensims_and_gradients_of_their_energy(elements, states, values, number):
    force, q, qd = elements.forces[number], *states

    @jax.jit
    @jax.vmap
    def at(q, qd):
        def push(qd):
            return force.generalised_force(Motion.of(elements, q, qd), jnp.asarray(0.0))

        slope = jax.grad(lambda q: force.potential_energy(Motion.of(elements, q)))
        return push(qd), push(0.0 * qd), slope(q)

    moving, resting, slope = at(q, qd)
    rows = [row["forces"] for row in values["elements"]]
    wanted = np.sum([[row[name] for row in rows] for name in GROUPS[number]], axis=0)
    np.testing.assert_allclose(moving, wanted, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(slope, -resting, rtol=1e-9, atol=1e-9)


def test_elements_act_in_the_dynamics(elements, states):
    q, qd = states
    total = jax.vmap(lambda q, v: applied_forces(elements, q, v))(q, qd)
    with_them = jax.vmap(lambda q, v: forward_dynamics(elements, q, v))(q, qd)
    without = jax.vmap(lambda q, v, f: forward_dynamics(elements, q, v, f, elements=False))
    np.testing.assert_allclose(with_them, without(q, qd, total), rtol=1e-9, atol=1e-9)
    stretch = jax.jit(lambda model, q: string_lengths(model, q)["cord"] - 0.2)(elements, q[0])
    slope = eqx.filter_jit(eqx.filter_grad(potential_energy))(elements, q[0])
    stiffness = slope.forces[-1].laws[0].stiffness
    np.testing.assert_allclose(stiffness, 0.5 * max(float(stretch), 0.0) ** 2, rtol=1e-9)


def test_strings_are_no_muscles_but_have_lengths(elements):
    assert elements.muscle_names == ("cable",)
    assert elements.muscles is None
    (strings,) = [force for force in elements.forces if isinstance(force, PathForce)]
    assert strings.names == ("cord", "band", "own_band", "fibre")
    q = jnp.asarray([0.3, 0.2])
    lengths = jax.jit(string_lengths)(elements, q)
    assert set(lengths) == set(strings.names)
    tension = jax.jit(lambda q: strings.tensions(Motion.of(elements, q)))(q)
    np.testing.assert_allclose(tension[0], 300.0 * max(float(lengths["cord"]) - 0.2, 0.0))


def test_report_tells_what_does_not_act(elements):
    ignored = {note.name for note in elements.report.ignored}
    assert {"off", "motor"} <= ignored


# Points and wraps, in a file of our own

_HEAD = """<?xml version="1.0" encoding="UTF-8" ?>
<OpenSimDocument Version="{version}"><Model name="m"><gravity>0 0 0</gravity>"""
_JOINT = """
<PinJoint name="{name}"><socket_parent_frame>{parent}</socket_parent_frame>
<socket_child_frame>{body}</socket_child_frame><coordinates><Coordinate name="{coordinate}">
<range>-1 1</range>{more}</Coordinate></coordinates></PinJoint>"""
_BODY = """<Body name="{name}"><mass>1</mass><mass_center>0 0 0</mass_center>
<inertia>1 1 1 0 0 0</inertia>{more}</Body>"""
_MUSCLE = """<Thelen2003Muscle name="{name}"><GeometryPath><PathPointSet><objects>{points}
</objects></PathPointSet><PathWrapSet><objects>{wraps}</objects></PathWrapSet></GeometryPath>
<max_isometric_force>100</max_isometric_force><optimal_fiber_length>0.1</optimal_fiber_length>
<tendon_slack_length>0.2</tendon_slack_length></Thelen2003Muscle>"""
_FIXED = """<PathPoint name="{name}"><socket_parent_frame>{frame}</socket_parent_frame>
<location>{at}</location></PathPoint>"""
_MOVING = """<MovingPathPoint name="m"><socket_parent_frame>/bodyset/b</socket_parent_frame>
<socket_x_coordinate>/jointset/j/{x}</socket_x_coordinate>
<x_location><LinearFunction><coefficients>0.1 0.2</coefficients></LinearFunction></x_location>
<socket_y_coordinate>/jointset/j/{x}</socket_y_coordinate>
<y_location><Constant><value>0.3</value></Constant></y_location></MovingPathPoint>"""
_CONDITIONAL = """<ConditionalPathPoint name="c"><socket_parent_frame>/bodyset/a
</socket_parent_frame><location>0 0.1 0</location><socket_coordinate>/jointset/j/{x}
</socket_coordinate><range>{low} {high}</range></ConditionalPathPoint>"""
_FRAME = """<components><PhysicalOffsetFrame name="tilted"><socket_parent>..</socket_parent>
<translation>0.1 0 0</translation><orientation>0 0 1.5707963267948966</orientation>
<WrapObjectSet><objects><WrapCylinder name="roll"><translation>0 0.2 0</translation>
<xyz_body_rotation>0 0 0</xyz_body_rotation><quadrant>+x</quadrant><radius>0.05</radius>
<length>1</length></WrapCylinder></objects></WrapObjectSet></PhysicalOffsetFrame></components>"""
A, B = "/bodyset/a", "/bodyset/b"
START = _FIXED.format(name="p", frame="/ground", at="0 0.5 0")
END = _FIXED.format(name="q", frame=B, at="0.1 0.2 0")


def document(points=(START, END), wraps="", coupler="", lock_v="", forces=""):
    """Two bodies on pins about z with coordinates u and v, and w on a third."""
    bodies = [_BODY.format(name="a", more=_FRAME)]
    bodies += [_BODY.format(name=name, more="") for name in "bc"]
    joints = [
        _JOINT.format(name="j1", parent="/ground", body=A, coordinate="u", more=""),
        _JOINT.format(name="j2", parent=A, body=B, coordinate="v", more=lock_v),
        _JOINT.format(name="j3", parent=B, body="/bodyset/c", coordinate="w", more=""),
    ]
    muscle = _MUSCLE.format(name="m", points="".join(points), wraps=wraps)
    sets = (
        ("BodySet", "".join(bodies)),
        ("JointSet", "".join(joints)),
        ("ConstraintSet", coupler),
        ("ForceSet", muscle + forces),
    )
    text = _HEAD.format(version=40000)
    text += "".join(f"<{tag}><objects>{inner}</objects></{tag}>" for tag, inner in sets)
    return text + "</Model></OpenSimDocument>"


def coupled(function):
    return f"""<CoordinateCouplerConstraint name="k"><coupled_coordinates_function>{function}
</coupled_coordinates_function><independent_coordinate_names>u</independent_coordinate_names>
<dependent_coordinate_name>v</dependent_coordinate_name></CoordinateCouplerConstraint>"""


@pytest.fixture
def read(tmp_path):
    def made(text, **options):
        file = tmp_path / "m.osim"
        file.write_text(text)
        return load(file, **options)

    return made


def units_of(monkeypatch, read, text, **options):
    """The units that a file's model is built with."""
    from empbody.io.osim import _load

    kept = []
    true = _load.read_forces

    def spy(context):
        kept.append(true(context))
        return kept[-1]

    monkeypatch.setattr(_load, "read_forces", spy)
    read(text, **options)
    return kept[0]


def test_points_on_offset_frames_are_placed_in_their_body(monkeypatch, read):
    middle = _FIXED.format(name="t", frame="/bodyset/a/tilted", at="1 0 0")
    (unit,), surfaces, _ = units_of(monkeypatch, read, document((START, middle, END)))
    assert isinstance(unit.points[1], PathPoint)
    assert unit.points[1].body == "a"
    np.testing.assert_allclose(unit.points[1].location, [0.1, 1.0, 0.0], atol=1e-15)
    (roll,) = surfaces
    assert (roll.name, roll.body, roll.quadrant) == ("roll", "a", "+x")
    np.testing.assert_allclose(roll.translation, [-0.1, 0.0, 0.0], atol=1e-15)


def test_moving_points_follow_coupled_coordinates_and_stop_at_their_range(monkeypatch, read):
    line = "<LinearFunction><coefficients>2 0.1</coefficients></LinearFunction>"
    text = document((START, _MOVING.format(x="v"), END), coupler=coupled(line))
    (unit,), _, _ = units_of(monkeypatch, read, text)
    point = unit.points[1]
    assert isinstance(point, MovingPoint)
    assert tuple(point.coordinates) == ("u",)
    for u in (0.0, 0.3, 0.9, -0.9):
        v = np.clip(2.0 * u + 0.1, -1.0, 1.0)
        np.testing.assert_allclose(point.location(jnp.asarray([u])), [0.1 * v + 0.2, 0.3, 0.0])


def test_moving_points_of_locked_coordinates_stay(monkeypatch, read):
    text = document((START, _MOVING.format(x="v"), END))
    (unit,), _, _ = units_of(monkeypatch, read, text, lock={"v": 0.5})
    assert isinstance(unit.points[1], PathPoint)
    np.testing.assert_allclose(unit.points[1].location, [0.25, 0.3, 0.0])


def test_conditions_are_mapped_to_free_coordinates(monkeypatch, read):
    line = "<LinearFunction><coefficients>-2 0.1</coefficients></LinearFunction>"
    points = (START, _CONDITIONAL.format(x="v", low=-0.3, high=0.5), END)
    (unit,), _, _ = units_of(monkeypatch, read, document(points, coupler=coupled(line)))
    point = unit.points[1]
    assert isinstance(point, ConditionalPoint)
    assert point.coordinate == "u"
    np.testing.assert_allclose(point.range, [-0.2, 0.2], atol=1e-5)


def test_conditions_are_mapped_through_curves(monkeypatch, read):
    spline = "<SimmSpline><x>-1 -0.5 0 0.5 1</x><y>-1 -0.2 0 0.3 1</y></SimmSpline>"
    points = (START, _CONDITIONAL.format(x="v", low=-0.2, high=0.3), END)
    (unit,), _, _ = units_of(monkeypatch, read, document(points, coupler=coupled(spline)))
    np.testing.assert_allclose(unit.points[1].range, [-0.5, 0.5], atol=1e-4)


def test_conditions_that_hold_twice_are_refused(read):
    spline = "<SimmSpline><x>-1 -0.5 0 0.5 1</x><y>1 0.2 0 0.3 1</y></SimmSpline>"
    points = (START, _CONDITIONAL.format(x="v", low=0.2, high=0.5), END)
    text = document(points, coupler=coupled(spline))
    with pytest.raises(UnsupportedElementError, match=r"line \d+: .*more than once"):
        read(text)
    model = read(text, unsupported="skip")
    assert model.nm == 0
    assert model.report.unsupported


@pytest.mark.parametrize(("low", "there"), [(0.4, True), (0.6, False)])
def test_conditions_on_locked_coordinates_are_settled(monkeypatch, read, low, there):
    wrap = "<PathWrap name='w'><wrap_object>roll</wrap_object><range>2 3</range></PathWrap>"
    points = (START, _CONDITIONAL.format(x="v", low=low, high=0.9), START, END)
    text = document(points, wraps=wrap)
    (unit,), _, _ = units_of(monkeypatch, read, text, lock={"v": 0.5})
    assert len(unit.points) == 3 + there
    assert [(w.first, w.last) for w in unit.wraps] == ([(2, 3)] if there else [])


def test_wrapping_can_be_left_out(read):
    wrap = "<PathWrap name='w'><wrap_object>roll</wrap_object><range>-1 -1</range></PathWrap>"
    with_it, without = (read(document(wraps=wrap), wrapping=use) for use in (True, False))
    assert len(with_it.paths.layout.wraps) == 1
    assert with_it.paths.layout.surfaces[0].kind == "cylinder"
    assert not without.paths.layout.wraps


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (document(wraps="<PathWrap><wrap_object>none</wrap_object></PathWrap>"), "none"),
        (document((START,)), "1 points"),
        (document((START, _FIXED.format(name="x", frame="/bodyset/z", at="0 0 0"))), "z"),
        (document((START, _FIXED.format(name="x", frame=B, at="0 0"))), "2 numbers"),
        (document().replace("<radius>0.05", "<radius>-0.05"), "radius"),
        (document().replace("+x</quadrant>", "up</quadrant>"), "quadrant"),
        (document().replace("<max_isometric_force>100", "<max_isometric_force>-1"), "max_iso"),
        (document().replace("<optimal_fiber_length>0.1", "<optimal_fiber_length>x"), "number"),
    ],
)
def test_nonsense_is_named_with_its_line(read, text, words):
    with pytest.raises(FileFormatError, match=rf"m\.osim, line \d+.*{words}"):
        read(text)


def test_unknown_forces_are_refused_or_skipped(read):
    text = document(forces="<HuntCrossleyForce name='floor'/>")
    with pytest.raises(UnsupportedElementError, match="floor"):
        read(text)
    model = read(text, unsupported="skip")
    assert [note.name for note in model.report.unsupported] == ["floor"]
    assert model.muscle_names == ("m",)


# Real models, where they are at hand

shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared models")


@shared
@pytest.mark.parametrize(
    ("file", "table", "sweep"),
    [
        ("holzbaur2005", "ma_holzbaur_nowrap_sweep_shoulder_elv", "shoulder_elv"),
        ("holzbaur2005", "ma_holzbaur_nowrap_offzero_elv_angle", "elv_angle"),
        ("mobl_arms_41", "ma_mobl41_nowrap_sweep_shoulder_elv", "shoulder_elv"),
    ],
)
def test_shoulder_lengths_without_wrapping(file, table, sweep):
    model = load(SHARED / "models" / f"{file}.osim", wrapping=False)
    with open(SHARED / "reference" / "shoulder" / f"{table}.csv") as stream:
        rows = list(csv.DictReader(stream))
    q = np.zeros((len(rows), model.nq))
    if "offzero" in table:
        q[:, model.coordinate_index("shoulder_elv")] = np.radians(60.0)
        q[:, model.coordinate_index("shoulder_rot")] = np.radians(-30.0)
    q[:, model.coordinate_index(sweep)] = np.radians(column(rows, "deg"))
    lengths, arms = jax.vmap(lambda x: lengths_and_arms(model, x))(jnp.asarray(q))
    for key in rows[0]:
        theirs = column(rows, key)
        if key.startswith("len_"):
            ours = lengths[:, model.muscle_index(key[4:])]
            np.testing.assert_allclose(ours, theirs, atol=1e-10)
        elif key.startswith("ma_") and "mobl" not in table:
            # OpenSim's moment arms over moving points are not derivatives of lengths.
            coordinate, muscle = key[3:].rsplit("_", 1)
            ours = arms[:, model.coordinate_index(coordinate), model.muscle_index(muscle)]
            np.testing.assert_allclose(ours, theirs, atol=1e-10)


@shared
def test_arm26_loads_and_bends():
    model = load(SHARED / "models" / "arm26.osim", wrapping=False)
    assert model.muscle_names == ("TRIlong", "TRIlat", "TRImed", "BIClong", "BICshort", "BRA")
    q = jnp.asarray([0.2, 1.0])
    assert np.all(np.asarray(path_lengths(model, q)) > 0.05)
    assert moment_arms(model, q)[1, 0] < 0.0 < moment_arms(model, q)[1, 5]


@pytest.mark.parametrize(
    ("tag", "remedy"),
    [
        ("FunctionBasedPath", "use the model that it was fitted to"),
        ("Scholz2015GeometryPath", "write its points and obstacles as a <GeometryPath>"),
    ],
)
def test_other_kinds_of_paths_are_refused_with_a_remedy(read, tag, remedy):
    strange = f"""<DeGrooteFregly2016Muscle name="odd"><{tag} name="path"><coordinate_paths>
    /jointset/j1/u</coordinate_paths><PolynomialFunction name="length_function"><coefficients>
    0.1 0.2</coefficients></PolynomialFunction></{tag}><max_isometric_force>100
    </max_isometric_force></DeGrooteFregly2016Muscle>"""
    with pytest.raises(UnsupportedElementError, match=remedy) as caught:
        read(document(forces=strange))
    assert "DeGrooteFregly2016Muscle 'odd'" in str(caught.value)
    model = read(document(forces=strange), unsupported="skip")
    assert model.muscle_names == ("m",)
    assert [note.name for note in model.report.unsupported] == ["odd"]
