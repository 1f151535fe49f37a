"""The commands about model files: tables, labels, units, and one sentence for every mistake."""

import csv
import importlib.util
import json
import math
import os
import re

import _tiny_arm
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.cli import main
from empbody.io import Markers, Motion, read_storage, write_markers, write_motion
from empbody.pipeline import MarkerSet, marker_positions

TIME = np.arange(60) / 100
Q = np.stack([0.3 * np.sin(4 * TIME), 1.0 + 0.4 * np.cos(5 * TIME)], axis=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, its motion and its markers."""
    there = tmp_path_factory.mktemp("models")
    path = _tiny_arm.write(there)
    model = eb.load(path)
    write_motion(there / "arm.mot", Motion.of(model, TIME, Q))
    points = marker_positions(model, MarkerSet.of(model, _tiny_arm.MARKERS), jnp.asarray(Q))
    markers = Markers(TIME, _tiny_arm.MARKERS, np.array(points), 100.0)
    write_markers(there / "arm.trc", markers)
    (there / "folder").mkdir()
    return there


@pytest.fixture
def at(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def run(capsys, *arguments: str) -> dict:
    """The JSON summary of a command that does well."""
    code = main([*arguments, "--json", "--quiet"])
    said = capsys.readouterr()
    assert code == 0, said.err
    summary = json.loads(said.out)
    assert summary["command"] == arguments[0]
    return summary


def columns(path) -> dict[str, np.ndarray]:
    with open(path, newline="") as stream:
        labels, *rows = list(csv.reader(stream))
    values = np.array(rows, dtype=float)
    return {label: values[:, i] for i, label in enumerate(labels)}


def test_info(at, capsys):
    summary = run(capsys, "info", "tiny_arm.osim")
    assert [c["name"] for c in summary["coordinates"]] == ["shoulder", "elbow"]
    elbow = summary["coordinates"][1]
    assert elbow["unit"] == "deg"
    np.testing.assert_allclose(elbow["default"], math.degrees(0.5))
    np.testing.assert_allclose(elbow["range"], [0.0, math.degrees(2.3)])
    assert summary["muscles"] == list(_tiny_arm.MUSCLES)
    assert summary["markers"] == list(_tiny_arm.MARKERS)
    assert summary["total_mass_kg"] == 5.0
    assert summary["report"]["unsupported"] == []
    assert main(["info", "tiny_arm.osim", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "2 coordinates drive 3 joint variables of 4 bodies" in said
    assert "Unsupported and left out: nothing" in said


def test_info_of_a_model_without_mass(at, capsys):
    text = re.sub("<mass>.*?</mass>", "<mass>0</mass>", _tiny_arm.text())
    (at / "light.osim").write_text(text)
    lock = ("--lock", "shoulder=0")
    assert run(capsys, "info", "light.osim", *lock)["report"]["warnings"] == [
        "no body has mass: no dynamics"
    ]
    assert main(["info", "light.osim", *lock, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "1 coordinate drives 2 joint variables of 4 bodies (0 kg)" in said
    assert "has no mass" not in said


def test_loading_names_a_file_that_is_not_there():
    with pytest.raises(FileNotFoundError, match=r"^there is no file nope\.osim$"):
        eb.load("nope.osim")


def test_info_of_locked_and_freed_coordinates(at, capsys):
    summary = run(
        capsys, "info", "tiny_arm.osim", "--free", "lift", "--lock", "shoulder=30"
    )  # fmt: skip
    assert [c["name"] for c in summary["coordinates"]] == ["lift", "elbow"]
    assert summary["coordinates"][0]["unit"] == "m"


def test_moment_arms(at, capsys):
    sweep = ("--sweep", "elbow=0:90:30", "--at", "shoulder=10", "--muscles", "flexor,back")
    summary = run(capsys, "moment-arms", "tiny_arm.osim", *sweep, "--out", "ma.csv")
    assert summary["rows"] == 4
    assert summary["at"] == pytest.approx({"shoulder_deg": 10.0, "lift_m": 0.1})
    found = columns("ma.csv")
    assert list(found) == [
        "coordinate_deg", "length_flexor", "length_back", "ma_shoulder_flexor",
        "ma_shoulder_back", "ma_elbow_flexor", "ma_elbow_back",
    ]  # fmt: skip
    np.testing.assert_array_equal(found["coordinate_deg"], [0, 30, 60, 90])
    model = eb.load("tiny_arm.osim")
    q = jnp.radians(jnp.array([10.0, 60.0]))
    length, arm = eb.path_lengths(model, q), eb.moment_arms(model, q)
    flexor = model.muscle_index("flexor")
    np.testing.assert_allclose(found["length_flexor"][2], length[flexor], rtol=1e-13)
    np.testing.assert_allclose(found["ma_elbow_flexor"][2], arm[1, flexor], rtol=1e-12)
    np.testing.assert_allclose(found["ma_elbow_back"], 0.0, atol=1e-15)
    largest = summary["moment_arms"]["flexor"]["most"]
    np.testing.assert_allclose(largest, found["ma_elbow_flexor"].max(), rtol=1e-13)


def test_moment_arms_in_radians_and_beyond_the_range(at, capsys):
    sweep = ("--sweep", "elbow=2:3:0.5", "--radians", "--muscles", "flexor")
    summary = run(capsys, "moment-arms", "tiny_arm.osim", *sweep, "--out", "ma_rad.csv")
    assert summary["notes"] == ["2 rows are outside the range of elbow"]
    found = columns("ma_rad.csv")
    np.testing.assert_array_equal(found["coordinate_rad"], [2, 2.5, 3])


def test_inverse_kinematics(at, capsys):
    summary = run(
        capsys, "ik", "tiny_arm.osim", "arm.trc", "--weight", "upper_1=2", "--out", "ik.mot",
        "--errors", "errors.csv",
    )  # fmt: skip
    assert summary["frames"] == summary["converged"] == 60
    assert summary["rms_m"]["largest"] < 1e-8
    assert summary["unused_markers"] == []
    table = read_storage("ik.mot")
    assert table.in_degrees
    assert table.labels == ("shoulder", "elbow")
    np.testing.assert_allclose(np.radians(table.data), Q, atol=1e-7)
    assert list(columns("errors.csv")) == ["time", "rms", *_tiny_arm.MARKERS]


def test_inverse_dynamics(at, capsys):
    summary = run(capsys, "id", "tiny_arm.osim", "arm.mot", "--out", "id.sto")
    assert summary["rows"] == 60
    table = read_storage("id.sto")
    assert table.labels == ("shoulder_moment", "elbow_moment")
    model = eb.load("tiny_arm.osim")
    found = eb.inverse_dynamics_along(model, Motion.of(model, TIME, Q))
    np.testing.assert_allclose(table.data, found.tau, rtol=1e-9, atol=1e-9)
    cut = run(
        capsys, "id", "tiny_arm.osim", "arm.mot", "--from", "0.1", "--to", "0.3", "--lowpass", "6",
        "--out", "id.csv",
    )  # fmt: skip
    assert (cut["rows"], cut["time_s"]) == (21, [0.1, 0.3])
    assert cut["doubtful_rows_at_each_end"] == 15
    assert any("all 21 rows lean on what the filter guesses" in note for note in cut["notes"])
    assert list(columns("id.csv")) == ["time", "shoulder_moment", "elbow_moment"]


def test_a_coordinate_that_the_motion_lacks_stands_where_it_is_told(at, capsys):
    summary = run(
        capsys, "id", "tiny_arm.osim", "arm.mot", "--free", "lift", "--at", "lift=0.2", "--out",
        "lift.sto",
    )  # fmt: skip
    assert "lift_force" in summary["largest"]


def test_sharing(at, capsys):
    summary = run(capsys, "share", "tiny_arm.osim", "arm.mot", "--out", "share.sto")
    table = read_storage("share.sto")
    assert table.labels[0] == "front_activation"
    assert table.labels[4] == "front_force"
    assert table.labels[-1] == "elbow_reserve"
    assert summary["largest_residual"] < 1e-6
    assert sum(summary["outcomes"].values()) == 60
    activations = table.data[:, :4]
    assert activations.min() >= 0.0
    assert activations.max() <= 1.0


def test_simulation(at, capsys):
    start = ("--at", "elbow=60", "--speed", "shoulder=10", "--duration", "0.05")
    summary = run(
        capsys, "simulate", "tiny_arm.osim", *start, "--excite", "all=0.05", "--excite",
        "flexor=0.3", "--out", "sim.sto",
    )  # fmt: skip
    table = read_storage("sim.sto")
    assert table.labels[:2] == (
        "/jointset/upper_joint/shoulder/value", "/jointset/upper_joint/shoulder/speed",
    )  # fmt: skip
    assert "/forceset/flexor/activation" in table.labels
    assert table.time.shape == (6,)
    np.testing.assert_allclose(table.column("/jointset/fore_joint/elbow/value")[0], np.pi / 3)
    np.testing.assert_allclose(
        table.column("/jointset/upper_joint/shoulder/speed")[0], math.radians(10)
    )
    assert summary["stopped_by"] is None
    # and on from its last row
    on = ("--states", "sim.sto", "--time", "0.05", "--duration", "0.05", "--rate", "40")
    more = run(capsys, "simulate", "tiny_arm.osim", *on, "--out", "more.sto")
    np.testing.assert_allclose(more["start"]["elbow_deg"], summary["end"]["elbow_deg"], rtol=1e-6)
    assert not more["muscles"]


def test_recorded_excitations_are_clipped_and_the_muscle_is_named(at, capsys):
    (at / "emg.csv").write_text(
        "time,flexor,extensor,front,back\n0,0.2,-0.01,0.1,0.1\n0.05,1.3,0.1,0.1,0.1\n"
    )
    start = ("simulate", "tiny_arm.osim", "--at", "elbow=60", "--duration", "0.05")
    summary = run(capsys, *start, "--excitations", "emg.csv", "--out", "sim.sto")
    assert summary["notes"] == [
        "emg.csv: the excitation of flexor goes from 0.2 to 1.3; 1 of 2 rows were clipped to 0 "
        "and 1",
        "emg.csv: the excitation of extensor goes from -0.01 to 0.1; 1 of 2 rows were clipped to "
        "0 and 1",
    ]
    (at / "same.csv").write_text(
        "time,flexor,extensor,front,back\n0,0.2,0,0.1,0.1\n0.05,1,0.1,0.1,0.1\n"
    )
    quiet = run(capsys, *start, "--excitations", "same.csv", "--out", "same.sto")
    assert quiet["notes"] == []
    assert quiet["end"] == summary["end"]


@pytest.fixture
def elastic(at):
    """The arm with undamped fibres on elastic tendons, which are stiff where hardly excited."""
    text = (at / "tiny_arm.osim").read_text()
    for old, new in (
        ("<ignore_tendon_compliance>true", "<ignore_tendon_compliance>false"),
        ("<fiber_damping>0.1", "<fiber_damping>0"),
    ):
        assert old in text
        text = text.replace(old, new)
    (at / "elastic.osim").write_text(text)
    return at


def test_stiff_tendons_are_told(elastic, capsys):
    start = ("--at", "elbow=60", "--excite", "all=0", "--duration", "0.2", "--out", "stiff.sto")
    few = ("--max-steps", "100")
    assert main(["simulate", "elastic.osim", *start, *few, "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "on an elastic tendon at this excitation need about" in said
    assert "--tendons rigid needs few" in said
    assert not (elastic / "stiff.sto").exists()
    rigid = run(capsys, "simulate", "elastic.osim", *start, "--tendons", "rigid")
    assert rigid["tendons"] == "rigid"
    assert rigid["steps"] < 100
    assert rigid["notes"] == []


@pytest.mark.slow
def test_running_out_of_steps_on_stiff_tendons(elastic, capsys):
    """The estimate is for the first pose: later ones may need more."""
    start = ("--at", "elbow=60", "--excite", "all=0", "--duration", "0.2", "--out", "stiff.sto")
    assert main(["simulate", "elastic.osim", *start, "--max-steps", "300", "--quiet"]) == 1
    said = capsys.readouterr().err
    assert "ran out of 300 steps" in said
    assert "--tendons rigid needs few" in said


@pytest.mark.slow
def test_a_simulation_goes_on_with_its_muscles(elastic, capsys):
    """Two halves are the whole: activations and fibre lengths are read from the states."""
    strong = ("simulate", "elastic.osim", "--excite", "all=0.5", "--rate", "50", "--rtol", "1e-8")
    whole = run(capsys, *strong, "--duration", "0.04", "--out", "whole.sto")
    on = ("--states", "whole.sto", "--time", "0.02", "--duration", "0.02")
    run(capsys, *strong, *on, "--out", "half.sto")
    first, second = read_storage("whole.sto"), read_storage("half.sto")
    assert first.labels == second.labels
    np.testing.assert_allclose(second.data, first.data[1:], rtol=1e-6, atol=1e-7)
    assert whole["tendons"] == "elastic"


def test_a_simulation_stops_at_the_end_of_a_range(at, capsys):
    start = ("--at", "elbow=2", "--speed", "elbow=-200", "--duration", "0.05", "--rate", "40")
    summary = run(capsys, "simulate", "tiny_arm.osim", *start, "--out", "stop.sto")
    assert summary["stopped_by"] == "elbow"
    assert 0.005 < summary["time_s"][1] < 0.02
    np.testing.assert_allclose(summary["end"]["elbow_deg"], 0.0, atol=1e-6)


@pytest.mark.skipif(
    importlib.util.find_spec("opensim") is not None, reason="OpenSim is installed here"
)
def test_check_says_how_to_install_opensim(at, capsys):
    assert main(["check", "tiny_arm.osim", "--quiet"]) == 1
    assert "pip install opensim" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("opensim") is None, reason="needs OpenSim")
def test_check_agrees(at, capsys):
    summary = run(capsys, "check", "tiny_arm.osim", "--poses", "2")
    assert summary["agrees"]
    assert summary["differences"]["position"]["largest"] < 1e-12
    assert summary["differences"]["length"]["largest"] < 1e-12
    assert summary["differences"]["need"]["largest"] < 1e-9


TO = ("--out", "x.sto")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["info", "nothing.osim"], 2, "there is no file nothing.osim"),
        (["info", "folder"], 2, "folder is a folder, not a file"),
        (["info", "arm.mot"], 2, "its name must end in .osim"),
        (["info", "bad.osim"], 2, "bad.osim, line"),
        (["info", "tiny_arm.osim", "--lock", "elbow"], 2, "'elbow' is not NAME=VALUE"),
        (["info", "tiny_arm.osim", "--lock", "knee=1"], 2, "no coordinate 'knee'"),
        (["moment-arms", "tiny_arm.osim", "--out", "x.csv"], 2, "required: --sweep"),
        (["moment-arms", "tiny_arm.osim", "--sweep", "elbow=1", "--out", "x.csv"], 2,
         "is not NAME=FROM:TO:STEP"),
        (["moment-arms", "tiny_arm.osim", "--sweep", "knee=0:1:1", "--out", "x.csv"], 2,
         "there is no coordinate 'knee'; there are shoulder, elbow"),
        (["moment-arms", "tiny_arm.osim", "--sweep", "elbow=0:1:1", "--lock", "elbow=3", "--out",
          "x.csv"], 2, "--sweep elbow: elbow is locked by --lock elbow"),
        (["moment-arms", "tiny_arm.osim", "--sweep", "lift=0:1:1", "--out", "x.csv"], 2,
         "lift is locked; --free lift lets it move"),
        (["moment-arms", "tiny_arm.osim", "--sweep", "wrist=0:1:1", "--out", "x.csv"], 2,
         "wrist follows other coordinates; --free wrist"),
        (["info", "text.osim"], 2, "syntax error, so it is no OpenSim model"),
        (["info", "tiny_arm.osim", "--lock", "elbow=0", "--lock", "shoulder=0"], 2,
         "no coordinate is free to move; --free NAME lets one move"),
        (["moment-arms", "tiny_arm.osim", "--sweep", "elbow=0:1:1", "--muscles", "x", "--out",
          "x.csv"], 2, "there is no muscle 'x'; there are front, back, flexor, extensor"),
        (["moment-arms", "tiny_arm.osim", "--sweep", "elbow=0:1:1", "--out", "no/x.csv"], 2,
         "there is no folder no"),
        (["moment-arms", "tiny_arm.osim", "--sweep", "elbow=0:1:1", "--out", "x.sto"], 2,
         "must end in .csv"),
        (["id", "tiny_arm.osim", "nothing.mot", *TO], 2, "there is no file nothing.mot"),
        (["id", "tiny_arm.osim", "bad.mot", *TO], 2, "endheader"),
        (["id", "tiny_arm.osim", "arm.mot", "--free", "lift", *TO], 2,
         "coordinates: lift; the columns are shoulder, elbow; say where each of them stands with "
         "--at NAME=VALUE"),
        (["id", "tiny_arm.osim", "gap.mot", *TO], 2, "--fill-gaps bridges gaps between rows"),
        (["id", "tiny_arm.osim", "turns.mot", *TO], 2,
         "elbow goes from 0 to 2.3 rad; if these are degrees, set inDegrees=yes in the file's"),
        (["id", "tiny_arm.osim", "arm.mot", "--at", "elbow=3", *TO], 2,
         "has a column for it"),
        (["id", "tiny_arm.osim", "arm.mot", "--lowpass", "-1", *TO], 2, "not a frequency"),
        (["id", "tiny_arm.osim", "arm.mot", "--from", "9", *TO], 2, "no row is between"),
        (["ik", "tiny_arm.osim", "arm.mot", *TO], 2, "not '.mot'"),
        (["ik", "tiny_arm.osim", "arm.trc", "--weight", "toe=1", *TO], 2, "no such marker"),
        (["share", "tiny_arm.osim", "arm.mot", "--reserve", "-1", *TO], 2, "from 0 up"),
        (["simulate", "tiny_arm.osim", "--excite", "flexor=2", *TO], 2, "from 0 to 1"),
        (["simulate", "tiny_arm.osim", "--excite", "x=0.1", *TO], 2, "there is no muscle 'x'"),
        (["simulate", "tiny_arm.osim", "--excitations", "percent.csv", *TO], 2,
         "percent.csv: the excitation of flexor goes from 3 to 80; numbers from 0 to 1"),
        (["simulate", "tiny_arm.osim", "--excitations", "gap.csv", *TO], 2,
         "gap.csv: the excitation of flexor is NaN or infinite in 1 of 2 rows, first at 1 s"),
        (["simulate", "tiny_arm.osim", "--excitations", "other.csv", *TO], 2,
         "other.csv has no column for any muscle"),
        (["simulate", "tiny_arm.osim", "--at", "elbow=170", *TO], 2, "outside the coordinate's"),
        (["simulate", "tiny_arm.osim", "--duration", "-1", *TO], 2, "must be positive"),
        (["simulate", "tiny_arm.osim", "--time", "1", *TO], 2, "there is no --states"),
        (["check", "tiny_arm.osim", "--poses", "0"], 2, "at least 1"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_sentence(at, capsys, arguments, code, sentence):
    (at / "bad.osim").write_text("<OpenSimDocument Version='40000'><Model></OpenSimDocument>")
    (at / "bad.mot").write_text("nothing\n")
    (at / "text.osim").write_text("some words\n")
    header = "x\ninDegrees={}\nendheader\ntime\tshoulder\telbow\n0\t1\t9\n"
    (at / "gap.mot").write_text(header.format("yes") + "1\t9\tnan\n2\t9\t9\n")
    for name, column, first, second in (
        ("percent", "flexor", 3, 80), ("gap", "flexor", 0, "nan"), ("other", "toe", 0, 1),
    ):  # fmt: skip
        (at / f"{name}.csv").write_text(f"time,{column}\n0,{first}\n1,{second}\n")
    (at / "turns.mot").write_text(header.format("no") + "1\t1\t90\n")
    before = sorted(os.listdir(at))
    assert main([*arguments, "--quiet"]) == code
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if line.startswith("empbody: ")]
    assert len(lines) == 1, said.err
    assert sentence in lines[0]
    assert "Traceback" not in said.err
    assert said.out == ""
    assert sorted(os.listdir(at)) == before
