"""The command line: results, machine-readable output, and one sentence for every mistake."""

import json
import os
import pathlib
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

from empbody.cli import main
from empbody.cli._classical import Driver, classical_motion
from empbody.cli._settings import cache_folder
from empbody.cli._trajectories import FIVE_BAR, FOUR_BAR
from empbody.io import read_storage

CACHE = pathlib.Path(__file__).parents[1] / ".cache" / "jax"
PROGRAM = "import sys; from empbody.cli import main; sys.exit(main())"


def empbody(*arguments: str) -> subprocess.CompletedProcess:
    """The command in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    environment["EMPBODY_CACHE_DIR"] = str(CACHE)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True, text=True, timeout=600, check=False, env=environment,
    )  # fmt: skip


def only_sentence(text: str) -> str:
    """The one line that a mistake leaves on standard error, after the progress."""
    lines = [line for line in text.splitlines() if line.startswith("empbody: ")]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


@pytest.fixture(scope="module")
def squeezer(tmp_path_factory):
    out = tmp_path_factory.mktemp("squeezer") / "deep" / "out"
    done = empbody("run", "squeezer", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    return out, done


def test_squeezer_writes_what_it_promises(squeezer):
    out, done = squeezer
    summary = json.loads(done.stdout)  # and nothing else there
    assert summary == json.loads((out / "summary.json").read_text())
    assert sorted(os.listdir(out)) == sorted(summary["files"])
    assert os.listdir(out.parent) == ["out"]
    assert "simulating as an ODE" in done.stderr
    for name in ("fig17_joint_variables.png", "fig18_forward_dynamics.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_squeezer_table(squeezer):
    table = read_storage(squeezer[0] / "trajectory.sto")
    assert table.labels == ("q", "qd", *(f"theta{i}" for i in range(1, 8)))
    assert table.time.shape == (1001,)
    assert (table.time[0], table.time[-1]) == (0.0, 0.05)
    assert table.column("q")[0] == -0.0620
    assert not table.in_degrees
    np.testing.assert_array_equal(table.column("theta1"), table.column("q"))


def test_squeezer_figures_are_right(squeezer):
    summary = json.loads(squeezer[1].stdout)
    assert summary["reference"].startswith("embedded")
    assert summary["errors"]["q_rms_rad"] < 1e-8
    assert summary["energy"]["drift_over_largest_kinetic"] < 1e-7
    assert summary["constraint_residual_max_m"] < 1e-15
    assert summary["steps"]["accepted"] > 50
    assert {"compile", "run"} <= set(summary["wall_times_s"])
    dae = summary["dae"]
    assert dae["q_rms_difference"] < 1e-7
    assert dae["steps"]["accepted"] > 50
    assert 0 < dae["drift_max_m"] < 1e-6


@pytest.fixture(scope="module")
def four_bar(tmp_path_factory):
    out = tmp_path_factory.mktemp("four_bar")
    options = ("--no-dae", "--duration", "0.1", "--rows", "5", "--q0", "-1e-1")
    done = empbody("run", "four_bar", "--out", str(out), *options)
    assert done.returncode == 0, done.stderr
    return out, done


def test_four_bar_agrees_with_the_constraint_jacobian(four_bar):
    out, done = four_bar
    summary = json.loads((out / "summary.json").read_text())
    assert summary["errors"]["velocity_relative"] < 1e-12
    assert summary["errors"]["acceleration_relative"] < 1e-12
    assert summary["forward"]["q0"] == [-0.1]
    assert "from the constraint Jacobian" in done.stdout
    assert sorted(os.listdir(out)) == sorted(summary["files"])
    table = read_storage(out / "trajectory.sto")
    assert table.time.shape == (401,)
    # At t = 0, |a| of p from the manuscript's data by another program, to ten digits.
    assert abs(np.hypot(table.column("ax")[0], table.column("ay")[0]) - 7.0064904974537) < 1e-11


@pytest.mark.slow
def test_five_bar(tmp_path):
    out = tmp_path / "out"
    done = empbody("run", "five-bar", "--out", str(out), "--duration", "0.1", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["errors"]["acceleration_relative"] < 1e-12
    assert summary["errors"]["gradients_projection_to_differences_max"] < 1e-6
    assert sum(name.endswith(".png") for name in os.listdir(out)) == 4
    labels = read_storage(out / "trajectory.sto").labels
    assert labels[:8] == ("q1", "q2", "qd1", "qd2", "qdd1", "qdd2", "theta1", "theta2")


@pytest.mark.slow
def test_degrees_and_a_start_without_a_stored_reference(tmp_path):
    short = ("--duration", "0.002", "--rows", "5", "--no-dae", "--no-figures", "--json")
    done = empbody("run", "squeezer", "--out", str(tmp_path), "--q0", "-3", *short)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    np.testing.assert_allclose(summary["q0"], [np.radians(-3)])
    assert summary["reference"].startswith("computed")
    assert summary["errors"]["q_rms_rad"] < 1e-9
    done = empbody("run", "squeezer", "--out", str(tmp_path), "--radians", "--q0", "-0.05", *short)
    assert json.loads(done.stdout)["q0"] == [-0.05]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["run", "six-bar"], 2, "there is no mechanism 'six-bar'; choose one of four-bar"),
        (["run"], 2, "required: MECHANISM"),
        (["walk"], 2, "invalid choice: 'walk'"),
        (["run", "four-bar", "--solver", "euler"], 2, "invalid choice: 'euler'"),
        (["run", "four-bar", "--rhythm", "linear"], 2, "invalid choice: 'linear'"),
        (["run", "four-bar", "--q0", "high"], 2, "invalid float value: 'high'"),
        (["run", "squeezer", "--q0", "nan"], 2, "--q0 gives q = nan, which is not a finite number"),
        (["run", "five-bar", "--q0", "1"], 2, "--q0 needs 2 numbers (q1, q2), got 1"),
        (["run", "four-bar", "--set", "l0"], 2, "'l0' is not NAME=VALUE"),
        (["run", "four-bar", "--set", "l9=1"], 2, "--set l9: there is no such figure; known: l0"),
        (["run", "four-bar", "--set", "l0=nan"], 2, "--set l0=nan: a finite number"),
        (["run", "four-bar", "--set", "l0=50"], 2, "the four-bar does not assemble: l0 = 50"),
        (["run", "five-bar", "--set", "l0=50"], 2, "the five-bar does not assemble"),
        (["run", "squeezer", "--rtol", "-1"], 2, "--rtol -1: a positive number is needed"),
        (["run", "squeezer", "--rows", "1"], 2, "--rows 1: at least 2 is needed"),
        (["run", "squeezer", "--max-steps", "0"], 2, "--max-steps 0: at least 1 is needed"),
        (["run", "squeezer", "--duration", "nan"], 2, "--duration nan: a positive number"),
        (["run", "squeezer", "--out", "{file}"], 1, "is a file, not a folder"),
        (["run", "squeezer", "--out", "{file}/out"], 1, "is a file, not a folder"),
        (["bench", "--json", "{folder}/no/such.json"], 2, "there is no such folder"),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    tmp_path, monkeypatch, capsys, arguments, code, sentence
):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "file"
    file.write_text("kept")
    filled = [a.format(file=file, folder=tmp_path) for a in arguments]
    assert main(filled) == code
    said = capsys.readouterr()
    assert sentence in only_sentence(said.err)
    assert said.out == ""
    assert os.listdir(tmp_path) == ["file"]
    assert file.read_text() == "kept"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--q0", "2.5"], 2, "--q0 gives q = 2.5, outside its range -2 to 2"),
        (["--max-steps", "3"], 1, "ran out of 3 steps"),
    ],
)
def test_bad_starts_and_failures_write_nothing(tmp_path, arguments, code, sentence):
    out = tmp_path / "out"
    done = empbody("run", "four-bar", "--out", str(out), "--no-dae", "--json", *arguments)
    assert done.returncode == code, done.stderr
    assert sentence in only_sentence(done.stderr)
    assert done.stdout == ""
    assert os.listdir(tmp_path) == []


def test_debug_shows_the_traceback(capsys):
    assert main(["run", "four-bar", "--set", "l0=50", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"]])
def test_help_and_version(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    assert "empbody" in capsys.readouterr().out


def test_cache_can_be_moved_and_switched_off(monkeypatch, tmp_path):
    monkeypatch.setenv("EMPBODY_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("EMPBODY_CACHE_DIR", "")
    assert cache_folder() is None
    monkeypatch.delenv("EMPBODY_CACHE_DIR")
    found = cache_folder()
    assert found is not None
    assert "empbody" in found.parts


def test_drawing_leaves_matplotlib_alone(tmp_path):
    from empbody import viz

    before = dict(mpl.rcParams)
    time = np.linspace(0.0, 4.0, 50)
    figure = viz.coordinates_over_time(time, FIVE_BAR(time)[0], names=["a", "b"], unit="rad")
    viz.save(figure, tmp_path / "a.png")
    viz.save(figure, tmp_path / "b.png")
    assert dict(mpl.rcParams) == before
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_constraint_jacobian_agrees_with_differences():
    time = np.linspace(0.0, 0.9, 901)
    start = np.cumsum([0.954, -1.908, 1.772])
    point = classical_motion(
        (2.0, 4.0, 5**0.5), 5.0, (Driver(1, 2.0),), FOUR_BAR(time), start, (2, 5**0.5 / 2)
    )
    step = time[1] - time[0]
    speed = np.gradient(point.position, step, axis=0)[1:-1]
    push = np.gradient(point.velocity, step, axis=0)[1:-1]
    assert np.max(np.abs(point.velocity[1:-1] - speed)) < 1e-3
    assert np.max(np.abs(point.acceleration[1:-1] - push)) < 1e-2
