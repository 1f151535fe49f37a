"""Every example runs, and its figures are right where something is known."""

import importlib.util
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

FOLDER = pathlib.Path(__file__).parents[1] / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_four_bar(found):
    assert found["q"].shape == (5, 1)
    l3, step = 5.0**0.5, 1e-5
    slope = (height_of_p(l3 + step) - height_of_p(l3 - step)) / (2 * step)
    assert abs(float(found["slope"]) - slope) < 1e-8


def height_of_p(l3: float) -> float:
    """Of the four-bar at q = 0.5 with a third bar of length l3, with SciPy."""

    def closure(angles):
        a, b, c = angles
        return [
            2 * np.sin(a) + 2 * np.sin(b) - 0.5,
            2 * np.sin(b) + l3 * np.sin(c) + 0.5,
            2 * np.cos(a) + 4 * np.cos(b) + l3 * np.cos(c) - 5.0,
        ]

    a, b, c = scipy.optimize.fsolve(closure, np.cumsum([1.42, -2.25, 1.28]), xtol=1e-14)
    return 2 * np.sin(a) + 4 * np.sin(b) + 5.0**0.5 / 2 * np.sin(c)


def check_five_bar(found):
    assert found["q"].shape == (2, 5, 2)
    np.testing.assert_allclose(found["projection"], found["implicit"], rtol=1e-11)
    np.testing.assert_allclose(found["molecule"], found["implicit"], rtol=1e-7)
    assert float(jnp.max(found["drift"])) < 1e-6


def check_squeezer(found):
    assert abs(float(found["q"][-1, 0]) + 0.05478797217261769) < 1e-10
    assert np.all(np.diff(found["ends"]) > 0)
    assert float(found["slope"]) > 0


def check_own_linkage(found):
    assert found["crank"].shape == (5, 1)
    assert found["finger"].shape == (5, 2)


def check_elbow(found):
    assert found["lengths"].shape == (71, 2)
    assert found["arms"].shape == (71, 2)
    assert np.all(np.isfinite(found["slope"]))
    # The flexor shortens while the elbow bends, the extensor lengthens.
    assert found["lengths"][-1, 0] < found["lengths"][0, 0]
    assert found["lengths"][-1, 1] > found["lengths"][0, 1]


def check_fitting(found):
    mean, _, with_prior = found["errors"]
    assert with_prior < 2.0 < mean  # deg
    assert found["before"].shape == found["after"].shape == (5, 2)


def check_batch(found):
    assert found["q"].shape == (6, 5, 1)
    assert found["failed"].size == 0
    np.testing.assert_array_equal(found["again"], found["q"])
    assert np.ptp(found["q"][:, -1]) > 0.1  # no run is another's copy
    assert np.all(found["arms"][:, 0, 0] > 0)  # the flexor flexes
    assert np.all(found["arms"][:, 0, 1] < found["arms"][:, 0, 0])


def check_shoulder(found):
    assert found["forces"].shape == (5, 14)
    np.testing.assert_allclose(np.rad2deg(found["q"][:, 1]), [10, 55, 100, 55, 10], atol=1e-6)
    # The elevation's torque carries the arm, muscles only pull, and 90° of plane turn the scapula.
    assert np.all(found["torques"][:, 1] > 0)
    assert np.all(found["forces"] >= 0)
    assert np.max(np.abs(found["turn"])) > 5


def check_reach_policy(found):
    assert found["through the simulation"][0] > found["untrained"][0] + 0.5
    assert found["returns from rewards only"].shape == (2,)


CASES = {
    "batch": ({"runs": 6, "duration": 0.3, "rows": 5}, check_batch),
    "four_bar": ({"duration": 0.1, "rows": 5}, check_four_bar),
    "five_bar": ({"duration": 0.1, "rows": 5, "starts": 2}, check_five_bar),
    "squeezer": ({"duration": 0.001, "rows": 5, "starts": 2}, check_squeezer),
    "elbow": ({"duration": 0.2, "rows": 5}, check_elbow),
    "fitting": ({"subjects": 8, "rows": 5}, check_fitting),
    "own_linkage": ({"duration": 0.1, "rows": 5}, check_own_linkage),
    "reach_policy": (
        {
            "updates": 12,
            "batch": 8,
            "plain_updates": 2,
            "plain_batch": 8,
            "horizon": 8,
            "figure": None,
        },
        check_reach_policy,
    ),
    "shoulder": ({"rows": 5, "wrapping": False}, check_shoulder),
}
SLOW = ("batch", "elbow", "fitting", "five_bar", "reach_policy", "squeezer")


def test_every_example_is_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(CASES)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES]
)
def test_example(name):
    options, check = CASES[name]
    found = load(name).main(**options)
    for value in found.values():
        assert np.all(np.isfinite(value))
    check(found)


@pytest.mark.slow
def test_shoulder_as_it_stands():
    check_shoulder(load("shoulder").main(rows=5))


def test_figure_of_learning_curves(tmp_path):
    module = load("reach_policy")
    curve = [np.array([-70.0, -20.0, -9.0]), np.array([1.0, 2.0, 4.0])]
    figure = module.draw({"one way": curve, "another": curve}, -71.0)
    module.viz.save(figure, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000
