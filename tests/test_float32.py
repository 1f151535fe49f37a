"""Single precision, in a process of its own: what docs/float32.md says holds."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = pathlib.Path(__file__).with_name("_in_precision.py")


def run(bits):
    command = [sys.executable, str(PROGRAM), bits]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_single_precision_holds_1e_4():
    double, single = run("64"), run("32")
    assert double["kinds"] == ["float64"]
    assert single["kinds"] == ["float32"]
    for name, numbers in double["found"].items():
        found, wanted = np.asarray(single["found"][name]), np.asarray(numbers)
        assert np.max(np.abs(found - wanted)) < 1e-4 * np.max(np.abs(wanted)), name
    for name, words in single["refused"].items():
        assert double["refused"][name] is None
        assert "needs double precision" in words
