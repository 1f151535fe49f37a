"""`empbody fit`, from a table to a rhythm file."""

import json
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.cli import main

PLANES = {"frontal": 0.0, "scapular": 40.0, "sagittal": 90.0}
MAP = "plane=frontal:0,scapular:40,sagittal:90"
ASK = ["--inputs", "plane,elevation", "--targets", "tilt,turn_deg", "--map", MAP]


def rows(subjects: int, seed: int = 0) -> list[str]:
    """Subjects whose two angles follow plane and elevation, in degrees."""
    rng = np.random.default_rng(seed)
    lines = ["subject,plane,elevation_deg,tilt_deg,turn_deg,trial"]
    for s in range(subjects):
        a, b, c = rng.normal(size=3)
        for i in range(36):
            word = tuple(PLANES)[i % 3]
            p, e = PLANES[word], 20.0 + 110.0 * ((7 * i) % 36) / 36
            bend = (e - 75.0) ** 2 / 500
            tilt = 5.0 + 6 * a + (0.1 + 0.03 * b) * p + (0.2 + 0.05 * c) * e + 0.5 * a * bend
            turn = -3.0 + 4 * c + (0.3 + 0.04 * a) * e + 0.4 * bend
            noise = 0.3 * rng.normal(size=2)
            lines.append(
                f"s{s},{word},{e:.4f},{tilt + noise[0]:.4f},{turn + noise[1]:.4f},{i // 9}"
            )
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    lines = rows(9)
    (folder / "all.csv").write_text("\n".join(lines[:-36]) + "\n")
    (folder / "new.csv").write_text("\n".join([lines[0], *lines[-36:]]) + "\n")
    return folder


def run(capsys, *arguments: object) -> dict:
    code = main([str(a) for a in arguments] + ["--json", "--quiet"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def refused(capsys, *arguments: object) -> str:
    assert main([str(a) for a in arguments]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1 or "reading" in err
    return err


def test_one_subject(folder, capsys) -> None:
    out, figure = folder / "one.json", folder / "one.png"
    found = run(capsys, "fit", folder / "new.csv", *ASK, "--rhythm", "poly:2", "--out", out,
                "--figure", figure)  # fmt: skip
    assert found["data"] == str(folder / "new.csv")
    assert "model" not in found
    assert set(found["noise_deg"]) == {"tilt", "turn_deg"}
    assert found["input_scaling_rad"]["plane"]["centre"] == pytest.approx(np.pi / 4)
    assert np.isfinite([found["aic"], found["bic"]]).all()
    assert set(found["rmse_train_deg"]) == {"tilt", "turn_deg", "all"}
    assert found["rmse_train_deg"]["all"] < 0.4
    assert found["rmse_train_deg"]["all"] < found["rmse_test_deg"]["all"] < 0.8
    assert found["parameters"] == 12
    assert found["seconds"] > 0
    assert figure.read_bytes()[:4] == b"\x89PNG"
    rhythm = eb.load_rhythm(out)
    assert rhythm.inputs == ("plane", "elevation")
    assert rhythm.targets == ("tilt", "turn")
    assert np.isfinite(np.asarray(rhythm(jnp.asarray([0.5, 1.0])))).all()


def test_population_and_the_next_subject(folder, capsys) -> None:
    prior = folder / "prior.json"
    found = run(capsys, "fit", folder / "all.csv", "--subject", "subject", *ASK, "--rhythm",
                "poly:2", "--out", prior)  # fmt: skip
    assert len(found["subjects"]) == 8
    assert found["left_out"]["poses"] == 5
    new = run(capsys, "fit", folder / "new.csv", "--prior", prior, "--calibrate", 5)
    assert new["rows"] == 5
    assert len(new["poses"]) == 5
    text = (folder / "new.csv").read_text().split("\n")
    for pose in new["poses"]:
        cells = text[pose["line"] - 1].split(",")
        assert pose["words"] == {"plane": cells[1]}
        assert pose["inputs_deg"]["elevation"] == pytest.approx(float(cells[2]))
        assert pose["row"] == pose["line"] - 2
    assert new["aic"] is None
    assert "prior" in new["criteria_left_out"]
    assert new["notes"] == []
    assert new["test"] == "rows not fitted"
    both = run(capsys, "fit", folder / "new.csv", "--prior", prior, "--subject", "subject")
    assert both["subjects"] == {"s8": pytest.approx(new["rmse_test_deg"]["all"])}
    assert both["subjects_in_prior"] == []
    assert both["notes"] == []
    seen = run(capsys, "fit", folder / "all.csv", "--prior", prior, "--subject", "subject")
    assert seen["subjects_in_prior"] == [f"s{i}" for i in range(8)]
    assert len(seen["poses"]) == 8 * 5
    assert "made from this table" in seen["notes"][0]
    copy = folder / "copy.csv"
    copy.write_text("# a comment\n" + (folder / "all.csv").read_text())
    one = run(capsys, "fit", copy, "--prior", prior, "--where", "subject=s3", "--calibrate", 5)
    assert "subjects of the same names (s3)" in one["notes"][0]
    assert "pick one" in refused(capsys, "fit", folder / "new.csv", "--prior", prior, "--subject",
                                 "subject", "--out", prior, "--quiet")  # fmt: skip
    alone = run(capsys, "fit", folder / "new.csv", *ASK, "--rhythm", "linear", "--calibrate", 5)
    assert new["rmse_test_deg"]["all"] < alone["rmse_test_deg"]["all"]
    again = run(capsys, "fit", folder / "new.csv", *ASK, "--prior", prior, "--rhythm", "poly:2",
                "--test", folder / "new.csv", "--calibrate", 6)  # fmt: skip
    assert again["rmse_test_deg"]["all"] < 1.0
    sentence = refused(capsys, "fit", folder / "new.csv", "--prior", prior, "--rhythm", "linear")
    assert "the prior is of the family poly:2" in sentence

    few = run(capsys, "fit", "--prior", prior, "--suggest", 4)
    assert len({tuple(p["inputs_deg"].values()) for p in few["poses"]}) == 4
    for pose in few["poses"]:
        assert pose["words"]["plane"] in PLANES
        assert 20 <= pose["inputs_deg"]["elevation"] <= 130
    assert main(["fit", "--prior", str(prior), "--suggest", "2", "--quiet"]) == 0
    assert "(sagittal)" in capsys.readouterr().out
    assert "use --calibrate" in refused(capsys, "fit", copy, "--prior", prior, "--suggest", 2)
    assert "leave out --out" in refused(capsys, "fit", "--prior", prior, "--suggest", 2, "--out",
                                        folder / "x.json")  # fmt: skip
    assert "--suggest needs --prior" in refused(capsys, "fit", *ASK, "--suggest", 2)
    assert "a table of measurements is needed" in refused(capsys, "fit", *ASK)


def test_a_family_that_is_too_poor_is_told(folder, capsys) -> None:
    lines = [lines.split(",") for lines in (folder / "all.csv").read_text().splitlines()]
    for cells in lines[1:]:  # a bend that no straight line follows
        cells[4] = f"{float(cells[4]) + (float(cells[2]) - 75.0) ** 2 / 100:.4f}"
    bent = folder / "bent.csv"
    bent.write_text("\n".join(map(",".join, lines)) + "\n")
    out = folder / "straight.json"
    ask = [bent, *ASK, "--subject", "subject", "--out", out]
    found = run(capsys, "fit", *ask, "--rhythm", "linear")
    assert any("linear is too poor for these data" in note for note in found["notes"])
    frames = run(capsys, "fit", folder / "new.csv", "--prior", out, "--frames", 10)
    assert frames["effective_parameters"] < 6  # 36 rows are fewer poses, the prior has a say
    found = run(capsys, "fit", folder / "new.csv", "--prior", out, "--calibrate", 5)
    poor = [note for note in found["notes"] if "too poor for the subjects of the prior" in note]
    assert len(poor) == 1
    assert "--rhythm poly:3" in poor[0]
    found = run(capsys, "fit", bent, *ASK, "--where", "subject=s1", "--rhythm", "poly:2")
    assert not any("too poor" in note for note in found["notes"])


def test_text_says_what_was_done(folder, capsys) -> None:
    lines = (folder / "new.csv").read_text().split()
    short = folder / "short.csv"
    short.write_text("\n".join(lines[:10]) + "\n")
    ask = ["--inputs", "plane,elevation", "--targets", "tilt", "--map", MAP, "--quiet"]
    assert main(["fit", str(short), *ask, "--rhythm", "linear"]) == 0
    out = capsys.readouterr().out
    assert " test" not in out
    assert "fitted\n" in out
    assert (
        main(["fit", str(folder / "new.csv"), *ask, "--rhythm", "poly:3", "--calibrate", "20"]) == 0
    )
    out = capsys.readouterr().out
    assert "poly:3 has of plane only powers up to 2: its 3 distinct values" in out
    assert "poses fitted (deg):\n  line 2: plane 0.0 (frontal), elevation 20.0\n" in out


@pytest.fixture(scope="module")
def raised(folder):
    """One raise in one plane: frames that are noisy, and the end of the raise apart."""
    rng = np.random.default_rng(5)
    e = np.linspace(15.0, 150.0, 120)
    tilt = 5.0 * np.sin(e / 18.0) + 0.3 * rng.normal(size=120)
    turn = 0.4 * e + 3.0 * np.cos(e / 50.0) + 0.3 * rng.normal(size=120)
    lines = [f"{a:.4f},{b:.4f},{c:.4f}" for a, b, c in zip(e, tilt, turn, strict=True)]
    head = "elevation_deg,tilt_deg,turn_deg"
    (folder / "raise.csv").write_text("\n".join([head, *lines[:100]]) + "\n")
    (folder / "end.csv").write_text("\n".join([head, *lines[100:]]) + "\n")
    return ["fit", folder / "raise.csv", "--inputs", "elevation", "--targets", "tilt,turn"]


def test_splines_are_smooth_unless_told(raised, folder, capsys) -> None:
    found = run(capsys, *raised, "--rhythm", "spline:8")
    assert found["smoothness"] > 0.0
    assert found["effective_parameters"] < found["parameters"]
    rough = run(capsys, *raised, "--rhythm", "spline:8", "--smoothness", "0")
    assert rough["smoothness"] == 0.0
    assert rough["rmse_train_deg"]["all"] < found["rmse_train_deg"]["all"] < 0.4
    given = run(capsys, *raised, "--rhythm", "poly:4", "--smoothness", "auto")
    assert given["smoothness"] >= 0.0
    assert "neither auto nor a number" in refused(capsys, *raised, "--smoothness", "much")
    assert "give a number" in refused(capsys, *raised, "--rhythm", "mlp:2", "--smoothness", "auto")


def test_auto_knows_splines_and_goes_on_straight(raised, folder, capsys) -> None:
    ends = {}
    for family in ("auto", "poly:4"):
        found = run(capsys, *raised, "--rhythm", family, "--test", folder / "end.csv")
        ends[found["family"]] = found["rmse_test_deg"]["all"]
        assert "20 of 20 rows of the test lie outside the fitted range of elevation" in "".join(
            found["notes"]
        )
    assert set(ends) == {"spline:8", "poly:4"}
    assert "spline:8 0." in "".join(run(capsys, *raised)["notes"])


def test_frames_of_a_recording_do_not_outvote_the_prior(raised, folder, capsys) -> None:
    out = folder / "many.json"
    run(capsys, "fit", folder / "all.csv", *ASK, "--subject", "subject", "--rhythm", "poly:2",
        "--out", out)  # fmt: skip
    e = np.linspace(30.0, 100.0, 90)
    dense = [f"frontal,{x:.4f},{0.3 * x:.4f},{0.2 * x:.4f}" for x in e]
    head = "plane,elevation_deg,tilt_deg,turn_deg"
    (folder / "dense.csv").write_text("\n".join([head, *dense]) + "\n")
    ask = ("fit", folder / "dense.csv", "--prior", out)
    found, every = run(capsys, *ask), run(capsys, *ask, "--frames", "0")
    assert any("count as 3 poses" in n or "count as 4 poses" in n for n in found["notes"])
    assert not any("poses against" in n for n in every["notes"])
    assert found["effective_parameters"] < every["effective_parameters"]
    few = run(capsys, *ask, "--calibrate", "5")
    assert not any("poses against" in n for n in few["notes"])


def test_radians_called_degrees_are_noted(folder, capsys) -> None:
    path = folder / "radians.csv"
    rows = [f"{x:.3f},{0.2 + 0.3 * x:.4f}" for x in np.linspace(0.2, 2.4, 12)]
    path.write_text("\n".join(["elevation_deg,tilt_deg", *rows]) + "\n")
    ask = ["--inputs", "elevation", "--targets", "tilt", "--rhythm", "linear"]
    found = run(capsys, "fit", path, *ask)
    assert len(found["notes"]) == 2
    assert "call the column elevation_rad" in found["notes"][0]
    path.write_text(path.read_text().replace("_deg", "_rad"))
    assert run(capsys, "fit", path, *ask)["notes"] == []


def test_trials_orientations_and_choice(folder, capsys) -> None:
    found = run(capsys, "fit", folder / "new.csv", *ASK, "--trial", "trial")
    assert found["family"].startswith("poly")
    assert "one trial after the other" in found["test"]
    assert any("chosen by cross-validation" in note for note in found["notes"])
    some = run(capsys, "fit", folder / "all.csv", *ASK, "--where", "subject=s3", "--rhythm",
               "linear", "--loss", "huber")  # fmt: skip
    assert some["rows"] == 36


def broken(folder, name: str, change) -> pathlib.Path:
    path = folder / f"{name}.csv"
    path.write_text("\n".join(change(line) for line in (folder / "new.csv").read_text().split()))
    return path


def test_wrong_input_is_one_sentence(folder, capsys) -> None:
    new = folder / "new.csv"
    assert "Words become numbers through a map" in refused(
        capsys, "fit", new, "--inputs", "plane,elevation", "--targets", "tilt", "--quiet"
    )
    assert "'frontal' is not in --map, which has coronal" in refused(
        capsys, "fit", new, "--inputs", "plane", "--targets", "tilt", "--map", "plane=coronal:0",
        "--quiet",
    )  # fmt: skip
    assert "no column 'elevaton' (did you mean 'elevation'?)" in refused(
        capsys, "fit", new, "--inputs", "elevaton", "--targets", "tilt", "--quiet"
    )
    nan = broken(folder, "nan", lambda line: line.replace("20.0000", "nan"))
    lines = [i for i, s in enumerate(nan.read_text().split(), 1) if "nan" in s]
    assert f"lines {lines[0]}" in refused(capsys, "fit", nan, *ASK, "--quiet")
    mixed = broken(folder, "mixed", lambda s: s.replace("elevation_deg", "elevation"))
    assert "more than 2π in a column of radians" in refused(capsys, "fit", mixed, *ASK, "--quiet")
    assert "fewer than the" in refused(
        capsys, "fit", new, *ASK, "--rhythm", "poly:3", "--calibrate", "4", "--quiet"
    )
    assert "input 'plane' is constant" in refused(
        capsys, "fit", new, *ASK, "--rhythm", "linear", "--where", "plane=frontal", "--quiet"
    )
    assert "--inputs and --targets are needed" in refused(capsys, "fit", new, "--quiet")
    assert "there is no file" in refused(capsys, "fit", folder / "none.csv", *ASK)
    assert "not COLUMN=WORD:VALUE" in refused(
        capsys, "fit", new, "--inputs", "plane", "--targets", "tilt", "--map", "plane=frontal"
    )
    assert "no row with subject = s99" in refused(
        capsys, "fit", new, *ASK, "--where", "subject=s99", "--quiet"
    )
    one = folder / "single.json"
    run(capsys, "fit", new, *ASK, "--rhythm", "linear", "--out", one)
    assert "holds one subject, not a population" in refused(capsys, "fit", new, "--prior", one)
