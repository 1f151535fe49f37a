"""`empbody run shoulder`: what it writes, and one sentence for every mistake."""

import json
import os
import pathlib

import numpy as np
import pytest
from test_cli import empbody, only_sentence

import empbody as eb
from empbody.cli import main
from empbody.cli._shoulder_notes import held_against
from empbody.io import Table, read_storage, save_rhythm, write_storage
from empbody.rhythms import Affine, Named

COORDINATES = ("elv_angle", "shoulder_elv", "shoulder_rot")
QUICK = ("--no-wrap", "--no-dae", "--quiet")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("shoulder") / "out"
    done = empbody("run", "shoulder", "--out", str(out), "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


def test_files(run):
    out, summary = run
    assert sorted(os.listdir(out)) == sorted(summary["files"])
    figures = [name for name in summary["files"] if name.endswith(".png")]
    assert {name[:5] for name in figures} >= {"fig14", "fig15", "fig19", "fig20", "fig21"}
    for name in figures:
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_motion_is_followed(run):
    out, summary = run
    table = read_storage(out / "trajectory.sto")
    q, desired = (
        np.stack([table.data[:, table.labels.index(n + end)] for n in COORDINATES], axis=1)
        for end in ("", "_desired")
    )
    assert np.max(np.abs(q - desired)) < 1e-8
    assert np.allclose(desired[:, 0], np.radians(90.0))
    assert np.allclose(desired[:, 2], np.radians(-30.0))
    checks = summary["checks"]
    assert checks["torques_minus_inverse_dynamics_N_m"] < 1e-8
    assert checks["power_minus_energy_rate_W"] < 1e-8


def test_muscles_give_the_torques(run):
    out, summary = run
    torques, muscles, arms = (
        read_storage(out / name) for name in ("trajectory.sto", "muscles.sto", "moment_arms.sto")
    )
    units = [name[: -len("_force")] for name in muscles.labels if name.endswith("_force")]
    assert len(units) == 14
    force = np.stack([muscles.data[:, muscles.labels.index(f"{u}_force")] for u in units], 1)
    for name in COORDINATES:
        arm = np.stack([arms.data[:, arms.labels.index(f"ma_{name}_{u}")] for u in units], 1)
        given = np.sum(arm * force, axis=1)
        given += muscles.data[:, muscles.labels.index(f"{name}_reserve")]
        wanted = torques.data[:, torques.labels.index(f"{name}_moment")]
        np.testing.assert_allclose(given, wanted, atol=1e-9)
    activation = muscles.data[:, : len(units)]
    assert activation.min() >= 0.0
    assert activation.max() <= 1.0
    assert sum(summary["muscles"]["outcomes"].values()) == torques.time.size


def motion(path, **degrees):
    time = np.linspace(0.0, 1.0, 51)
    columns = [value + 5.0 * np.sin(np.pi * time) ** 2 for value in degrees.values()]
    write_storage(path, Table(time, tuple(degrees), np.stack(columns, 1), in_degrees=True))
    return str(path)


def test_own_motion_and_start(tmp_path):
    file = motion(tmp_path / "mine.mot", shoulder_elv=40.0, elv_angle=30.0, shoulder_rot=-20.0)
    out = tmp_path / "out"
    start = ("--q0", "29", "41", "-20")
    done = empbody(
        "run", "shoulder", "--motion", file, *start, "--rhythm", "holzbaur", "--gains", "50",
        "--out", str(out), "--no-figures", "--json", *QUICK,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = read_storage(out / "trajectory.sto")
    assert table.time.size == 51
    elevation = np.degrees(table.data[:, table.labels.index("shoulder_elv")])
    assert abs(elevation[0] - 41.0) < 1e-9  # a degree off at first, and caught up soon
    assert abs(elevation[-1] - 40.0) < 1e-6


SPRING = """
    <ForceSet name="forceset">
      <objects>
        <SpringGeneralizedForce name="damped">
          <coordinate>follow</coordinate>
          <stiffness>4</stiffness>
          <rest_length>0.1</rest_length>
          <viscosity>0.5</viscosity>
        </SpringGeneralizedForce>
      </objects>
    </ForceSet>
    <MarkerSet name="markerset">"""


def test_model_of_a_file_with_its_own_rhythm_and_forces(tmp_path, capsys):
    text = (pathlib.Path(__file__).parent / "osim" / "couplers_40600.osim").read_text()
    model = tmp_path / "arm.osim"
    model.write_text(text.replace('<MarkerSet name="markerset">', SPRING))
    file = motion(tmp_path / "mine.mot", lead=20.0, aside=5.0)
    out = tmp_path / "out"
    command = ["run", "shoulder", "--model", str(model), "--motion", file, "--out", str(out)]
    assert main([*command, "--no-figures", "--rtol", "1e-7", *QUICK]) == 0
    words = capsys.readouterr().out
    assert "de_groot" not in words
    assert "follow, third with lead; stretch with lead and aside" in words
    summary = json.loads((out / "summary.json").read_text())
    assert "own" in summary["rhythm"]
    assert summary["followers"] == {"follow": ["lead"], "third": ["lead"],
                                    "stretch": ["lead", "aside"]}  # fmt: skip
    assert summary["force_elements"] == 1
    assert summary["force_elements_power_max_W"] > 0.01  # a balance without it would miss that
    assert summary["checks"]["power_minus_energy_rate_W"] < 1e-10


def test_a_muscle_that_holds_against_the_motion_is_named():
    model = eb.models.shoulder(muscles=("DELT1", "TMIN"), wrapping=False)
    time, arms = np.array([0.0, 0.1]), np.zeros((2, 3, 2))
    arms[1, 2, 1] = -0.2
    passive, torques = np.array([[0.0, 10.0], [0.0, 500.0]]), np.full((2, 3), 5.0)
    (note,) = held_against(model, time, arms, passive, torques, np.array([False, True]))
    assert "TMIN is stretched so far at 0.10 s that it pulls with 500 N" in note
    assert "moment arm of -200 mm loads shoulder_rot by 100 N m" in note
    balanced = np.array([False, False])
    assert held_against(model, time, arms, passive, torques, balanced) == []
    assert held_against(model, time, arms, passive / 50, torques, np.array([True, True])) == []


def test_aligned_rhythm_file(tmp_path, capsys):
    turned = Affine([[-0.1, 0.3]], [1.5])  # far from any scapula's tilt
    file = tmp_path / "turned.json"
    save_rhythm(Named(turned, ("plane", "elevation"), ("st_tilt",)), file)
    options = ["--rhythm", str(file), "--no-figures", "--duration", "0.1", "--rtol", "1e-6"]
    for align, starts in (((), True), (("--align", "90", "10"), False)):
        out = str(tmp_path / "out")
        assert main(["run", "shoulder", "--out", out, *options, *align, *QUICK]) == 0
        assert ("--align takes that off" in capsys.readouterr().out) is starts


@pytest.mark.parametrize(
    ("degrees", "options", "words"),
    [
        ({"shoulder_elv": 40.0, "elv_angle": 0.0}, [], "shoulder_rot"),
        (dict.fromkeys(COORDINATES, 19.0), [], "shoulder_rot"),  # 24° is out of range
        ({"a": 1.0, "b": 2.0, "c": 3.0}, [], "elv_angle"),
    ],
)
def test_motions_that_do_not_fit(tmp_path, capsys, degrees, options, words):
    file = motion(tmp_path / "bad.mot", **degrees)
    out = str(tmp_path / "out")
    assert main(["run", "shoulder", "--motion", file, "--out", out, *options, *QUICK]) == 2
    assert words in only_sentence(capsys.readouterr().err)
    assert not os.path.exists(out)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gains", "1", "2"], "--gains needs one number or 3"),
        (["--gains", "-1"], "positive"),
        (["--rhythm", "linear"], "the shoulder has de_groot, de_groot_elevation, holzbaur"),
        (["--motion", "none.mot"], "there is no file none.mot"),
        (["--model", "none.osim"], "there is no file none.osim"),
        (["--q0", "1"], "--q0 needs 3 numbers (elv_angle, shoulder_elv, shoulder_rot), got 1"),
        (["--q0", "0", "190", "0"], "shoulder_elv"),
        (["--align"], "--align is for a rhythm file"),
        (["--branch", "A"], "--branch is for the four-bar only"),
    ],
)
def test_mistakes(tmp_path, capsys, options, words):
    out = str(tmp_path / "out")
    assert main(["run", "shoulder", "--out", out, *options, *QUICK]) == 2
    assert words in only_sentence(capsys.readouterr().err)


def test_options_of_the_shoulder_are_refused_elsewhere(tmp_path, capsys):
    assert main(["run", "squeezer", "--load", "--out", str(tmp_path / "out")]) == 2
    assert "--load has no meaning for the squeezer" in only_sentence(capsys.readouterr().err)
