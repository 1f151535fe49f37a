"""Loading .osim files: choices of coordinates, honesty, safety; and the shared models."""

import csv
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.io.osim._context import Context
from empbody.io.osim._expressions import combine, constant, coordinate, rhythm_of
from empbody.io.osim._functions import read_function
from empbody.io.osim._xml import MAX_DEPTH, Node, parse_bytes

HERE = pathlib.Path(__file__).parent
MODELS = HERE / "osim"
SHARED = HERE.parents[1] / "shared"

TWO_RODS = """<?xml version="1.0" encoding="UTF-8"?>
<OpenSimDocument Version="40000">
  <Model name="two_rods">
    {parts}
    <gravity>0 -9.81 0</gravity>
    <BodySet><objects>
      <Body name="upper">
        <mass>{mass}</mass><mass_center>0 -0.2 0</mass_center>
        <inertia>{inertia}</inertia>
        <attached_geometry><Mesh name="m"><mesh_file>bone.vtp</mesh_file></Mesh></attached_geometry>
      </Body>
      <Body name="lower"><mass>1</mass><mass_center>0 -0.1 0</mass_center>
        <inertia>0.01 0.001 0.01 0 0 0</inertia></Body>
    </objects></BodySet>
    <JointSet><objects>
      <PinJoint name="shoulder">
        <socket_parent_frame>/ground</socket_parent_frame>
        <socket_child_frame>/bodyset/upper</socket_child_frame>
        <coordinates><Coordinate name="a"><default_value>0.3</default_value>
          <range>-1 2</range><clamped>true</clamped></Coordinate></coordinates>
      </PinJoint>
      <PinJoint name="elbow">
        <socket_parent_frame>elbow_in_upper</socket_parent_frame>
        <socket_child_frame>/bodyset/lower</socket_child_frame>
        <coordinates><Coordinate name="b"><default_value>0.5</default_value>
          {coordinate}</Coordinate></coordinates>
        <frames><PhysicalOffsetFrame name="elbow_in_upper">
          <socket_parent>/bodyset/upper</socket_parent>
          <translation>0 -0.4 0</translation></PhysicalOffsetFrame></frames>
      </PinJoint>
    </objects></JointSet>
    <ConstraintSet><objects>{constraints}</objects></ConstraintSet>
    <MarkerSet><objects><Marker name="tip">
      <socket_parent_frame>/jointset/elbow/elbow_in_upper</socket_parent_frame>
      <location>0.01 0.02 0.03</location></Marker></objects></MarkerSet>
  </Model>
</OpenSimDocument>
"""
COUPLER = """<CoordinateCouplerConstraint name="follows"><isEnforced>{enforced}</isEnforced>
  <coupled_coordinates_function><LinearFunction><coefficients>2 0.1</coefficients></LinearFunction>
  </coupled_coordinates_function><independent_coordinate_names>a</independent_coordinate_names>
  <dependent_coordinate_name>b</dependent_coordinate_name><scale_factor>0.5</scale_factor>
  </CoordinateCouplerConstraint>"""


@pytest.fixture
def write(tmp_path: pathlib.Path):
    """The two rods, with changes, as a file."""

    def make(**changes: str) -> pathlib.Path:
        given = {
            "mass": "2",
            "inertia": "0.05 0.001 0.05 0 0 0",
            "parts": "",
            "coordinate": "",
            "constraints": "",
        }
        file = tmp_path / "model.osim"
        file.write_text(TWO_RODS.format(**(given | changes)))
        return file

    return make


# Coordinates


def test_plain_model(write):
    model = eb.load(write())
    assert model.coordinate_names == ("a", "b")
    assert model.joint_names == ("shoulder.rotation1", "elbow.rotation1")
    assert model.body_names == ("upper", "lower")
    assert isinstance(model.rhythm, eb.rhythms.Identity)
    np.testing.assert_allclose(model.default_q, [0.3, 0.5])
    np.testing.assert_allclose(model.lower, [-1.0, -np.inf])
    np.testing.assert_allclose(model.upper, [2.0, np.inf])
    np.testing.assert_allclose(model.gravity, [0.0, -9.81, 0.0])
    assert model.source.clamped == (True, False)
    assert model.source.motions == ("rotational", "rotational")


def test_markers_stand_in_the_body_of_their_frame(write):
    model = eb.load(write())
    assert model.marker_names == ("tip",)
    assert model.marker_bodies == (0,)
    np.testing.assert_allclose(model.marker_positions, [[0.01, -0.38, 0.03]], atol=1e-15)
    (marker,) = model.markers
    assert (marker.name, marker.body) == ("tip", "upper")


def test_coupler_is_substituted(write):
    model = eb.load(write(constraints=COUPLER.format(enforced="true")))
    assert model.coordinate_names == ("a",)
    np.testing.assert_allclose(model.rhythm(jnp.array([0.7])), [0.7, 0.75], rtol=1e-15)
    assert eb.load(write(constraints=COUPLER.format(enforced="false"))).nq == 2


def test_lock_and_free(write):
    coupled = write(constraints=COUPLER.format(enforced="true"))
    assert eb.load(coupled, free=["b"]).coordinate_names == ("a", "b")
    locked = eb.load(coupled, free=["b"], lock={"a": 0.2})
    assert locked.coordinate_names == ("b",)
    assert locked.joint_names == ("elbow.rotation1",)
    elbow = eb.point_position(locked, jnp.array([0.0]), "lower", jnp.zeros(3))
    np.testing.assert_allclose(elbow, [0.4 * np.sin(0.2), -0.4 * np.cos(0.2), 0.0], atol=1e-15)
    in_file = write(coordinate="<locked>true</locked>")
    assert eb.load(in_file).coordinate_names == ("a",)
    assert eb.load(in_file, free=["b"]).coordinate_names == ("a", "b")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lock": {"elbo": 0.0}}, "has no coordinate 'elbo'"),
        ({"free": ["c"]}, "has no coordinate 'c'"),
        ({"lock": {"a": 0.0}, "free": ["a"]}, "in lock and in free"),
        ({"lock": {"a": float("nan")}}, "a finite number"),
        ({"free": "a"}, "is the string"),
    ],
)
def test_options_that_do_not_fit(write, options, words):
    with pytest.raises(ValueError, match=words):
        eb.load(write(), **options)


def test_all_locked_is_refused(write):
    with pytest.raises(eb.io.FileFormatError, match="no coordinate is free"):
        eb.load(write(), lock={"a": 0.0, "b": 0.0})


def test_prescribed_coordinate(write):
    given = "<prescribed>true</prescribed><prescribed_function>{}</prescribed_function>"
    still = given.format("<Constant><value>0.4</value></Constant>")
    assert eb.load(write(coordinate=still)).coordinate_names == ("a",)
    moving = write(coordinate=given.format("<Sine><amplitude>2</amplitude></Sine>"))
    with pytest.raises(eb.io.UnsupportedElementError, match="prescribed in time"):
        eb.load(moving)
    assert eb.load(moving, lock={"b": 0.1}).coordinate_names == ("a",)
    skipped = eb.load(moving, unsupported="skip")
    assert skipped.coordinate_names == ("a", "b")
    assert "prescribed" in skipped.report.unsupported[0].words


# Honesty


def test_report(write):
    parts = "<ControllerSet><objects><Control name='brain'/></objects></ControllerSet>"
    report = eb.load(write(parts=parts, inertia="5 5 5 0 0 0")).report
    assert (report.version, len(report.read), len(report.unsupported)) == (40000, 7, 0)
    assert [note.name for note in report.ignored] == ["brain"]
    assert report.meshes == (("upper", "bone.vtp"),)
    assert any("'upper' is a phantom" in words for words in report.warnings)
    page = str(report)
    assert "2 PinJoint" in page
    assert "Worth a look: 1" in page


def test_bodies_without_mass_are_pointed_out(write):
    light = eb.load(write(mass="0", inertia="1 1 1 0 0 0"))
    assert any("no effect" in words for words in light.report.warnings)
    np.testing.assert_array_equal(light.inertia[0], np.zeros((3, 3)))  # as in OpenSim
    odd = eb.load(write(inertia="0.01 0.02 0.05 0 0 0"))
    assert any("no rigid body has" in words for words in odd.report.warnings)


def test_unsupported_mechanics(write):
    file = write(constraints="<RollingOnSurfaceConstraint name='wheel'/>")
    with pytest.raises(eb.io.UnsupportedElementError, match=r"line \d+.*wheel"):
        eb.load(file)
    report = eb.load(file, unsupported="skip").report
    assert [(note.element, note.name) for note in report.unsupported] == [
        ("RollingOnSurfaceConstraint", "wheel")
    ]
    component = "<ComponentSet><objects><Motor name='m'/></objects></ComponentSet>"
    with pytest.raises(eb.io.UnsupportedElementError, match="Motor 'm'"):
        eb.load(write(parts=component))


def test_axis_without_function_is_the_coordinate_and_said_so():
    report = eb.load(MODELS / "stem_10902.osim").report
    assert any("without a function" in note.words for note in report.approximated)


def test_defaults_of_the_file(write):
    parts = "<defaults><Coordinate name='default'><range>-3 3</range></Coordinate></defaults>"
    model = eb.load(write(parts=parts))
    np.testing.assert_allclose(model.lower, [-1.0, -3.0])


def test_loading_twice_compiles_once(write):
    traces = []

    @eqx.filter_jit
    def height(model: eb.Model, q: jax.Array) -> jax.Array:
        traces.append(1)
        return eb.body_transforms(model, q)[1, 1, 3]

    file = write()
    q = jnp.zeros(2)
    first, second = eb.load(file), eb.load(file)
    assert first.source == second.source
    assert height(first, q) == height(second, q)
    assert len(traces) == 1
    assert eb.load(file, lock={"a": 0.0}).source != first.source


# Safety


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"<a", "not well-formed"),
        (b"<a></b>", "line 1: not well-formed"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "unknown encoding|decoded"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "document type"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/hostname"><a/>', "document type"),
        (b"<a>&b;</a>", "undefined entity"),
        (b"<a>" * (MAX_DEPTH + 1), f"deeper than {MAX_DEPTH}"),
        (b"\x00\x01", "not well-formed"),
    ],
)
def test_what_is_no_safe_xml_is_refused(content, words):
    with pytest.raises(eb.io.FileFormatError, match=words):
        parse_bytes(content, "x.osim")


def test_large_files_are_refused_unread(tmp_path):
    file = tmp_path / "large.osim"
    with file.open("wb") as stream:
        stream.truncate(100_000_001)
    with pytest.raises(eb.io.FileFormatError, match="100 MB"):
        eb.load(file)


def test_values_of_an_element():
    node = parse_bytes(
        b"<a>\n <n>1.5</n><v>( 1 2 -Inf )</v><t>True</t><w>x y</w><bad>1 z</bad>"
        b"<s><objects><o name='p'/></objects></s></a>"
    )
    assert node.number("n") == 1.5
    assert node.number("absent", 2.0) == 2.0
    assert node.vector("v", 3) == (1.0, 2.0, -np.inf)
    assert node.flag("t")
    assert node.words("w") == ["x", "y"]
    assert [o.name for o in node.objects("s")] == ["p"]
    for ask in (
        lambda: node.number("v"),
        lambda: node.vector("v", 2),
        lambda: node.flag("w"),
        lambda: node.vector("bad"),
        lambda: node.number("absent"),
    ):
        with pytest.raises(eb.io.FileFormatError, match="line"):
            ask()


# Functions


def function(text: str):
    found = read_function(parse_bytes(f"<f>{text}</f>".encode()))
    assert found is not None
    return found


POINTS = "<x>0 1 2.5 3 4 5.5</x><y>0 1 -1 2 0 1</y>"
CURVES = [
    f"<SimmSpline>{POINTS}</SimmSpline>",
    f"<PiecewiseLinearFunction>{POINTS}</PiecewiseLinearFunction>",
    f"<GCVSpline><half_order>2</half_order>{POINTS}</GCVSpline>",
    f"<GCVSpline><half_order>3</half_order>{POINTS}</GCVSpline>",
    "<PolynomialFunction><coefficients>1 -2 0.5 3</coefficients></PolynomialFunction>",
    "<Sine><amplitude>2</amplitude><omega>1.5</omega><phase>0.3</phase><offset>1</offset></Sine>",
    "<StepFunction><start_time>1</start_time><end_time>3</end_time></StepFunction>",
    "<MultiplierFunction><function><SimmSpline><x>0 1 2</x><y>0 1 5</y></SimmSpline></function>"
    "<scale>-2</scale></MultiplierFunction>",
]


@pytest.mark.parametrize("text", CURVES, ids=lambda text: text[1:9])
def test_curves_at_constants_are_those_of_the_rhythm(text):
    curve = function(text)
    at = np.array([-1.3, 0.0, 0.7, 2.5, 3.3, 7.0])
    by_hand = [curve.of([constant(float(x))]).offset for x in at]
    rhythm = rhythm_of([curve.of([coordinate("q")])], ["q"])
    values = jax.vmap(rhythm)(at[:, None])[:, 0]
    np.testing.assert_allclose(values, by_hand, rtol=1e-13, atol=1e-13)
    step = 1e-6
    inside = jnp.array([0.7])
    slope = (rhythm(inside + step) - rhythm(inside - step)) / (2 * step)
    np.testing.assert_allclose(rhythm.jacobian(inside)[:, 0], slope, rtol=1e-6, atol=1e-8)
    bend = (rhythm.jacobian(inside + step) - rhythm.jacobian(inside - step)) / (2 * step)
    jet = rhythm.jet(inside, jnp.array([2.0]))
    np.testing.assert_allclose(jet.curvature, 4.0 * bend[:, 0], rtol=1e-5, atol=1e-6)


def test_expressions_become_few_parts():
    spline, line = function(CURVES[0]), function(CURVES[0].replace("0 1 -1", "0 2 -1"))
    a, b = coordinate("a"), coordinate("b")
    product = function(
        "<MultivariatePolynomialFunction><dimension>2</dimension><order>2</order>"
        "<coefficients>0 0 0 0 1 0</coefficients></MultivariatePolynomialFunction>"
    )
    nested = spline.of([combine(0.2, [(0.5, line.of([a])), (1.0, b)])])
    values = [
        combine(0.5, [(2.0, a), (-1.0, b)]),
        spline.of([a]).times(3.0),
        constant(7.0),
        combine(1.0, [(2.0, line.of([a])), (1.0, b)]),
        line.of([a]),
        product.of([a, spline.of([b])]),
        nested,
    ]
    rhythm = rhythm_of(values, ["a", "b"])
    kinds = [type(part).__name__ for part in rhythm.rhythms]
    assert kinds == ["Affine", "SimmSpline", "Compose", "Compose", "Compose"]
    q = jnp.array([0.8, 1.7])
    one = {n: rhythm_of([f.of([a])], ["a"]) for n, f in (("s", spline), ("l", line))}
    s, t = one["s"](q[:1])[0], one["l"](q[:1])[0]
    sb = one["s"](q[1:])[0]
    inner = one["s"](jnp.stack([0.2 + 0.5 * t + q[1]]))[0]
    expected = [0.5 + 1.6 - 1.7, 3.0 * s, 7.0, 1.0 + 2.0 * t + 1.7, t, 0.8 * sb, inner]
    np.testing.assert_allclose(rhythm(q), jnp.stack([jnp.asarray(e) for e in expected]), rtol=1e-13)
    assert rhythm_of([a, b], ["a", "b"]).n_in is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<Spiral/>", "'Spiral' is not known"),
        ("<SimmSpline><x>0 1</x><y>0</y></SimmSpline>", "2 abscissae x and 1 values"),
        ("<SimmSpline><x>0 0</x><y>0 1</y></SimmSpline>", "do not increase"),
        ("<LinearFunction><coefficients>1</coefficients></LinearFunction>", "1 coefficients"),
        ("<Constant><value>inf</value></Constant>", "finite"),
        ("<MultiplierFunction><scale>1</scale></MultiplierFunction>", "holds no function"),
        (
            "<MultivariatePolynomialFunction><dimension>2</dimension><order>2</order>"
            "<coefficients>1 2</coefficients></MultivariatePolynomialFunction>",
            "make 6",
        ),
    ],
)
def test_functions_that_make_no_sense(text, words):
    with pytest.raises(eb.io.FileFormatError, match=words):
        function(text)


# What readers of forces ask


def test_context_answers():
    model = eb.load(MODELS / "couplers_40600.osim")
    context: Context = model.source.context
    assert context.coordinate_names == model.coordinate_names
    body, place = context.body_of("/ground")
    assert body == "ground"
    np.testing.assert_array_equal(place, np.eye(4))
    for name, value in context.values.items():
        rhythm, inputs = context.coordinate(name)
        assert rhythm.n_out in (1, None)
        assert (inputs == ()) == (context.constant(name) is not None)
        assert set(inputs) == value.inputs()
    with pytest.raises(eb.io.FileFormatError, match="no coordinate 'nowhere'"):
        context.coordinate("nowhere")


def test_node_knows_its_line():
    root = parse_bytes(b"<a>\n<b>\n<c/></b></a>", "f.osim")
    node: Node = root.children[0].children[0]
    assert (node.line, node.path) == (3, "a/b/c")
    with pytest.raises(eb.io.FileFormatError, match=r"f\.osim, line 3: no"):
        node.fail("no")


# The models that users load


def shared(name: str) -> pathlib.Path:
    file = SHARED / "models" / name
    if not file.exists():
        pytest.skip(f"{name} is not here")
    return file


@pytest.mark.parametrize(
    ("name", "nq", "nj", "nb"),
    [
        ("arm26.osim", 2, 2, 3),
        ("holzbaur2005.osim", 15, 92, 60),
        ("mobl_arms_41.osim", 13, 26, 12),
    ],
)
def test_published_models_load(name, nq, nj, nb):
    model = eb.load(shared(name))
    assert (model.nq, model.nj, model.nb) == (nq, nj, nb)


def test_phantoms_are_pointed_out():
    report = eb.load(shared("mobl_arms_41.osim")).report
    phantoms = [words for words in report.warnings if "phantom:" in words]
    assert len(phantoms) == 4


def test_mass_matrix_of_a_published_arm():
    thorax = {f"{kind}_{axis}": 0.0 for kind in "rt" for axis in "xyz"}
    model = eb.load(shared("mobl_arms_41.osim"), lock=thorax)
    table = SHARED / "reference" / "shoulder" / "mass_matrix_mobl41_asis.csv"
    if not table.exists():
        pytest.skip("no reference values here")
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    names = model.coordinate_names
    q = jnp.array([[float(row[f"q_{n}"]) for n in names] for row in rows])
    expected = np.array([[[float(r[f"M_{a}_{b}"]) for b in names] for a in names] for r in rows])
    found = jax.jit(jax.vmap(lambda x: eb.mass_matrix(model, x)))(q)
    scale = np.abs(expected).max(axis=(1, 2), keepdims=True)
    assert np.max(np.abs(found - expected) / scale) < 1e-12


def test_properties_that_nobody_reads_are_pointed_out(tmp_path):
    """A misspelt property would be lost in silence; one given twice is ambiguous."""
    text = (HERE / "osim" / "leg_30000.osim").read_text()
    for old, new in (
        ("<mass>7.9</mass>", "<mas>7.9</mas>"),
        ("<mass>3.4</mass>", "<mass>3.4</mass><mass>5</mass>"),
        ("<max_isometric_force>1100", "<fibre_length>3</fibre_length><max_isometric_force>1100"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "leg.osim"
    path.write_text(text)
    said = "\n".join(eb.load(path).report.warnings)
    assert "<mas> of Body is not known and not used (line" in said
    assert "<fibre_length> of Thelen2003Muscle is not known and not used (line" in said
    assert "Body 'shank' has <mass> 2 times: the first one counts" in said
    clean = eb.load(HERE / "osim" / "leg_30000.osim").report.warnings
    assert not [words for words in clean if "not used" in words or "times" in words]
