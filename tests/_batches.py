"""Small models and batches of them, for the tests of batches and the processes they start."""

import jax.numpy as jnp
import numpy as np

import empbody as eb

TS = np.linspace(0.0, 0.6, 4)


def pendulum(mass: float = 1.0, length: float = 0.5) -> eb.Model:
    rod = eb.Body(
        "rod",
        "ground",
        eb.Revolute((0, 0, 1)),
        mass,
        (0, -length, 0),
        (1e-3, 1e-3, 1e-3),
    )
    return eb.Model.build(("angle",), [rod], ranges={"angle": (-100.0, 100.0)})


def starts(runs: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return rng.uniform(-1.0, 1.0, (runs, 1)), rng.uniform(-3.0, 3.0, (runs, 1))


def damping(t, q, qd, coefficient):
    return -coefficient * qd


def arguments(runs: int = 10) -> dict:
    """Of a small batch, the same in every process."""
    q0, qd0 = starts(runs)
    return {
        "model": pendulum(),
        "q0": q0,
        "qd0": qd0,
        "ts": TS,
        "tau": damping,
        "parameters": np.linspace(0.0, 0.1, runs),
        "batch_size": 4,
        "lanes": 2,
        "rtol": 1e-6,
        "atol": 1e-6,
    }


def forearm(tendon: str) -> eb.Model:
    """With a flexor, the upper arm hanging."""
    flexor = eb.Muscle(
        "flexor",
        [eb.PathPoint("ground", (0.02, 0.0, 0)), eb.PathPoint("fore", (0.01, -0.04, 0))],
        max_isometric_force=435.0,
        optimal_fibre_length=0.12,
        tendon_slack_length=0.19,
        tendon=tendon,
    )
    joint = eb.Revolute((0, 0, 1), (0, -0.3, 0))
    fore = eb.Body("fore", "ground", joint, 1.5, (0, -0.12, 0), (0.008, 0.001, 0.008))
    return eb.Model.build(("elbow",), [fore], muscles=[flexor])


def ramp(t, q, qd, parameters):
    """Excitation that rises from one level to another."""
    low, high = parameters["low"], parameters["high"]
    return jnp.clip(low + (high - low) * t / 0.2, 0.0, 1.0)[None]
