"""The benchmarks: peers compute what ours compute, and results say how they came about."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _holzbaur import holzbaur

import empbody as eb
from empbody import bench
from empbody.bench import _ida, _opensim_dynamics, _squeezer, _trees
from empbody.bench._machine import Clock
from empbody.bench._moment_arms import opensim_calls, poses
from empbody.bench._opensim import OpenSimShoulder
from empbody.bench._timing import Figure, interleaved, repeats_of
from empbody.cli import main
from empbody.cli._progress import Progress

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"


def script(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


report, growth = script("report"), script("growth")


@pytest.mark.filterwarnings("ignore::DeprecationWarning:.*importlib.*")
def test_opensim_has_the_same_shoulder():
    pytest.importorskip("opensim")
    peer, model, q = OpenSimShoulder(wrapping=False), holzbaur(), poses(5)
    lengths = jax.vmap(lambda q: eb.path_lengths(model, q))(jnp.asarray(q))
    arms = jax.vmap(lambda q: eb.moment_arms(model, q))(jnp.asarray(q))
    for each, length, arm in zip(q, lengths, arms, strict=True):
        peer.pose(peer.variables(each))
        np.testing.assert_allclose(peer.lengths(), length, rtol=0, atol=1e-12)
        np.testing.assert_allclose(peer.moment_arms(), arm, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:.*importlib.*")
def test_opensim_accelerates_the_same_bones():
    pytest.importorskip("opensim")
    peer, model = OpenSimShoulder(muscles=False), _opensim_dynamics.bones()
    q, qd = poses(4), _opensim_dynamics.rates(4)
    ours = jax.vmap(lambda q, qd: eb.forward_dynamics(model, q, qd))(
        jnp.asarray(q), jnp.asarray(qd)
    )
    for pose, rate, acceleration in zip(q, qd, ours, strict=True):
        rates = _opensim_dynamics.joint_rates(model, pose, rate)
        peer.move(peer.variables(pose), peer.speeds(rates))
        np.testing.assert_allclose(peer.accelerations(), acceleration, rtol=1e-8, atol=1e-8)


def test_mujoco_has_the_same_tree():
    """Two bodies weld to the last link: their inertias are put together."""
    mujoco = pytest.importorskip("mujoco")
    turn, moments = eb.Revolute((0, 0.6, 0.8), (0.1, 0, 0.2), (0.3, 0.1, 0.2)), (0.02, 0.03, 0.04)
    bodies = [
        eb.Body("a", joint=turn, mass=1.0, com=(0, -0.1, 0.05), inertia=moments),
        eb.Body("b", "a", eb.Revolute((1, 0, 0), (0, -0.3, 0)), mass=0.7, inertia=moments),
        eb.Body("c", "b", eb.Weld((0, -0.2, 0.1), (0.4, 0, 0.5)), mass=0.5, inertia=moments),
    ]
    model = eb.Model.build(("q1", "q2"), bodies)
    peer = _trees.mujoco_model(mujoco, model)
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = (0.4, -0.7), (1.1, 0.3)
    mujoco.mj_forward(peer, data)
    ours = eb.forward_dynamics(model, jnp.array([0.4, -0.7]), jnp.array([1.1, 0.3]))
    np.testing.assert_allclose(data.qacc, ours, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("stabilised", [False, True])
def test_ida_solves_the_same_squeezer(stabilised):
    solver = pytest.importorskip("sksundae.ida").IDA
    dae = eb.dae.constrained(eb.models.squeezer(), eb.models.SqueezerLoop())
    given = _ida.problem(dae, eb.models.Q0_TEST_SET, stabilised)
    np.testing.assert_allclose(given.residual(given.y0, given.yp0), 0.0, atol=1e-12)
    found = _ida.Ida(solver, given).solve(1e-8)
    error = np.sqrt(np.mean((found.q - _squeezer.reference()) ** 2))
    assert error < _squeezer.ACCURACY
    assert found.residuals > found.jacobians > 0
    assert found.callbacks > 0.0


def test_a_missing_peer_is_left_out(monkeypatch):
    for name in ("opensim", "mujoco", "pinocchio", "sksundae.ida"):
        monkeypatch.setitem(sys.modules, name, None)
    model = eb.models.pendulum_chain(2)
    assert opensim_calls(poses(1)) is None
    assert _opensim_dynamics.opensim_calls(model, poses(1), poses(1)) == []
    assert _trees.mujoco_call(model) is None
    assert _trees._pinocchio_call(model) is None
    for figure in _ida.run().values():
        assert figure["value"] is None
        assert "scikit-sundae" in figure["reason"]


def test_figures_are_medians_of_neighbours():
    assert Figure.of([3.0, 1.0, 2.0])["value"] == 2.0
    assert Figure.of([1.0])["spread"] is None
    ratio = Figure.ratio([2.0, 20.0, 200.0], [1.0, 10.0, 50.0], peer="x")
    assert ratio["value"] == 2.0
    assert (ratio["n"], ratio["peer"]) == (3, "x")


def test_repeats_are_those_asked_for():
    calls = []
    with repeats_of(2):
        times = interleaved([lambda: calls.append("a"), lambda: calls.append("b")], 7)
    assert calls == ["a", "b", "a", "b", "a", "b"]  # the first of each warms up
    assert [len(t) for t in times] == [2, 2]
    assert [len(t) for t in interleaved([lambda: None], 7)] == [7]


@pytest.fixture
def two_groups(monkeypatch):
    def fails():
        raise ValueError("no such muscle")

    groups = {
        "good": bench.Group("a good one", lambda: {"x_us": Figure.of([1.0, 2.0])}),
        "bad": bench.Group("a bad one", fails),
    }
    monkeypatch.setattr(bench, "GROUPS", groups)


def test_a_run_says_what_it_ran_on(two_groups):
    found = json.loads(json.dumps(bench.run(Progress(quiet=True))))
    assert found["results"]["x_us"]["value"] == 1.5
    assert found["results"]["peak_rss_mb"]["value"] > 50
    assert found["groups"]["bad"]["error"] == "ValueError: no such muscle"
    assert "error" not in found["groups"]["good"]
    machine = found["machine"]
    assert machine["cores"] >= machine["usable_cores"] >= 1
    assert len(machine["load_at_start"]) == len(machine["load_at_end"]) == 3
    assert machine["cores_of_this_process"] >= 0.0
    assert found["peers"]["SciPy"]


def test_the_command_measures_groups(two_groups, tmp_path, capsys):
    target = tmp_path / "b.json"
    assert main(["bench", "--quiet", "--only", "good", "--json", str(target)]) == 0
    assert set(json.loads(target.read_text())["results"]) == {"x_us", "peak_rss_mb"}
    assert main(["bench", "--quiet", "--json", str(target)]) == 1
    assert "bad (ValueError: no such muscle)" in capsys.readouterr().err
    assert "x_us" in target.read_text()  # what could be measured is kept
    for wrong, words in (
        (["--only", "fine"], "there is no group fine; choose from good, bad"),
        (["--only", ","], "names no group"),
        (["--repeats", "0"], "at least 1"),
    ):
        assert main(["bench", *wrong]) == 2
        assert words in capsys.readouterr().err


def test_own_work_is_seen_on_the_clock():
    clock = Clock.now()
    while Clock.now().own - clock.own < 0.05:
        pass
    assert clock.cores_since()["cores_of_this_process"] > 0.0


def test_the_page_holds_what_the_results_give():
    """`benchmarks/report.py` was run after the last measurement."""
    targets = tomllib.loads(report.TARGETS.read_text(encoding="utf-8"))["figure"]
    text = report.PAGE.read_text(encoding="utf-8")
    assert report.render(text, targets, *report.load()) == text
    assert report.NO_REASON not in text
    named = {found["name"].removeprefix("figures: ") for found in report._BLOCK.finditer(text)}
    assert {row["table"] for row in targets} <= named
    for axis in ("batch", "bodies", "coordinates", "muscles"):
        assert (report.PAGE.parent / "figures" / f"growth_{axis}.png").is_file()


def test_tables_tell_met_from_missed():
    row = {"key": "a_us", "table": "t", "what": "of", "target": "<= 5", "missed": "n is {n}"}
    row |= {"unit": "µs", "peer": "{peer:n} µs"}
    good, bad = {"value": 5.0, "spread": 0.12, "n": 3, "peer": 2.0}, {"value": 12345.6, "n": 3}
    assert report.line(row, good) == "| `a_us` | of | 5 µs | 0.12 | 2 µs | ≤ 5 | met |\n"
    assert report.line(row, bad) == "| `a_us` | of | 12,300 µs |  |  | ≤ 5 | **missed** |\n"
    assert "not measured" in report.line(row, None)
    assert "none: gone" in report.line(row, {"value": None, "reason": "gone"})
    assert report.missed([row], {"a_us": good}, {}) == "No target is missed.\n"
    assert "12,300 µs, target ≤ 5: n is 3." in report.missed([row], {"a_us": bad}, {})
    del row["missed"]
    quiet, loud = {"b.json": {"cores_of_others": 0.0}}, {"b.json": {"cores_of_others": 1.5}}
    assert report.NO_REASON in report.missed([row], {"a_us": bad}, quiet)
    assert "the machine was busy" in report.missed([row], {"a_us": bad}, loud)
    assert "`other`" in report.others([row], {"a_us": good, "other": {"value": 1.0}})
    with pytest.raises(ValueError, match="table 'u'"):
        report.table([row], {}, "u")


def test_sweeps_leave_out_what_takes_too_long(monkeypatch):
    spent = iter([([{"us": 1.0}], None), (None, "took longer than 9 s")])
    monkeypatch.setattr(growth, "alone", lambda *_: next(spent))
    points, skipped = growth.sweep("coordinates:sharing", False, 3, 9.0, 100.0)
    assert [p["size"] for p in points] == [1]
    assert [s["size"] for s in skipped] == [3, 10, 30, 60]
    assert "longer than 9 s" in skipped[0]["reason"]
    assert "likely to take" in skipped[1]["reason"]
    late = growth.sweep("coordinates:sharing", False, 3, 9.0, -1.0)[1]
    assert all("were over" in s["reason"] for s in late)


@pytest.mark.slow
def test_a_sweep_measures(tmp_path):
    target = tmp_path / "growth.json"
    command = [sys.executable, str(BENCHMARKS / "growth.py"), "--quick", "--out", str(target)]
    subprocess.run([*command, "--only", "coordinates:sharing", "--patience", "200"], check=True)
    found = json.loads(target.read_text())
    assert found["skipped"] == []
    assert {p["curve"] for p in found["points"]} == {"force sharing"}
    for point in found["points"]:
        assert 0 < point["least_us"] <= point["us"] <= point["most_us"]
        assert point["peak_rss_mb"] >= point["bare_rss_mb"] > 50
        assert point["compile_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "sizes", "keys"),
    [
        ("_muscle_rhs", {"_BATCH": 4, "_REPEATS": 2}, ["rhs_shoulder_muscles_batched_us"]),
        ("_batch", {"_RUNS": 64, "_CHUNK": 32, "_LANES": 4}, ["batch_waiting_fraction"]),
        ("_gradient", {"_BATCH": 2, "_REPEATS": 2}, ["grad_over_forward", "compile_grad_s"]),
    ],
)
def test_groups_give_their_figures(module, sizes, keys, monkeypatch):
    group = importlib.import_module(f"empbody.bench.{module}")
    for name, value in sizes.items():
        monkeypatch.setattr(group, name, value)
    found = group.run()
    assert all(found[key]["value"] > 0.0 for key in keys)
