"""Gains, torques and excitations found by descent through the simulation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.control import Knots

TS = np.linspace(0.0, 0.6, 13)
COARSE = {"fixed_step": 0.02, "max_steps": 64}  # enough for a pendulum; muscles need less


class Swing(eqx.Module):
    """A pendulum's angle, with numbers to vary."""

    size: jax.Array

    def __call__(self, t):
        return 0.5 * self.size[None] * (1.0 - jnp.cos(np.pi / 0.6 * t))


@pytest.fixture(scope="module")
def pendulum():
    return eb.models.pendulum_chain(1, 0.5, 1.0)


@pytest.fixture(scope="module")
def elbow():
    """A flexor and an extensor, with activation dynamics and rigid tendons."""

    def muscle(name, points, fibre, slack):
        return eb.Muscle(
            name,
            [eb.PathPoint(*point) for point in points],
            max_isometric_force=800.0,
            optimal_fibre_length=fibre,
            tendon_slack_length=slack,
            tendon="rigid",
        )

    return eb.Model.build(
        coordinates=("flexion",),
        bodies=[
            eb.Body(
                "forearm",
                "ground",
                eb.Revolute(axis=(0, 0, 1), translation=(0.0, -0.3, 0.0)),
                1.65,
                (0.0, -0.173, 0.0),
                (0.0226, 0.002, 0.0226),
            )
        ],
        muscles=[
            muscle(
                "flexor",
                [("ground", (0.025, 0.0, 0.0)), ("forearm", (0.015, -0.045, 0.0))],
                0.1321,
                0.1923,
            ),
            muscle(
                "extensor",
                [("ground", (-0.02, -0.1, 0.0)), ("forearm", (-0.022, 0.01, 0.0))],
                0.1138,
                0.098,
            ),
        ],
    )


def test_gains_make_up_for_a_wrong_model(pendulum):
    """The plant is heavier than believed: stiffer control follows better."""
    heavy = eqx.tree_at(lambda m: m.mass, pendulum, 1.5 * pendulum.mass)
    told = []
    task = (pendulum, Swing(jnp.asarray(0.6)), TS, "gains")
    how = {"plant": heavy, "start": [5.0], "steps": 12, "learning_rate": 0.3} | COARSE
    found = eb.optimise_tracking(*task, **how, progress=lambda *x: told.append(x))
    assert found.values.shape == (1,)
    assert float(found.values[0]) > 15.0
    assert float(found.loss) < 0.1 * float(found.history[0])
    assert float(found.loss) == float(jnp.min(found.history))
    assert found.history.shape == (12,)
    assert [step for step, _, _ in told] == list(range(1, 13))
    assert told[-1][2] == float(found.loss)
    # whoever asks for much in little time is stopped early
    early = eb.optimise_tracking(*task, **how, patience=2, least_gain=0.9)
    assert early.history.shape == (3,)
    assert "within 2 steps" in early.reason
    np.testing.assert_array_equal(early.history, found.history[:3])


@pytest.mark.parametrize(
    ("how", "off"),
    [
        ({"steps": 60, "learning_rate": 0.3, "target": 1e-3}, 0.1),
        pytest.param(
            {"steps": 40, "optimiser": "lbfgs", "target": 2e-5}, 0.01, marks=pytest.mark.slow
        ),
    ],
    ids=["adam", "lbfgs"],
)
def test_torques_from_nothing(pendulum, how, off):
    """Two references at once."""
    references = [Swing(jnp.asarray(0.6)), Swing(jnp.asarray(-0.3))]
    start = np.zeros((5, 1))
    found = eb.optimise_tracking(
        pendulum, references, TS, "torques", start=start, knots=5, **how, **COARSE
    )
    assert found.values.shape == (2, 5, 1)
    assert found.errors.shape == (2, 13, 1)
    assert found.reason == "the target was reached"
    assert found.history.shape[1] < how["steps"]
    assert float(jnp.max(jnp.abs(found.errors))) < off
    assert float(jnp.max(found.loss)) <= how["target"]


@pytest.mark.slow
def test_excitations_lift_the_forearm(elbow):
    lift = eb.control.FunctionReference(
        lambda t: jnp.stack([0.8 + 0.2 * (1.0 - jnp.cos(np.pi / 0.6 * t))])
    )
    found = eb.optimise_tracking(
        elbow,
        lift,
        TS,
        "excitations",
        knots=5,
        steps=40,
        learning_rate=0.3,
        effort_weight=1e-5,
        rtol=1e-4,
        atol=1e-5,
    )
    assert found.values.shape == (5, 2)
    assert np.all((found.values > 0.0) & (found.values < 1.0))
    assert float(found.loss) < 0.02 * float(found.history[0])
    # what was found gives the same motion when simulated by itself
    again = eb.simulate(
        elbow,
        found.q[0],
        found.qd[0],
        TS,
        excitation=Knots(found.knots, found.values),
        rtol=1e-4,
        atol=1e-5,
    )
    np.testing.assert_allclose(again.q, found.q, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"free": "masses"}, "'gains', 'torques' or 'excitations'"),
        ({"free": "excitations"}, "no muscles"),
        ({"start": [1.0, 2.0]}, r"start has shape \(2,\); \(1,\) is expected for gains"),
        ({"optimiser": "magic"}, "optimiser is 'magic'"),
        ({"rate_weight": [1.0, 2.0]}, "rate_weight has shape"),
        ({"knots": 1}, "at least two"),
        ({"reference": [Swing(jnp.asarray(1.0)), lambda t: t[None]]}, "numbers only"),
    ],
)
def test_bad_input_is_refused_in_words(pendulum, change, words):
    given = {"reference": Swing(jnp.asarray(0.6)), "ts": TS, "free": "gains"} | change
    with pytest.raises(ValueError, match=words):
        eb.optimise_tracking(pendulum, **given)
