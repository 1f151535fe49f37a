"""Batches in folders: what is read back, what a killed batch leaves, what is refused."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from _batches import arguments, damping, pendulum

import empbody as eb
from empbody.batch import BatchFolderError
from empbody.batch._fingerprint import fingerprint

RUNS = 10
FORMATS = [
    "sto",
    pytest.param(
        "zarr",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("zarr") is None, reason="Zarr is not installed"
        ),
    ),
]


@pytest.fixture(scope="module")
def plain():
    """The batch in memory, never interrupted."""
    return eb.simulate_batch(**arguments(RUNS))


def identical(a: eb.Batch, b: eb.Batch) -> None:
    names = ("q", "qd", "reached", "ts", "t_final", "q_final", "status", "stats/num_steps")
    for name in names:
        np.testing.assert_array_equal(a.array(name), b.array(name), err_msg=name)
    assert a.stats["waiting_fraction"] == b.stats["waiting_fraction"]


@pytest.mark.parametrize("format", FORMATS)
def test_folder_holds_the_same_numbers(tmp_path, plain, format):
    out = tmp_path / "batch"
    told = []
    written = eb.simulate_batch(
        **arguments(RUNS), out=out, format=format, progress=lambda *at: told.append(at)
    )
    assert told == [(0, 10), (4, 10), (8, 10), (10, 10)]
    identical(written, plain)
    assert written.folder == out
    loaded = eb.load_batch(out)
    identical(loaded, plain)
    for one, other in zip(loaded, plain, strict=True):
        np.testing.assert_array_equal(one.q, other.q)
        assert bool(one.status == other.status)
    # done: nothing is computed again
    told.clear()
    identical(
        eb.simulate_batch(
            **arguments(RUNS), out=out, format=format, progress=lambda *at: told.append(at)
        ),
        plain,
    )
    assert told == [(10, 10)]
    with pytest.raises(KeyError, match="'torque' is not in"):
        loaded.array("torque")


def test_sto_files_are_motions(tmp_path, plain):
    out = tmp_path / "batch"
    eb.simulate_batch(**arguments(RUNS), out=out)
    assert len(list(out.glob("*.sto"))) == RUNS
    motion = eb.read_motion(out / "run_7.sto", pendulum())
    np.testing.assert_array_equal(motion.q, plain[7].q)
    np.testing.assert_array_equal(motion.qd, plain[7].qd)
    # A file that was taken away is made again with its chunk.
    (out / "run_7.sto").unlink()
    with pytest.raises(BatchFolderError, match="1 of its 3 chunks"):
        eb.load_batch(out)
    identical(eb.simulate_batch(**arguments(RUNS), out=out), plain)
    assert (out / "run_7.sto").exists()


def test_what_a_batch_is_asked_for(plain):
    with pytest.raises(KeyError, match="'activation' is not in the batch, which has q"):
        plain.array("activation")
    with pytest.raises(TypeError, match="the number of a run"):
        plain[1:3]


KILLED = """
    import os, signal, sys
    import jax
    jax.config.update("jax_enable_x64", True)
    sys.path.insert(0, sys.argv[2])
    from _batches import arguments
    import empbody as eb
    from empbody.batch import _trajectories

    write, written = _trajectories.write_storage, []

    def killing(path, table):
        written.append(path)
        if len(written) == 7:  # in the middle of the second chunk
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, table)

    _trajectories.write_storage = killing
    eb.simulate_batch(**arguments(10), out=sys.argv[1])
"""


def test_killed_batch_continues(tmp_path, plain):
    out = tmp_path / "batch"
    here = str(pathlib.Path(__file__).parent)
    program = [sys.executable, "-c", textwrap.dedent(KILLED), str(out), here]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(out.glob("*.sto"))) == 6
    assert [path.name for path in (out / "chunks").iterdir()] == ["000000.npz"]
    with pytest.raises(BatchFolderError, match="2 of its 3 chunks of 4 runs are missing"):
        eb.load_batch(out)
    kept = (out / "run_2.sto").stat().st_mtime_ns
    told = []
    resumed = eb.simulate_batch(**arguments(RUNS), out=out, progress=lambda *at: told.append(at[0]))
    assert told == [4, 8, 10]
    assert (out / "run_2.sto").stat().st_mtime_ns == kept
    identical(resumed, plain)
    assert not list(out.rglob("*.part"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"q0": np.ones((RUNS, 1))}, "another q0:"),
        ({"rtol": 1e-5, "lanes": 1}, "another lanes, rtol:"),
        ({"model": pendulum(2.0)}, "another model:"),
        ({"tau": lambda t, q, qd, c: -2 * c * qd}, "another tau:"),
        ({"batch_size": 5}, "another batch_size:"),
        ({"format": "zarr"}, "another format:"),
    ],
)
def test_other_inputs_are_refused(tmp_path, changed, words):
    out = tmp_path / "batch"
    if "format" in changed:
        pytest.importorskip("zarr")
    eb.simulate_batch(**arguments(RUNS), out=out)
    with pytest.raises(BatchFolderError, match=f"holds a batch with {words} give the same arg"):
        eb.simulate_batch(**arguments(RUNS) | changed, out=out)


def test_folders_that_hold_something_else(tmp_path):
    (tmp_path / "notes.txt").write_text("keep me")
    with pytest.raises(BatchFolderError, match="is not empty and holds no batch"):
        eb.simulate_batch(**arguments(RUNS), out=tmp_path)
    with pytest.raises(BatchFolderError, match=r"there is no manifest\.json"):
        eb.load_batch(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(BatchFolderError, match="is not the manifest of a batch"):
        eb.load_batch(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"kind": "empbody batch", "version": 9}))
    with pytest.raises(BatchFolderError, match="is of version 9"):
        eb.load_batch(tmp_path)


def test_fingerprints():
    """Equal for equal numbers and code, whatever object holds them; else not."""

    def with_gain(gain):
        return lambda t: gain * t

    assert fingerprint(pendulum()) == fingerprint(pendulum())
    assert fingerprint(pendulum()) != fingerprint(pendulum(1.0 + 1e-15))
    assert fingerprint(with_gain(1.0)) == fingerprint(with_gain(1.0))
    assert fingerprint(with_gain(1.0)) != fingerprint(with_gain(2.0))
    assert fingerprint(np.ones(2)) != fingerprint(np.ones((2, 1)))
    assert fingerprint({"a": 1}) != fingerprint({"b": 1})
    assert fingerprint(damping) != fingerprint(with_gain)
    assert len({fingerprint(x) for x in (None, 0, 0.0, False, "", b"", (), [])}) == 8
    assert os.sep not in fingerprint(damping)
