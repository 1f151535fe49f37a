"""Motions and markers in files: units, labels, gaps, counts, and errors that say where."""

import contextlib
import dataclasses
import pathlib
import sys

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.io import FileFormatError, Table, read_csv, read_storage, read_table, write_csv
from empbody.io._matching import rotational


@pytest.fixture(scope="module")
def model():
    """A slide with two hinges."""
    return eb.Model.build(
        ("shoulder", "elbow", "lift"),
        [
            eb.Body("base", "ground", joint=eb.Prismatic(axis=(0, 1, 0)), mass=1.0),
            eb.Body("upper", "base", joint=eb.Revolute(axis=(0, 0, 1)), mass=1.0),
            eb.Body("fore", "upper", joint=eb.Revolute(axis=(0, 0, 1)), mass=1.0),
        ],
        rhythm=eb.rhythms.Affine(jnp.array([[0, 0, 1.0], [1, 0, 0], [0.5, 1, 0]]), jnp.zeros(3)),
        default_q={"elbow": 0.25, "lift": 0.5},
    )


def write(folder, text, name="walk.mot"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def storage(labels, rows, header="version=1\ninDegrees=yes\n"):
    lines = ["\t".join(map(str, row)) for row in [("time", *labels), *rows]]
    return "walk\n" + header + "endheader\n" + "\n".join(lines) + "\n"


def test_kinds_of_coordinates(model):
    np.testing.assert_array_equal(rotational(model), [True, True, False])
    np.testing.assert_array_equal(rotational(eb.models.four_bar()), [True])
    plain = eb.Model.build(
        ("a", "b"),
        [
            eb.Body("a", "ground", joint=eb.Prismatic(axis=(0, 1, 0)), mass=1.0),
            eb.Body("b", "a", joint=eb.Revolute(axis=(0, 0, 1)), mass=1.0),
        ],
    )
    np.testing.assert_array_equal(rotational(plain), [False, True])


def test_motion_of_a_model(tmp_path, model):
    labels = (
        "/forceset/biceps/activation",
        "/jointset/a/lift/value",
        "/jointset/b/elbow/value",
        "shoulder",
        "/jointset/b/elbow/speed",
        "knee",
    )
    path = write(tmp_path, storage(labels, [(0, 0.1, 0.5, 90, 180, 9, 0), (1, 0, 1, 45, 0, 9, 0)]))
    motion = eb.read_motion(path, model)
    np.testing.assert_allclose(motion.q, [[np.pi, np.pi / 2, 0.5], [0, np.pi / 4, 1]], rtol=1e-15)
    np.testing.assert_array_equal(motion.time, [0, 1])
    np.testing.assert_array_equal(motion.coordinate("lift"), [0.5, 1])
    assert motion.coordinates == ("shoulder", "elbow", "lift")
    assert motion.labels == ("shoulder", "/jointset/b/elbow/value", "/jointset/a/lift/value")
    assert motion.extra == ("/forceset/biceps/activation", "knee")
    assert motion.rotational == (True, True, False)
    assert motion.qd is None
    assert motion.filled == ()
    assert motion.warnings == ()


@pytest.mark.parametrize("speeds", [("/j/a/{}/speed", "/j/a/{}/value"), ("{}_u", "{}")])
def test_speeds(tmp_path, model, speeds):
    labels = [form.format(name) for form in speeds for name in model.coordinate_names]
    motion = eb.read_motion(write(tmp_path, storage(labels, [(0, 90, 180, 3, 45, 60, 5)])), model)
    np.testing.assert_allclose(motion.qd, [[np.pi / 2, np.pi, 3]])
    np.testing.assert_allclose(motion.q, [[np.pi / 4, np.pi / 3, 5]])
    assert motion.extra == ()


def test_missing_columns(tmp_path, model):
    path = write(tmp_path, storage(("Shoulder", "lift"), [(0, 90, 2)]))
    with pytest.raises(FileFormatError) as caught:
        eb.read_motion(path, model)
    text = str(caught.value)
    assert "walk.mot, line 5: no column for 2 of 3 coordinates: shoulder, elbow" in text
    assert "the columns are Shoulder, lift; is 'Shoulder' meant for 'shoulder'?" in text
    assert "missing='default'" in text
    motion = eb.read_motion(path, model, missing="default")
    np.testing.assert_array_equal(motion.q, [[0, 0.25, 2]])
    assert motion.filled == ("shoulder", "elbow")
    assert motion.labels == (None, None, "lift")
    write(tmp_path, storage(("hip", "knee"), [(0, 90, 2)]))
    with pytest.raises(FileFormatError, match="no column for 3 of 3"):
        eb.read_motion(path, model, missing="default")


def test_suggestions_are_columns_that_nobody_has(tmp_path):
    moved = eb.Model.build(
        ("arm_elv", "arm_rot"),
        [
            eb.Body("a", "ground", joint=eb.Revolute(axis=(0, 1, 0)), mass=1.0),
            eb.Body("b", "a", joint=eb.Revolute(axis=(0, 0, 1)), mass=1.0),
        ],
    )
    path = write(tmp_path, storage(("arm_elv", "knee"), [(0, 90, 2)]))
    with pytest.raises(FileFormatError, match="for 1 of 2 coordinates: arm_rot") as caught:
        eb.read_motion(path, moved)
    assert "meant for" not in str(caught.value)
    write(tmp_path, storage(("arm_elv", "arm_rt"), [(0, 90, 2)]))
    with pytest.raises(FileFormatError, match="is 'arm_rt' meant for 'arm_rot'"):
        eb.read_motion(path, moved)


def test_degrees_that_are_called_radians_are_refused(tmp_path, model):
    """Where a range shows that they cannot be radians; else there is a warning only."""
    upper = jnp.array([2.0, 2.0, jnp.inf])
    limited = eqx.tree_at(lambda m: (m.lower, m.upper), model, (-upper, upper))
    rows = [(0, 1, 1, 1000), (1, 1, -90, 1000)]
    path = write(tmp_path, storage(model.coordinate_names, rows, "version=1\ninDegrees=no\n"))
    with pytest.raises(FileFormatError) as caught:
        eb.read_motion(path, limited)
    words = (
        "line 7, column 'elbow': the file says that angles are in radians, but -90 is 14.3 turns, "
        "and elbow goes from -2 to 2 rad; if these are degrees, give degrees=True"
    )
    assert words in str(caught.value)
    with pytest.warns(UserWarning, match="they reach 90, 14.3 turns"):
        eb.read_motion(path, limited, degrees=False)
    assert eb.read_motion(path, limited, degrees=True).q[1, 1] == pytest.approx(-np.pi / 2)
    path = write(tmp_path, "time,shoulder,elbow,lift\n0,90,3,1\n", "a.csv")
    with pytest.raises(FileFormatError, match="let their labels end in _deg"):
        eb.read_motion(path, limited)


def test_two_columns_for_one_coordinate(tmp_path, model):
    labels = ("shoulder", "elbow", "lift", "/jointset/a/elbow/value")
    path = write(tmp_path, storage(labels, [(0, 1, 2, 3, 4)]))
    with pytest.raises(FileFormatError, match=r"'elbow' and '/jointset/a/elbow/value' are both"):
        eb.read_motion(path, model)


def test_gaps(tmp_path, model):
    rows = [(i, 10 * i, "nan" if 3 <= i < 6 else i**2, i) for i in range(10)]
    path = write(tmp_path, storage(model.coordinate_names, rows))
    with pytest.raises(FileFormatError) as caught:
        eb.read_motion(path, model)
    assert "line 9, column 'elbow': the value is missing (NaN) in rows 4 to 6" in str(caught.value)
    motion = eb.read_motion(path, model, gaps="interpolate")
    np.testing.assert_allclose(np.degrees(motion.coordinate("elbow")), np.arange(10.0) ** 2)
    with pytest.raises(FileFormatError, match="the gap lasts 4 s, more than longest_gap"):
        eb.read_motion(path, model, gaps="interpolate", longest_gap=3.0)
    rows[0] = (0, 0, "nan", 0)
    write(tmp_path, storage(model.coordinate_names, rows))
    with pytest.raises(FileFormatError, match=r"line 6, column 'elbow': .*cut those rows off"):
        eb.read_motion(path, model, gaps="interpolate")
    write(tmp_path, storage(model.coordinate_names, [(0, 1, 1, "inf")]))
    with pytest.raises(FileFormatError, match="line 6, column 'lift': the value is infinite"):
        eb.read_motion(path, model)
    # NaN in columns that are not wanted does not matter
    write(tmp_path, storage((*model.coordinate_names, "emg"), [(0, 90, 90, 1, "nan")]))
    eb.read_motion(path, model)


def test_times_and_rows(tmp_path, model):
    rows = [(0, 1, 2, 3), (1, 1, 2, 3), (0.5, 1, 2, 3)]
    path = write(tmp_path, storage(model.coordinate_names, rows))
    words = r"line 8, column 'time': time does not increase: 0.5 s in row 3 follows 1 s"
    with pytest.raises(FileFormatError, match=words):
        eb.read_motion(path, model)
    write(tmp_path, storage(model.coordinate_names, []))
    with pytest.raises(FileFormatError, match="no rows of data"):
        eb.read_motion(path, model)


@pytest.mark.parametrize(
    ("header", "angle", "words"),
    [
        ("version=1\ninDegrees=no\n", 90, r"the file says .* in radians, but they reach 90, 14.3"),
        ("version=1\n", 90, r"for want of 'inDegrees' it is taken .* radians.*degrees=True"),
        ("version=1\ninDegrees=yes\n", 1.5, r"in degrees, but all lie within ±1.5.*degrees=False"),
        ("", 1.5, r"for want of 'inDegrees' it is taken that angles are in degrees"),
    ],
)
def test_suspicious_units(tmp_path, model, header, angle, words):
    path = write(tmp_path, storage(model.coordinate_names, [(0, angle, 0.1, 1000)], header))
    with pytest.warns(UserWarning, match=words):
        motion = eb.read_motion(path, model)
    assert len(motion.warnings) == 1
    right = eb.read_motion(path, model, degrees=angle == 90)
    assert right.warnings == ()
    assert right.q[0, 0] == pytest.approx(np.pi / 2 if angle == 90 else 1.5)
    assert right.q[0, 2] == 1000


def test_choices(tmp_path, model):
    path = write(tmp_path, storage(model.coordinate_names, [(0, 90, 100, 20)]))
    motion = eb.read_motion(path, model, translational=("shoulder",))
    np.testing.assert_allclose(motion.q, np.array([[90, np.radians(100), np.radians(20)]]))
    for options in ({"missing": "zero"}, {"gaps": "keep"}, {"translational": ("hip",)}):
        with pytest.raises((ValueError, TypeError)):
            eb.read_motion(path, model, **options)
    with pytest.raises(FileFormatError, match=r"read from \.mot, \.sto and \.csv, not '\.txt'"):
        read_table(tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError):
        eb.read_motion(tmp_path / "none.mot", model)


@pytest.mark.parametrize("suffix", [".mot", ".sto", ".csv"])
@pytest.mark.parametrize("degrees", [True, False])
def test_round_trip(tmp_path, model, suffix, degrees):
    rng = np.random.default_rng(0)
    motion = eb.Motion.of(model, np.arange(5) / 7, jnp.asarray(rng.normal(size=(5, 3)) * 3))
    path = tmp_path / f"a{suffix}"
    eb.write_motion(path, motion, degrees=degrees)
    back = eb.read_motion(path, model)
    np.testing.assert_array_equal(back.time, motion.time)
    np.testing.assert_allclose(back.q, motion.q, rtol=3e-16 if degrees else 0)
    np.testing.assert_array_equal(back.coordinate("lift"), motion.coordinate("lift"))
    with pytest.raises(ValueError, match=r"written to \.mot, \.sto and \.csv"):
        eb.write_motion(tmp_path / "a.txt", motion)


def test_motions_check_their_shapes():
    with pytest.raises(ValueError, match=r"2 times and 1 coordinates for q of shape \(2, 2\)"):
        eb.Motion(np.zeros(2), np.zeros((2, 2)), ("a",), (True,))
    with pytest.raises(ValueError, match="2 kinds for 1 coordinates"):
        eb.Motion(np.zeros(2), np.zeros((2, 1)), ("a",), (True, False))
    with pytest.raises(ValueError, match=r"no coordinate 'b'; there are a"):
        eb.Motion(np.zeros(2), np.zeros((2, 1)), ("a",), (True,)).coordinate("b")


def test_motion_of_an_edited_model(tmp_path, model):
    """Default values are the model's, as it is now."""
    path = write(tmp_path, storage(("lift", "shoulder"), [(0, 1, 90)]))
    moved = eqx.tree_at(lambda m: m.default_q, model, jnp.array([1.0, 2.0, 3.0]))
    motion = eb.read_motion(path, moved, missing="default")
    np.testing.assert_allclose(motion.q, [[np.pi / 2, 2, 1]])


class Wrist:
    """What a model from a file knows of its coordinates' kinds."""

    motions = ("rotational", "coupled", "translational")


def test_coupled_coordinates_are_not_converted(tmp_path, model):
    """OpenSim converts no coordinate that is the angle of no axis; nor do we, but we say so."""
    values = {f.name: getattr(model, f.name) for f in dataclasses.fields(model)}
    wrist = eb.Model(**(values | {"source": Wrist}))
    path = write(tmp_path, storage(wrist.coordinate_names, [(0, 90, 1.5, 3)]))
    np.testing.assert_allclose(eb.read_motion(path, wrist).q, [[np.pi / 2, 1.5, 3]])
    write(tmp_path, storage(wrist.coordinate_names, [(0, 90, 60, 3)]))
    with pytest.warns(UserWarning, match="elbow: no joint turns by just these"):
        eb.read_motion(path, wrist)
    motion = eb.read_motion(path, wrist, translational=("lift",))
    np.testing.assert_allclose(motion.q, [[np.pi / 2, np.pi / 3, 3]])


# Comma-separated values


@pytest.mark.parametrize(
    "text",
    [
        "time,a_deg,b\n0,180,2\n0.5,,4\n",
        "# a comment\n\ufeffTime (s);a (deg);b (rad)\n0;180;2,0\n0,5;;4\n",
        "t\ta [deg]\tb_rad\t\n0\t180\t2\t\n0.5\tNaN\t4\n".replace("\t\n", "\n"),
        '"b","time_s","a_deg"\n2,0,180\n"4",0.5,\n',
    ],
    ids=["plain", "semicolons", "tabs", "quoted"],
)
def test_csv(tmp_path, text):
    path = write(tmp_path, text.replace("\ufeff", ""), "a.csv")
    table = read_csv(path)
    np.testing.assert_array_equal(table.time, [0, 0.5])
    np.testing.assert_allclose(table.column("a"), [np.pi, np.nan])
    np.testing.assert_array_equal(table.column("b"), [2, 4])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "line 1: no columns 'time' among the labels a, b"),
        ("time,t\n1,2\n", "line 1: 2 columns 'time'"),
        ("time,,b\n1,2,3\n", "line 1, column 2: the label is empty"),
        ("time,a\n0,1\n1,x\n", "line 3, column 'a': 'x' is not a number"),
        ("time,a\n0,1\n1\n", "line 3: 1 cells for 2 labels"),
        ("time,a\n0,1\n,1\n", "line 3, column 'time': the cell is empty"),
        ("time,a\n0,1\n0,1\n", "line 3, column 'time': time does not increase"),
        ('time,a\n0,"1\n', "line 2: not a row of values"),
    ],
)
def test_csv_errors(tmp_path, text, message):
    with pytest.raises(FileFormatError) as caught:
        read_csv(write(tmp_path, text, "a.csv"))
    assert message in str(caught.value)


def test_csv_warns_of_degrees(tmp_path, model):
    path = write(tmp_path, "time,shoulder,elbow,lift\n0,90,3,1\n", "a.csv")
    with pytest.warns(UserWarning, match="let their labels end in _deg"):
        eb.read_motion(path, model)
    with pytest.raises(ValueError, match="leave degrees out"):
        eb.read_motion(path, model, degrees=True)
    table = Table(np.zeros(1), ("a",), np.full((1, 1), 180.0), in_degrees=True)
    write_csv(path, table)
    np.testing.assert_allclose(read_csv(path).data, [[np.pi]])


# Markers

TRC = (
    "PathFileType\t4\t(X/Y/Z)\twalk.trc\n"
    "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\t"
    "OrigNumFrames\n"
    "100\t100\t3\t2\tmm\t100\t1\t3\n"
    "Frame#\tTime\tR ASIS\t\t\tknee\t\t\t\n"
    "\t\tX1\tY1\tZ1\tX2\tY2\tZ2\t\n"
    "\n"
    "7\t0.06\t1000\t2000\t3000\t4\t5\t6\t\n"
    "8\t0.07\t\t\t\t4\t5\t6\t\n"
    "9\t0.08\t1000\t2000\t3000\tNaN\tnan\tNaN\t\n"
)


def test_trc(tmp_path):
    markers = eb.read_markers(write(tmp_path, TRC, "walk.trc"))
    assert markers.names == ("R ASIS", "knee")
    assert markers.rate == 100
    np.testing.assert_array_equal(markers.time, [0.06, 0.07, 0.08])
    np.testing.assert_array_equal(markers.frames, [7, 8, 9])
    none = [np.nan] * 3
    np.testing.assert_allclose(markers.marker("R ASIS"), [[1, 2, 3], none, [1, 2, 3]])
    low = [0.004, 0.005, 0.006]
    np.testing.assert_allclose(markers.marker("knee"), [low, low, none])
    assert markers.select(("knee",)).positions.shape == (3, 1, 3)
    with pytest.raises(ValueError, match="no marker 'toe'; there are R ASIS, knee"):
        markers.marker("toe")


def test_trc_in_metres_and_other_layouts(tmp_path):
    text = TRC.replace("\tmm\t", "\tm\t").replace("\n\n", "\n").replace("\t\n", "\n")
    text = text.replace("knee\t\t", "knee")
    markers = eb.read_markers(write(tmp_path, text.replace("\n", "\r\n"), "walk.trc"))
    np.testing.assert_array_equal(markers.positions[0], [[1000, 2000, 3000], [4, 5, 6]])
    blanks = "\n".join(
        line.replace("\t", " ") for line in TRC.replace("R ASIS", "RASIS").split("\n")
    ).replace("8 0.07    4 5 6", "8 0.07 nan nan nan 4 5 6")
    markers = eb.read_markers(write(tmp_path, blanks, "walk.trc"))
    assert markers.names == ("RASIS", "knee")
    assert np.isnan(markers.positions[1, 0]).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("PathFileType", "Sheep", "line 1: no 'PathFileType'"),
        ("\tmm\t", "\tinch\t", "line 3, column 'Units': Units is 'inch'; known are mm, cm and m"),
        ("\tUnits", "\tUnity", "line 2: no 'Units'"),
        ("100\t100\t3", "zero\t100\t3", "column 'DataRate': DataRate is 'zero'"),
        ("100\t100\t3", "100\t3", "line 3: 7 values for the 8 keys"),
        ("100\t3\t2", "100\t4\t2", "line 3: NumFrames is 4, but there are 3 rows"),
        ("100\t3\t2", "100\t3\t3", "line 4: 2 names, but NumMarkers is 3: R ASIS, knee"),
        ("100\t3\t2", "100\tx\t2", "line 3: NumFrames is 'x', not a count"),
        ("knee", "R ASIS", "line 4, column 3: two markers are called 'R ASIS'"),
        ("Frame#", "Bild", "line 4: the line of names must begin with Frame# and Time"),
        ("8\t0.07\t\t\t\t4", "8\t0.07\t\t4", "line 8: 7 cells, but 2 markers need 8"),
        ("8\t0.07", "\t0.07", "line 8, column 'Frame#': the cell is empty"),
        ("8\t0.07", "8\tx", "line 8, column 'Time': 'x' is not a number"),
        ("8\t0.07", "8.5\t0.07", "line 8, column 'Frame#': 8.5 is not the number of a frame"),
        ("9\t0.08", "9\t0.07", "line 9, column 'Time': time does not increase: 0.07 s in row 3"),
        ("1000\t2000", "1000\t", "line 7, column 'R ASIS Y': this coordinate is missing"),
        ("1000\t2000", "1000\tinf", "line 7, column 'R ASIS Y': the value is infinite"),
        ("4\t5\t6", "4\t5\tsix", "line 7, column 'knee Z': 'six' is not a number"),
    ],
)
def test_trc_errors(tmp_path, old, new, message):
    assert old in TRC
    with pytest.raises(FileFormatError) as caught:
        eb.read_markers(write(tmp_path, TRC.replace(old, new, 1), "walk.trc"))
    assert message in str(caught.value)


def test_trc_warns_of_a_wrong_rate(tmp_path):
    path = write(tmp_path, TRC.replace("\n100\t", "\n60\t"), "walk.trc")
    with pytest.warns(UserWarning, match="DataRate is 60, but the times are those of 100"):
        eb.read_markers(path)


@pytest.mark.parametrize("units", ["mm", "cm", "m"])
def test_markers_round_trip(tmp_path, units):
    rng = np.random.default_rng(1)
    positions = rng.normal(size=(4, 3, 3))
    positions[2, 1] = np.nan
    markers = eb.Markers(np.arange(4) / 50, ("a", "b c", "d"), positions, 50.0, np.arange(5, 9))
    eb.write_markers(tmp_path / "a.trc", markers, units=units)
    back = eb.read_markers(tmp_path / "a.trc")
    np.testing.assert_allclose(back.positions, positions, rtol=1e-15)
    np.testing.assert_array_equal(back.frames, markers.frames)
    np.testing.assert_array_equal(back.time, markers.time)
    assert (back.names, back.rate) == (markers.names, 50.0)
    with pytest.raises(ValueError, match="units is 'inch'"):
        eb.write_markers(tmp_path / "a.trc", markers, units="inch")
    with pytest.raises(ValueError, match=r"written to \.trc files"):
        eb.write_markers(tmp_path / "a.c3d", markers)


def test_axes_and_zeros(tmp_path):
    path = write(tmp_path, TRC.replace("\tmm\t", "\tm\t"), "walk.trc")
    turned = eb.read_markers(path, up="z").positions
    np.testing.assert_array_equal(turned[0], [[1000, 3000, -2000], [4, 6, -5]])
    assert np.isnan(turned[1, 0]).all()
    turned = eb.read_markers(path, up="x").positions
    np.testing.assert_array_equal(turned[0], [[-2000, 1000, 3000], [-5, 4, 6]])
    with pytest.raises(ValueError, match="up is 'w'"):
        eb.read_markers(path, up="w")
    path = write(tmp_path, TRC.replace("4\t5\t6", "0\t0\t0", 1), "walk.trc")
    np.testing.assert_array_equal(eb.read_markers(path).positions[0, 1], 0)
    assert np.isnan(eb.read_markers(path, zeros_are_missing=True).positions[0, 1]).all()


def test_markers_of_opensim(tmp_path):
    text = "DataType=Vec3\nversion=3\nendheader\ntime\thip\tknee\n0\t1,2,3\t4,5,6\n"
    path = write(tmp_path, text + "0.02\tnan,nan,nan\t4,5,6\n", "m.sto")
    markers = eb.read_markers(path)
    assert (markers.names, markers.rate) == (("hip", "knee"), 50.0)
    np.testing.assert_array_equal(markers.positions[0], [[1, 2, 3], [4, 5, 6]])
    assert np.isnan(markers.positions[1, 0]).all()
    path = write(tmp_path, text.replace("Vec3", "double").replace(",2,3", ""), "m.sto")
    with pytest.raises(FileFormatError):
        eb.read_markers(path)
    with pytest.raises(FileFormatError, match=r"not '\.xyz'"):
        eb.read_markers(tmp_path / "a.xyz")


def test_markers_check_their_shapes():
    with pytest.raises(ValueError, match=r"1 times and 2 names for positions of shape \(1, 1, 3\)"):
        eb.Markers(np.zeros(1), ("a", "b"), np.zeros((1, 1, 3)), 1.0)
    with pytest.raises(ValueError, match="two markers are called 'a'"):
        eb.Markers(np.zeros(1), ("a", "a"), np.zeros((1, 2, 3)), 1.0)


def test_c3d(tmp_path):
    ezc3d = pytest.importorskip("ezc3d", reason="ezc3d is not installed")
    positions = np.random.default_rng(2).normal(size=(4, 2, 3))
    file = ezc3d.c3d()
    file["parameters"]["POINT"]["RATE"]["value"] = [100]
    file["parameters"]["POINT"]["LABELS"]["value"] = ("hip", "knee")
    file["parameters"]["POINT"]["UNITS"]["value"] = ("mm",)
    points = np.ones((4, 2, 4))
    points[:3] = 1000 * positions.transpose(2, 1, 0)
    points[:3, 1, 2] = np.nan
    file["data"]["points"] = points
    path = tmp_path / "a.c3d"
    file.write(str(path))
    markers = eb.read_markers(path)
    assert (markers.names, markers.rate) == (("hip", "knee"), 100.0)
    np.testing.assert_allclose(markers.time, np.arange(4) / 100)
    np.testing.assert_allclose(markers.marker("hip"), positions[:, 0], rtol=1e-6)
    assert np.isnan(markers.positions[2, 1]).all()
    assert np.isfinite(np.delete(markers.positions.reshape(8, 3), 5, axis=0)).all()
    turned = eb.read_markers(path, up="z").marker("hip")
    np.testing.assert_allclose(turned, positions[:, 0][:, [0, 2, 1]] * [1, 1, -1], rtol=1e-6)
    path.write_bytes(b"no such format" * 100)
    with pytest.raises(FileFormatError, match="ezc3d cannot read it"):
        eb.read_markers(path)
    with pytest.raises(FileNotFoundError):
        eb.read_markers(tmp_path / "none.c3d")


def test_c3d_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ezc3d", None)
    with pytest.raises(ImportError, match=r"pip install .empbody\[c3d\]"):
        eb.read_markers(tmp_path / "a.c3d")


# Damaged files either load, or raise our error.

SEEDS = {
    ".mot": (
        storage(("shoulder", "/jointset/a/elbow/value", "lift"), [(0, 90, 10, 1), (1, 80, 9, 2)]),
        "name a\ndatacolumns 4\ndatarows 2\nrange 0 1\nendheader\n"
        "time shoulder elbow lift\n0 1 2 3\n1 30 nan 5\n",
        "DataType=Vec3\nversion=3\nOpenSimVersion=4.6\nendheader\ntime\thip\n0\t1,2,3\n1\t4,5,6\n",
        "range 0 2\nendheader\nshoulder elbow lift\n1 2 3\n10 30 5\n",
    ),
    ".trc": (TRC,),
    ".csv": (
        "time,shoulder_deg,elbow_deg,lift\n0,90,10,1\n1,,9,2\n2,9,9,2\n",
        "t;shoulder;elbow (deg);lift\n0;0,5;10;1\n0,5;1;9;2\n",
    ),
}
TOKENS = (
    "\t", "\n", " ", ",", ";", "=", "nan", "inf", "-1", "1e309", "1e-320", "0", "9" * 5000, "1_0",
    "time", "endheader", "nRows=", "nColumns=3", "inDegrees=maybe", "version=2", "DataType=Vec3",
    "DataType=Quaternion", "range 1 0", "range 0 1e-320", "\x00", "\ufeff", "\u2028", "\x0b", '"',
    "é", "٣", "[", "~[1,2,3]", "#", "_deg", "Frame#", "X1", "m", "mm", "1,2,3", "\r", "\x85",
)  # fmt: skip


@st.composite
def damaged(draw, seeds):
    """A file with a few random cuts, repetitions and insertions."""
    data = bytearray(draw(st.sampled_from(seeds)), "utf-8")
    for _ in range(draw(st.integers(1, 6))):
        at, until = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        kind = draw(st.sampled_from(["cut", "token", "byte", "repeat", "swap"]))
        if kind == "cut":
            del data[at : min(until, at + 30)]
        elif kind == "token":
            data[at:at] = draw(st.sampled_from(TOKENS)).encode()
        elif kind == "byte":
            data[at:at] = draw(st.binary(min_size=1, max_size=4))
        elif kind == "repeat":
            data[at:at] = data[at : min(until, at + 60)]
        else:
            data = data[:at] + data[until:] + data[at:until]
    return bytes(data)


def check_damaged(path: pathlib.Path, content: bytes, model) -> None:
    path.write_bytes(content)
    with contextlib.suppress(FileFormatError):
        if path.suffix == ".trc":
            markers = eb.read_markers(path)
            assert (
                np.isfinite(markers.positions).all(axis=-1).sum()
                == (~np.isnan(markers.positions).all(axis=-1)).sum()
            )
            assert np.isfinite(markers.time).all()
            assert len(set(markers.names)) == len(markers.names)
        else:
            read_table(path)
            motion = eb.read_motion(path, model, missing="default", gaps="interpolate")
            assert np.isfinite(motion.q).all()
            assert (np.diff(motion.time) > 0).all()


FUZZ = {"suppress_health_check": list(hypothesis.HealthCheck)}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("suffix", list(SEEDS))
def test_damaged_files(tmp_path, model, suffix):
    @hypothesis.settings(max_examples=100, **FUZZ)
    @hypothesis.given(damaged(SEEDS[suffix]))
    def run(content):
        check_damaged(tmp_path / f"a{suffix}", content, model)

    run()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("suffix", list(SEEDS))
def test_many_damaged_files(tmp_path, model, suffix):
    @hypothesis.settings(max_examples=4000, **FUZZ)
    @hypothesis.given(damaged(SEEDS[suffix]))
    def run(content):
        check_damaged(tmp_path / f"b{suffix}", content, model)

    run()


def test_storage_of_numbers_survives(tmp_path):
    """What one writer writes, the general reader reads."""
    table = Table(np.arange(3.0), ("a b", "c"), np.array([[1, np.nan], [2, 3], [4, np.inf]]))
    path = tmp_path / "a.sto"
    eb.io.write_storage(path, table)
    np.testing.assert_array_equal(read_storage(path).data, table.data)
    np.testing.assert_array_equal(read_table(path).data, table.data)
