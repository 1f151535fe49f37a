"""Batches over several devices and several processes: the same numbers as on one device."""

import os
import pathlib
import socket
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from _batches import arguments

import empbody as eb

pytestmark = pytest.mark.slow
HERE = str(pathlib.Path(__file__).parent)
RUNS = 22
HEAD = """
    import sys
    import jax
    jax.config.update("jax_enable_x64", True)
    sys.path.insert(0, sys.argv[1])
    import numpy as np
    from _batches import arguments, pendulum
    import empbody as eb
"""
FOUR = """
    assert len(jax.devices()) == 4
    given = arguments(22) | {"batch_size": 8}
    one = eb.simulate_batch(**given)
    four = eb.simulate_batch(**given, devices=jax.devices())
    assert len(four) == 22
    for name in ("q", "qd", "t_final", "status", "stats/num_steps"):
        np.testing.assert_array_equal(one.array(name), four.array(name))
    q = np.linspace(-1, 1, 10)[:, None]
    single = eb.map_batch(eb.mass_matrix, pendulum(), q, batch_size=8)
    spread = eb.map_batch(eb.mass_matrix, pendulum(), q, batch_size=8, devices=jax.devices())
    np.testing.assert_array_equal(single, spread)
    print("identical")
"""
TWO = """
    jax.distributed.initialize(sys.argv[2], num_processes=2, process_id=int(sys.argv[3]))
    assert jax.process_count() == 2
    done = []
    found = eb.simulate_batch(
        **arguments(22), devices=jax.devices(), out=sys.argv[4], format=sys.argv[5],
        progress=lambda now, total: done.append(now),
    )
    assert len(found) == 22
    try:
        eb.simulate_batch(**arguments(22))
    except ValueError as error:
        assert "several processes" in str(error)
    else:
        raise AssertionError
    print("shares", done[-1])
"""


def start(program: str, *given: str, **environment: str) -> subprocess.Popen:
    text = textwrap.dedent(HEAD) + textwrap.dedent(program)
    return subprocess.Popen(
        [sys.executable, "-c", text, HERE, *given],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen) -> str:
    try:
        words, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return words


def test_four_devices_give_what_one_gives():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    assert "identical" in finished(start(FOUR, XLA_FLAGS=flags))


@pytest.mark.parametrize("format", ["sto", "zarr"])
def test_two_processes_share_a_folder(tmp_path, format):
    if format == "zarr":
        pytest.importorskip("zarr")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    out = str(tmp_path / "batch")
    both = [start(TWO, address, str(k), out, format) for k in range(2)]
    shares = [int(finished(process).split()[-1]) for process in both]
    assert shares == [12, 10]  # every second chunk of four runs each
    alone = eb.simulate_batch(**arguments(RUNS))
    together = eb.load_batch(out)
    for name in ("q", "qd", "t_final", "status"):
        np.testing.assert_array_equal(together.array(name), alone.array(name))
