"""Single precision, in a process of its own: what docs/float32.md says holds."""

import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

import empbody as eb

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


def ball(kind):
    """A pendulum whose string slides over a surface."""
    bob = eb.Body("bob", joint=eb.Revolute((0, 0, 1)), mass=1.0, com=(0, -1.0, 0))
    points = [eb.PathPoint("ground", (0.1, 0.1, 0)), eb.PathPoint("bob", (0.1, -0.5, 0))]
    string = eb.Path("string", points, wraps=[eb.Wrap("ball")])
    return eb.Model.build(("angle",), [bob], muscles=[string], surfaces=[kind])


def test_what_is_doubtful_in_single_precision_is_said():
    round_one = eb.WrapEllipsoid("ball", "ground", (0.05, 0.06, 0.07))
    ball(round_one)
    eb.models.pendulum_chain(10)
    with jax.enable_x64(False):
        ball(eb.WrapSphere("ball", "ground", 0.05))
        eb.models.pendulum_chain(3)
        with pytest.warns(UserWarning, match=r"ellipsoids and tori \('ball'\).*jax_enable_x64"):
            ball(round_one)
        with pytest.warns(UserWarning, match="forward dynamics of 10 bodies in a chain"):
            eb.models.pendulum_chain(10)
