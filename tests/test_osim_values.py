"""Models of tests/osim as `load` reads them, against OpenSim's own numbers for them.

The values are made by tests/reference/osim/make_values.py. Where loops leave a choice of
independent coordinates, the stored ones are turned into those of the model.
"""

import json
import pathlib
import xml.etree.ElementTree as ElementTree
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb

HERE = pathlib.Path(__file__).parent
MODELS = sorted((HERE / "osim").glob("*.osim"))
NAMES = [path.stem for path in MODELS]
REJECTED = sorted((HERE / "osim" / "rejected").glob("*.osim"))
BROKEN_XML = {"cut_short"}

QUICK = {"xla_backend_optimization_level": 0}  # compiling is most of the time
TRANSFORMS = 1e-12
LOOPS = 1e-10
"""Poses of closed loops: both sides solve them to their own tolerance."""
DYNAMICS = 1e-9
"""Mass matrix, inverse dynamics and passive forces, relative to the largest entry."""
LENGTHS = 1e-10
WRAPPED = 3e-5
"""What OpenSim's approximate contact costs at most (m; see reference/wrapping/README.md)."""
EXACT_IN_OPENSIM = ("over_ball", "over_asleep", "pull")
"""Paths over spheres, which OpenSim solves exactly."""
MOVING_POINTS = {"muscles_40000", "beam_20303", "leg_30000"}
"""OpenSim's moment arm is not -∂L/∂q there."""


@pytest.mark.parametrize("path", MODELS + REJECTED, ids=lambda path: path.stem)
def test_files_are_what_they_say(path: pathlib.Path):
    if path.stem in BROKEN_XML or "<!DOCTYPE" in path.read_text():
        return
    root = ElementTree.parse(path).getroot()
    assert root.tag == "OpenSimDocument"
    if path.parent.name == "osim":
        assert path.stem.endswith(root.attrib["Version"])
        assert (HERE / "reference" / "osim" / f"{path.stem}.json").exists()


class Case(NamedTuple):
    """A loaded model and what OpenSim says of it at the poses, in the model's coordinates."""

    name: str
    model: eb.Model
    values: dict[str, Any]
    rows: list[int]
    """Of the model's coordinates among all coordinates of the file."""
    ours: dict[str, np.ndarray]

    def stored(self, what: str) -> np.ndarray:
        return np.array([pose[what] for pose in self.values["poses"]])

    def by_name(self, what: str, names: tuple[str, ...]) -> np.ndarray:
        return np.array([[pose[what][n] for n in names] for pose in self.values["poses"]])

    def turned(self) -> np.ndarray:
        """∂(stored independent coordinates)/∂(model's coordinates) at each pose."""
        return np.linalg.inv(self.stored("tangent")[:, self.rows])

    @property
    def wraps(self) -> bool:
        with_, without = (
            [list(pose.get(what, {}).values()) for pose in self.values["poses"]]
            for what in ("length", "length_without_wrapping")
        )
        return not np.allclose(with_, without, rtol=0, atol=1e-9)


def everything(model, q, qd, qdd):
    """All that is compared, at all poses, in one compiled function."""

    def one(q, qd, qdd):
        out = {
            "transforms": eb.body_transforms(model, q),
            "mass_matrix": eb.mass_matrix(model, q),
            "inverse_dynamics": eb.inverse_dynamics(model, q, qd, qdd),
        }
        if model.forces:
            out["forces"] = eb.applied_forces(model, q, qd)
        if model.nm:
            out["length"] = eb.path_lengths(model, q)
            out["arms"] = eb.moment_arms(model, q)
            out["opensim_arms"] = eb.moment_arms(model, q, convention="opensim")
        return out

    out = jax.jit(jax.vmap(one), compiler_options=QUICK)(q, qd, qdd)
    return {key: np.asarray(value) for key, value in out.items()}


def routes(model, q):
    def one(q):
        return eb.path_lengths(model, q), eb.moment_arms(model, q)

    return jax.jit(jax.vmap(one), compiler_options=QUICK)(q)


@pytest.fixture(scope="module", params=NAMES)
def case(request) -> Case:
    name = request.param
    model = eb.load(HERE / "osim" / f"{name}.osim", wrapping=False)
    values = json.loads((HERE / "reference" / "osim" / f"{name}.json").read_text())
    rows = [values["coordinates"].index(n) for n in model.coordinate_names]
    states = [
        np.array([pose[what] for pose in values["poses"]])[:, rows] for what in ("q", "qd", "qdd")
    ]
    return Case(name, model, values, rows, everything(model, *states))


def close(actual, expected, tolerance):
    """All entries within the tolerance, relative to the largest where that is above 1."""
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def test_coordinates(case: Case):
    assert len(case.model.coordinate_names) == len(case.values["independent"])
    if "loop" not in case.name:
        assert set(case.model.coordinate_names) == set(case.values["independent"])
    assert "ground" not in case.model.body_names


def test_body_transforms(case: Case):
    names = tuple(case.values["poses"][0]["transforms"])
    assert set(names) <= set(case.model.body_names)
    here = [case.model.body_names.index(n) for n in names]
    tolerance = LOOPS if "loop" in case.name else TRANSFORMS
    close(case.ours["transforms"][:, here, :3], case.by_name("transforms", names), tolerance)


def test_markers(case: Case):
    if not case.values["poses"][0]["markers"]:
        pytest.skip("no markers in this file")
    frames = case.ours["transforms"]
    ground = np.broadcast_to(np.eye(4), frames[:, :1].shape)
    frames = np.concatenate([frames, ground], axis=1)  # body -1 is the ground
    there = frames[:, list(case.model.marker_bodies)]
    local = np.asarray(case.model.marker_positions)
    ours = np.einsum("pmij,mj->pmi", there[..., :3, :3], local) + there[..., :3, 3]
    tolerance = LOOPS if "loop" in case.name else TRANSFORMS
    close(ours, case.by_name("markers", case.model.marker_names), tolerance)
    assert len(case.model.marker_names) == len(case.values["poses"][0]["markers"])


def test_mass_matrix(case: Case):
    turn = case.turned()
    expected = np.swapaxes(turn, 1, 2) @ case.stored("mass_matrix") @ turn
    close(case.ours["mass_matrix"], expected, DYNAMICS)


def test_inverse_dynamics(case: Case):
    expected = np.einsum("pij,pi->pj", case.turned(), case.stored("inverse_dynamics"))
    close(case.ours["inverse_dynamics"], expected, DYNAMICS)


def test_passive_forces(case: Case):
    """The sum of all springs, ligaments, limits and bushings."""
    if "forces" not in case.values["poses"][0]:
        pytest.skip("no passive elements in this file")
    names = tuple(case.values["poses"][0]["forces"])
    expected = case.by_name("forces", names).sum(axis=1)
    close(case.ours["forces"], np.einsum("pij,pi->pj", case.turned(), expected), DYNAMICS)


def test_lengths_and_moment_arms_without_wrapping(case: Case):
    names = case.model.muscle_names
    if "moment_arm" not in case.values["poses"][0] or "forces" in case.values["poses"][0]:
        pytest.skip("no muscles in this file; paths of passive elements are seen by their forces")
    muscles = set(case.values.get("curves", case.values["poses"][0]["length"])) - {"length"}
    assert muscles <= set(names) <= set(case.values["poses"][0]["length"])
    close(case.ours["length"], case.by_name("length_without_wrapping", names), LENGTHS)
    expected = np.swapaxes(case.by_name("moment_arm_without_wrapping", names), 1, 2)
    expected = np.einsum("pij,pim->pjm", case.turned(), expected)
    close(case.ours["opensim_arms"], expected, LENGTHS)
    if case.name not in MOVING_POINTS:
        close(case.ours["arms"], expected, LENGTHS)


def test_lengths_with_wrapping(case: Case):
    if not case.wraps:
        pytest.skip("no path of this file wraps")
    model = eb.load(HERE / "osim" / f"{case.name}.osim")
    length, arms = routes(model, case.stored("q")[:, case.rows])
    expected = case.by_name("length", model.muscle_names)
    close(length, expected, WRAPPED)
    exact = [i for i, n in enumerate(model.muscle_names) if n in EXACT_IN_OPENSIM]
    close(np.asarray(length)[:, exact], expected[:, exact], LENGTHS)
    if case.name not in MOVING_POINTS:
        expected = np.swapaxes(case.by_name("moment_arm", model.muscle_names), 1, 2)
        close(arms, expected, 100 * WRAPPED)


def test_muscle_curves(case: Case):
    curves = case.values.get("curves")
    if curves is None:
        pytest.skip("no muscles in this file")
    muscles = case.model.muscles
    here = [case.model.muscle_names.index(n) for n in curves if n != "length"]
    for i, length in enumerate(curves["length"]):
        at = jnp.full(case.model.nm, length)
        for kind, ours in (
            ("active", muscles.curves.active_force_length(at)),
            ("passive", muscles.curves.passive_force_length(at)),
        ):
            expected = [v[kind][i] for n, v in curves.items() if n != "length"]
            close(np.asarray(ours)[here], expected, 1e-9)


@pytest.mark.parametrize("name", ["leg_30000", "passive_40600"])
def test_motion_of_one_second(name: str):
    """OpenSim integrates the same with couplers as constraints (make_motions.py)."""
    values = json.loads((HERE / "reference" / "osim" / f"{name}_motion.json").read_text())
    model = eb.load(HERE / "osim" / f"{name}.osim", wrapping=False)
    assert list(model.coordinate_names) == values["coordinates"]
    q, qd = np.array(values["q"]), np.array(values["qd"])
    solution = eb.simulate(model, q[0], qd[0], values["time"], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(solution.q, q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(solution.qd, qd, rtol=0, atol=1e-7)


@pytest.mark.parametrize("path", REJECTED, ids=lambda path: path.stem)
def test_bad_files_are_refused_by_name(path: pathlib.Path):
    with pytest.raises(eb.io.FileFormatError, match=path.name):
        eb.load(path)


def test_deep_nesting_is_refused(tmp_path: pathlib.Path):
    path = tmp_path / "deep.osim"
    path.write_text("<OpenSimDocument Version='40000'>" + "<a>" * 100_000)
    with pytest.raises(eb.io.FileFormatError, match=r"deep\.osim"):
        eb.load(path)
