"""Loops that a file's constraints close: what follows what, how far, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb

PIN = """<PinJoint name="{name}"><socket_parent_frame>/{parent}</socket_parent_frame>
  <socket_child_frame>/bodyset/{child}</socket_child_frame>
  <coordinates><Coordinate name="{coordinate}"><default_value>{default}</default_value>
    <range>{range}</range><locked>{locked}</locked>{more}</Coordinate></coordinates>
  <frames>{frames}</frames></PinJoint>"""
FRAME = """<PhysicalOffsetFrame name="{name}"><socket_parent>/bodyset/{body}</socket_parent>
  <translation>{at} 0 0</translation><orientation>0 0 0</orientation></PhysicalOffsetFrame>"""
LENGTHS = {"a": 0.5, "b": 1.2, "c": 1.0}
GROUND = 1.1
TILT = "0.4 -0.3 0.2"


def pin(name, parent, child, coordinate, default=0.0, at=None, locked="false", **more):
    frames = "" if at is None else FRAME.format(name=f"{name}_p", body=parent, at=at)
    where = f"jointset/{name}/{name}_p" if at is not None else parent
    return PIN.format(
        name=name,
        parent=where,
        child=child,
        coordinate=coordinate,
        default=default,
        range=more.get("range", "-3 3"),
        locked=locked,
        more=more.get("more", ""),
        frames=frames,
    )


def four_bar(path, *, locked="false", constraint=None, range="-0.8 2.5", default=(1.0, -0.5, -1.9)):
    """Crank a, coupler b and rocker c in a plane that no axis of the ground is square to."""
    bodies = "".join(
        f"<Body name='{n}'><mass>1</mass><mass_center>{x / 2} 0 0</mass_center>"
        "<inertia>0.01 0.02 0.02 0 0 0</inertia></Body>"
        for n, x in LENGTHS.items()
    )
    first = f"""<PinJoint name="ja"><socket_parent_frame>tilted</socket_parent_frame>
      <socket_child_frame>/bodyset/a</socket_child_frame>
      <coordinates><Coordinate name="crank"><default_value>{default[0]}</default_value>
        <range>{range}</range><locked>{locked}</locked></Coordinate></coordinates>
      <frames><PhysicalOffsetFrame name="tilted"><socket_parent>/ground</socket_parent>
        <translation>0 0 0</translation><orientation>{TILT}</orientation></PhysicalOffsetFrame>
      </frames></PinJoint>"""
    joints = (
        first
        + pin("jb", "a", "b", "coupler", default[1], LENGTHS["a"])
        + pin("jc", "b", "c", "rocker", default[2], LENGTHS["b"])
    )
    constraint = constraint or (
        "<PointConstraint name='closing'><socket_body_1>/jointset/ja/tilted</socket_body_1>"
        "<socket_body_2>/bodyset/c</socket_body_2>"
        f"<location_body_1>{GROUND} 0 0</location_body_1>"
        f"<location_body_2>{LENGTHS['c']} 0 0</location_body_2></PointConstraint>"
    )
    path.write_text(
        f"""<OpenSimDocument Version="40500"><Model name="linkage">
        <BodySet><objects>{bodies}</objects></BodySet>
        <JointSet><objects>{joints}</objects></JointSet>
        <ConstraintSet><objects>{constraint}</objects></ConstraintSet>
        <MarkerSet><objects><Marker name="end"><socket_parent_frame>/bodyset/c</socket_parent_frame>
          <location>{LENGTHS["c"]} 0 0</location></Marker></objects></MarkerSet>
        </Model></OpenSimDocument>"""
    )
    return path


@pytest.fixture(scope="module")
def linkage(tmp_path_factory):
    return eb.load(four_bar(tmp_path_factory.mktemp("loops") / "bars.osim"))


def ends(model, q):
    """Where the end of the last bar is."""
    transforms = jax.jit(jax.vmap(lambda x: eb.body_transforms(model, x)))(q)
    last = transforms[:, model.body_names.index("c")]
    return np.asarray(last[:, :3, 3] + LENGTHS["c"] * last[:, :3, 0])


def test_oblique_plane_leaves_two_equations(linkage):
    assert linkage.coordinate_names == ("crank",)
    (note,) = [n for n in linkage.report.read if n.element == "PointConstraint"]
    assert note.words == "closes a loop: coupler, rocker follow crank"
    q = jnp.linspace(-0.85, 2.6, 24)[:, None]  # somewhat beyond the range, too
    at = ends(linkage, q)
    fixed = at[0] / np.linalg.norm(at[0])
    np.testing.assert_allclose(at, np.broadcast_to(GROUND * fixed, at.shape), atol=1e-12)


def test_mode_is_that_of_the_default_pose(linkage):
    theta = np.asarray(jax.vmap(linkage.rhythm)(jnp.linspace(-0.8, 2.5, 24)[:, None]))
    assert (theta[:, 2] < 0.0).all()
    assert (np.abs(np.diff(theta, axis=0)) < 0.4).all()


def test_other_side_up(tmp_path):
    model = eb.load(four_bar(tmp_path / "bars.osim", default=(1.0, -1.5, 1.9)))
    theta = np.asarray(model.rhythm(jnp.asarray([1.0])))
    assert theta[2] > 0.0


def test_free_chooses_and_folds_shorten_the_range(tmp_path):
    model = eb.load(four_bar(tmp_path / "bars.osim"), free=["rocker"])
    assert model.coordinate_names == ("rocker",)
    low, high = np.asarray(model.lower)[0], np.asarray(model.upper)[0]
    assert -3.0 < low < -1.9 < high < 0.0
    assert any("only" in note.words for note in model.report.approximated)
    np.testing.assert_allclose(
        np.linalg.norm(ends(model, jnp.asarray([[low], [high]])), axis=1), GROUND
    )


def test_locked_loop_is_rigid(tmp_path):
    path = four_bar(tmp_path / "bars.osim", locked="true")
    with pytest.raises(eb.io.FileFormatError, match="no coordinate is free"):
        eb.load(path)


def test_loops_that_cannot_close_are_refused(tmp_path):
    far = (
        "<ConstantDistanceConstraint name='rod'><socket_body_1>/ground</socket_body_1>"
        "<socket_body_2>/bodyset/c</socket_body_2><constant_distance>{}</constant_distance>"
        "</ConstantDistanceConstraint>"
    )
    path = four_bar(tmp_path / "far.osim", constraint=far.format(9.0))
    with pytest.raises(eb.io.FileFormatError, match=r"ConstantDistanceConstraint 'rod'.*met.*by 4"):
        eb.load(path)
    path = four_bar(tmp_path / "none.osim", constraint=far.format(0.0))
    with pytest.raises(eb.io.FileFormatError, match="above 0"):
        eb.load(path)
    path = four_bar(tmp_path / "lost.osim", constraint=far.format(1.0).replace("bodyset/c", "x"))
    with pytest.raises(eb.io.FileFormatError, match="no body or frame"):
        eb.load(path)


def test_gradients_through_the_loop(linkage):
    def height(q):
        return eb.body_transforms(linkage, q)[1, 1, 3]

    q, h = jnp.asarray([0.7]), 1e-5
    slope = (height(q + h) - height(q - h)) / (2 * h)
    np.testing.assert_allclose(jax.jit(jax.grad(height))(q)[0], slope, rtol=1e-8)


def test_two_free_coordinates(tmp_path):
    """A rod of constant length between ends of three bars: two of the angles stay free."""
    rod = (
        "<ConstantDistanceConstraint name='rod'><socket_body_1>/ground</socket_body_1>"
        "<socket_body_2>/bodyset/c</socket_body_2><location_body_2>0.4 0.1 0</location_body_2>"
        "<constant_distance>1.3</constant_distance></ConstantDistanceConstraint>"
    )
    path = four_bar(tmp_path / "rod.osim", constraint=rod, range="0 1")
    model = eb.load(path)
    assert model.coordinate_names == ("crank", "coupler")
    q = jnp.asarray([[0.2, -0.4], [0.9, -0.1], [0.5, 0.0]])
    last = np.asarray(jax.vmap(lambda x: eb.body_transforms(model, x))(q))[:, 2]
    tip = last[:, :3, :3] @ np.array([0.4, 0.1, 0.0]) + last[:, :3, 3]
    np.testing.assert_allclose(np.linalg.norm(tip, axis=1), 1.3, atol=1e-12)
