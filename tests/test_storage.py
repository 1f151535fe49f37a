"""OpenSim's .sto and .mot files: round trips, tolerance, and errors that say where."""

import os

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest

from empbody.io import (
    FileFormatError,
    Table,
    read_storage,
    replacing,
    replacing_files,
    write_storage,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)


@hypothesis.given(
    data=hnp.arrays(float, st.tuples(st.integers(0, 5), st.integers(0, 4)), elements=FINITE),
    in_degrees=st.booleans(),
)
def test_round_trip_is_exact(tmp_path_factory, data, in_degrees):
    path = tmp_path_factory.mktemp("sto") / "motion.sto"
    time = np.arange(data.shape[0]) / 3.0
    labels = tuple(f"joint {j}/value" for j in range(data.shape[1]))
    table = Table(time, labels, data, in_degrees=in_degrees, name="my motion")
    write_storage(path, table)
    back = read_storage(path)
    np.testing.assert_array_equal(back.time, time)
    np.testing.assert_array_equal(back.data, data)
    assert (back.labels, back.in_degrees, back.name) == (labels, in_degrees, "my motion")


def test_header_is_the_one_of_opensim(tmp_path):
    write_storage(tmp_path / "a.sto", Table(np.array([0.1]), ("q",), np.array([[1 / 3]]), name="a"))
    assert (tmp_path / "a.sto").read_text() == (
        "a\nversion=1\nnRows=1\nnColumns=2\ninDegrees=no\nendheader\n"
        "time\tq\n0.10000000000000001\t0.33333333333333331\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "walk\nversion=1\nnRows=2\nnColumns=3\ninDegrees=yes\nendheader\n"
        "time\ta\tb\n0\t1\t2\n1\t3\tnan\n",
        # another order, blanks, unknown keys, a comment, a byte-order mark, Windows line ends
        "\ufeff  walk \r\n inDegrees = YES\r\nSource=lab 3\r\n\r\nUnits are S.I. units\r\n"
        "nColumns=3\r\nnRows = 2\r\n endheader \r\n\r\n time \t a\tb \r\n 0 \t 1\t2\t\r\n"
        "1\t3\tNaN\r\n\r\n",
        # SIMM's older header
        "name walk\ndatacolumns 3\ndatarows 2\notherdata 1\nrange 0 1\ninDegrees=1\n"
        "endheader\ntime a b\n0 1 2\n  1   3   NAN\n",
    ],
    ids=["plain", "loose", "simm"],
)
def test_reader_is_tolerant(tmp_path, text):
    path = tmp_path / "walk.mot"
    path.write_bytes(text.encode())
    table = read_storage(path)
    assert (table.name, table.labels, table.in_degrees) == ("walk", ("a", "b"), True)
    np.testing.assert_array_equal(table.time, [0, 1])
    np.testing.assert_array_equal(table.column("b"), [2, np.nan])


@pytest.mark.parametrize(
    ("header", "in_degrees", "stated"),
    [
        ("version=1\ninDegrees=yes\n", True, True),
        ("version=1\ninDegrees=no\n", False, True),
        ("inDegrees=n\n", False, True),
        # Without a word about it, OpenSim takes radians, but degrees in files of no version.
        ("version=1\n", False, False),
        ("DataType=double\nversion=3\nOpenSimVersion=4.6\n", False, False),
        ("", True, False),
        ("version=0\n", True, False),
        ("name a\ndatarows 1\ndatacolumns 2\nrange 0 1\n", True, False),
        ("Angles are in radians.\n", False, True),
        ("version=1\nAngles are in degrees.\n", True, True),
    ],
)
def test_unit_of_angles(tmp_path, header, in_degrees, stated):
    path = tmp_path / "a.sto"
    path.write_text(f"a\n{header}endheader\ntime\tq\n0\t180\n")
    table = read_storage(path)
    assert (table.in_degrees, table.unit_is_stated) == (in_degrees, stated)


def test_angles_become_radians(tmp_path):
    path = tmp_path / "a.sto"
    path.write_text("a\nversion=1\nendheader\ntime\tq\n0\t180\n")
    assert read_storage(path).in_radians().data[0, 0] == 180
    path.write_text("a\ninDegrees=yes\nendheader\ntime\tq\tlength\n0\t180\t2\n")
    np.testing.assert_allclose(read_storage(path).in_radians(("q",)).data, [[np.pi, 2]])
    np.testing.assert_allclose(read_storage(path).in_radians().data, [[np.pi, np.pi / 90]])


def test_vectors_become_columns(tmp_path):
    path = tmp_path / "a.sto"
    head = "DataType={}\nversion=3\nOpenSimVersion=4.6\nendheader\n"
    text = head + "time\tm1\tm 2\n0\t1,2,3\t4,5,nan\n0.1\t~[1,2,3]\tnan\n"
    path.write_text(text.format("Vec3"))
    table = read_storage(path)
    assert table.labels == ("m1_1", "m1_2", "m1_3", "m 2_1", "m 2_2", "m 2_3")
    assert table.components == 3
    np.testing.assert_array_equal(
        table.data, [[1, 2, 3, 4, 5, np.nan], [1, 2, 3, np.nan, np.nan, np.nan]]
    )
    path.write_text(text.format("Quaternion"))
    with pytest.raises(FileFormatError, match=r"line 6, column 'm1': '1,2,3' has 3 components"):
        read_storage(path)
    path.write_text(text.format("Sheep"))
    with pytest.raises(FileFormatError, match=r"line 1: DataType is 'Sheep'; what can be read"):
        read_storage(path)
    path.write_text(text.format("double"))
    with pytest.raises(FileFormatError, match=r"column 'm1': '1,2,3' is not a number"):
        read_storage(path)


def test_times_of_simm(tmp_path):
    path = tmp_path / "a.mot"
    path.write_text("range of motion\nrange 1 2\nendheader\na b\n1 2\n3 4\n5 6\n")
    table = read_storage(path)
    assert (table.name, table.labels) == ("range of motion", ("a", "b"))
    np.testing.assert_array_equal(table.time, [1, 1.5, 2])
    path.write_text("name a\nendheader\na time\n7 0\n8 1\n")
    np.testing.assert_array_equal(read_storage(path).time, [0, 1])
    np.testing.assert_array_equal(read_storage(path).column("a"), [7, 8])
    for bad, words in [("range=0", "not a first and a last"), ("range 2 1", "before it begins")]:
        path.write_text(f"a\n{bad}\nendheader\na b\n1 2\n3 4\n")
        with pytest.raises(FileFormatError, match=f"line 2: .*{words}"):
            read_storage(path)


GOOD = "a\nnRows=2\nnColumns=2\nendheader\ntime\tq\n0\t1\n1\t2\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("endheader\n", "", "bad.sto: no line 'endheader'"),
        ("time\tq\n0\t1\n1\t2\n", "", "bad.sto, line 4: no labels"),
        ("time\tq", "t\tq", "bad.sto, line 5: no label is 'time'"),
        ("time\tq", "time\t\tq", "bad.sto, line 5, column 2: the label is empty"),
        ("1\t2", "1\ttwo", "bad.sto, line 7, column 'q': 'two' is not a number"),
        ("1\t2", "1", "bad.sto, line 7: 1 cells for 2 labels"),
        ("1\t2", "\t2", "bad.sto, line 7, column 'time': the cell is empty"),
        ("1\t2", "0\t2", "bad.sto, line 7, column 'time': time does not increase"),
        ("1\t2", "inf\t2", "bad.sto, line 7, column 'time': time is not finite"),
        ("nRows=2", "nRows=3", "bad.sto, line 2: nRows is 3, but there are 2 rows"),
        ("nRows=2", "nRows=two", "bad.sto, line 2: nRows is 'two', not a count"),
        ("nColumns=2", "nColumns=3", "bad.sto, line 3: nColumns is 3, but there are 2 labels"),
        ("nRows=2", "nRows=99999999999", "line 2: nRows is '99999999999', not a count"),
        ("1\t2", "1\t1_0", "line 7, column 'q': '1_0' is not a number"),
        ("time\tq\n", "", "line 5: numbers where the line of labels should be"),
        ("nRows=2", "version=new", "line 2: version is 'new', not a count"),
        ("nRows=2", "inDegrees=maybe", "bad.sto, line 2: inDegrees is 'maybe'"),
    ],
)
def test_errors_say_where(tmp_path, old, new, message):
    path = tmp_path / "bad.sto"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(FileFormatError) as caught:
        read_storage(path)
    assert message in str(caught.value)
    assert caught.value.path == str(path)


def test_tables_check_their_shapes_and_labels():
    with pytest.raises(ValueError, match=r"2 times and 1 labels for data of shape \(2, 3\)"):
        Table(np.arange(2.0), ("q",), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="cannot be a label"):
        Table(np.arange(2.0), ("q\tp",), np.zeros((2, 1)))
    table = Table(np.arange(1.0), ("q", "p", "p"), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="no columns 'x'; its labels: q, p, p"):
        table.column("x")
    with pytest.raises(ValueError, match="2 columns 'p'"):
        table.column("p")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def spoil():
        with replacing(path) as part:
            part.write_text("new, half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        spoil()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_failed_set_of_files_leaves_the_folder_alone(tmp_path):
    folder = tmp_path / "deep" / "out"

    def spoil():
        with replacing_files(folder) as stage:
            (stage / "a").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        spoil()
    assert os.listdir(tmp_path) == []
    with replacing_files(folder) as stage:
        (stage / "a").write_text("new")
    assert os.listdir(tmp_path) == ["deep"]
    assert (folder / "a").read_text() == "new"
    with pytest.raises(NotADirectoryError, match="a is a file"), replacing_files(folder / "a"):
        pass
    with pytest.raises(NotADirectoryError, match="a is a file"), replacing_files(folder / "a/b"):
        pass
