"""The Spartacus folder layout, and the synthetic population."""

import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.io import FileFormatError, read_spartacus
from empbody.models import DeGroot, synthetic_population

HEADER = (
    "dataset_id,dataset_authors,humeral_motion,thoracohumeral_sequence,thoracohumeral_angle,joint,"
    "parent,child,euler_sequence,rotation_absolute,origin_displacement,displacement_cs,"
    "displacement_absolute,is_data_mean,shoulder_id,side,source_extraction,folder,dof_1st_euler,"
    "dof_2nd_euler,dof_3rd_euler,dof_translation_x,dof_translation_y,dof_translation_z"
)


def row(
    motion: str = "frontal plane elevation",
    *,
    joint: str = "scapulothoracic",
    sequence: str = "yx'z''",
    mean: str = "False",
    absolute: str = "True",
    shoulder: str = "1",
    side: str = "right",
    curves: tuple[str, str, str] = ("p.csv", "m.csv", "t.csv"),
) -> str:
    return (
        f"#1,Nobody et al.,{motion},yx'y'',x',{joint},thorax,scapula,{sequence},{absolute},,,,"
        f"{mean},{shoulder},{side},made up,#1_Nobody_et_al/1a,{','.join(curves)},,,"
    )


def folder(root: pathlib.Path, *rows: str, header: str = HEADER) -> pathlib.Path:
    """Made-up curves in the layout of the collection."""
    (root / "dataset").mkdir(parents=True)
    (root / "dataset" / "dataset_clean_of_joint_data.csv").write_text("\n".join([header, *rows]))
    data = root / "data" / "#1_Nobody_et_al" / "1a"
    data.mkdir(parents=True)
    (data / "p.csv").write_text("30,35\n60,38.5\n90,40\n")
    (data / "m.csv").write_text("30;-5\n60;-15\n90;-25\n")
    (data / "t.csv").write_text("20,-10\n60,-6\n80,-4 \n")  # other arm angles
    (data / "negative.csv").write_text("-30,1\n-60,2\n-90,3\n")
    (data / "bad.csv").write_text("30,1\n60,x\n")
    (data / "wide.csv").write_text("30,1,2\n")
    return root


def test_curves_become_rows(tmp_path: pathlib.Path) -> None:
    found = read_spartacus(folder(tmp_path / "s", row(), row("sagittal plane elevation")))
    # The third curve ends at 80 degrees: so does the set.
    assert found.inputs.shape == (4, 2)
    np.testing.assert_allclose(np.degrees(found.inputs), [[0, 30], [0, 60], [90, 30], [90, 60]])
    expected = [[35, -5, -9], [38.5, -15, -6]]
    np.testing.assert_allclose(np.degrees(found.targets[:2]), expected)
    assert found.target_names == ("st_protraction", "st_medial_rotation", "st_tilt")
    assert found.input_names == ("plane", "elevation")
    assert bool((found.weights == 1).all())
    assert set(found.subjects) == {"Nobody et al. 1a 1"}
    assert found.skipped == ()


def test_sets_with_gaps_and_negative_arm_angles(tmp_path: pathlib.Path) -> None:
    curves = ("", "negative.csv", "nan")
    found = read_spartacus(folder(tmp_path / "s", row(curves=curves)), planes={
        "frontal plane elevation": 5.0})  # fmt: skip
    np.testing.assert_allclose(np.degrees(found.inputs[:, 1]), [30, 60, 90])
    np.testing.assert_allclose(np.degrees(found.inputs[:, 0]), 5.0)
    np.testing.assert_allclose(found.weights, np.tile([[0, 1, 0]], (3, 1)))


def test_what_is_skipped_is_told(tmp_path: pathlib.Path) -> None:
    rows = (
        row(),
        row("horizontal flexion"),
        row(sequence="zy'x''"),
        row(side="left"),
        row(mean="True"),
        row(absolute="False"),
        row(joint="glenohumeral"),
    )
    place = folder(tmp_path / "s", *rows)
    found = read_spartacus(place)
    assert [s.line for s in found.skipped] == [3, 4, 5, 6, 7]
    assert "no elevation" in found.skipped[0].reason
    assert "zy'x''" in found.skipped[1].reason
    every = read_spartacus(place, sequences=None, left="mirror", means=True, relative=True)
    assert len(every.inputs) == 10
    np.testing.assert_allclose(np.degrees(every.targets[4]), [-35, 5, -9])
    with pytest.raises(FileFormatError, match="no curves of the sternoclavicular"):
        read_spartacus(place, "sternoclavicular")
    with pytest.raises(FileFormatError, match="no curves"):
        read_spartacus(place, studies=["Somebody"])
    assert len(read_spartacus(place, studies=["nobody"]).inputs) == 2
    # A folder above, or the dataset folder, will do as well.
    assert len(read_spartacus(place / "dataset").inputs) == 2


def test_columns_are_found_by_name(tmp_path: pathlib.Path) -> None:
    lines = [line.split(",") for line in (HEADER, row(), row("sagittal plane elevation"))]
    turned = [",".join([*reversed(cells), "extra"]) for cells in lines]
    found = read_spartacus(folder(tmp_path / "turned", *turned[1:], header=turned[0]))
    plain = read_spartacus(folder(tmp_path / "plain", row(), row("sagittal plane elevation")))
    np.testing.assert_array_equal(found.targets, plain.targets)
    np.testing.assert_array_equal(found.inputs, plain.inputs)


def test_joints_of_the_index_are_named_where_none_fits(tmp_path: pathlib.Path) -> None:
    rows = (row(joint="scapulo-thoracic"), row(joint="elbow"), row(joint="elbow"))
    place = folder(tmp_path / "s", *rows)
    with pytest.raises(FileFormatError, match=r"scapulothoracic.*scapulo-thoracic, elbow\)"):
        read_spartacus(place)


def test_rows_that_are_cut_off_are_named(tmp_path: pathlib.Path) -> None:
    cut = row().rsplit(",", 3)[0]
    with pytest.raises(FileFormatError, match=r"line 3.*21 cells under 24 labels"):
        read_spartacus(folder(tmp_path / "s", row(), cut))


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        (("p.csv", "m.csv", "none_there.csv"), r"line 2.*dof_3rd_euler.*there is no file"),
        (("bad.csv", "", ""), r"bad.csv, line 2.*joint angle.*'x' is not a number"),
        (("wide.csv", "", ""), r"wide.csv, line 1.*3 numbers"),
    ],
)
def test_bad_files_are_named(tmp_path: pathlib.Path, curves, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_spartacus(folder(tmp_path / "s", row(curves=curves)))


def test_bad_folders_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        read_spartacus(tmp_path / "nowhere")
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(FileFormatError, match="no index dataset_clean_of_joint_data"):
        read_spartacus(tmp_path / "a" / "b")
    cut = folder(tmp_path / "s", header=HEADER.replace("dof_2nd_euler,", ""))
    with pytest.raises(FileFormatError, match="line 1: no column 'dof_2nd_euler'"):
        read_spartacus(cut)
    with pytest.raises(ValueError, match="joint = 'hip'"):
        read_spartacus(cut, "hip")
    with pytest.raises(ValueError, match="left = "):
        read_spartacus(cut, left="maybe")


def test_the_population_is_called_synthetic_and_scatters_as_stated() -> None:
    found = synthetic_population(60, seed=4, noise_deg=0.5)
    assert all(name.startswith("synthetic ") for name in found.rhythms)
    assert found.inputs.shape == (60 * 45, 2)
    numbers = np.stack([r.rhythm.coefficients for r in found.rhythms.values()])  # 1, p, e, e²
    bend = -np.radians(120.0) * numbers[:, :, 3]
    published = DeGroot()
    np.testing.assert_allclose(np.degrees(numbers[:, :, 0].std(axis=0)), 4.0, rtol=0.35)
    np.testing.assert_allclose((numbers[:, :, 2] - bend).std(axis=0), 0.06, rtol=0.35)
    np.testing.assert_allclose(np.degrees(bend.std(axis=0)), 3.0 * 4 / np.radians(120), rtol=0.35)
    np.testing.assert_allclose(numbers[:, :, 1].mean(axis=0), published.plane, atol=0.03)
    inputs, targets = found.of("synthetic 7")
    exact = np.asarray([found.rhythms["synthetic 7"](jnp.asarray(q)) for q in inputs[:5]])
    assert np.degrees(np.abs(targets[:5] - exact)).max() < 2.5
    again = synthetic_population(60, seed=4, noise_deg=0.5)
    np.testing.assert_array_equal(found.targets, again.targets)


def test_a_synthetic_population_can_be_fitted() -> None:
    names = ("st_protraction", "st_medial_rotation", "st_tilt")
    found = synthetic_population(8, targets=names, noise_deg=0.5)
    fit = eb.fit_population(
        found.inputs, found.targets, found.subjects, "poly:2", input_names=found.input_names,
        target_names=found.target_names, leave_one_out=None,
    )  # fmt: skip
    assert np.degrees(fit.rms).max() < 1.0
    assert fit.subjects[0] == "synthetic 1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subjects": 0}, "0 subjects"),
        ({"noise_deg": -1.0}, "noise_deg = -1"),
        ({"targets": ("knee",)}, "no angle 'knee'"),
    ],
)
def test_populations_that_cannot_be(given, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synthetic_population(**given)
