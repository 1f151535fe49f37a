"""Lengths and moment arms of 15 shoulder muscles on coupled joints, against OpenSim."""

import csv
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _holzbaur import COORDINATES, FOLDER, MUSCLES, holzbaur

import empbody as eb

FULL = pathlib.Path(__file__).parents[2] / "shared" / "reference" / "shoulder"
"""Whole sweeps at 1 degree, where they are at hand."""
SWEEPS = {
    "sweep_shoulder_elv": (0.0, None, 0.0),
    "sweep_elv_angle": (None, 0.0, 0.0),
    "offzero_elv_angle": (None, 60.0, -30.0),
}


BATCH = 42
"""Poses at a time, always as many, so that each model compiles once."""


@eqx.filter_jit
def batch(model, q):
    return jax.vmap(lambda q: (eb.path_lengths(model, q), eb.moment_arms(model, q)))(q)


def evaluate(model, q):
    """Lengths and moment arms at all poses."""
    missing = -len(q) % BATCH
    padded = np.concatenate([q, np.tile(q[:1], (missing, 1))])
    parts = [batch(model, jnp.asarray(part)) for part in padded.reshape(-1, BATCH, 3)]
    return tuple(np.concatenate(blocks)[: len(q)] for blocks in zip(*parts, strict=True))


@pytest.fixture(scope="module", params=["points", "bodies"])
def model(request):
    return holzbaur(moving=request.param)


def read(path):
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def expected(table):
    lengths = np.stack([table[f"len_{m}"] for m in MUSCLES], axis=1)
    arms = [np.stack([table[f"ma_{c}_{m}"] for m in MUSCLES], axis=1) for c in COORDINATES]
    return lengths, np.stack(arms, axis=1)


def poses(table):
    return np.radians(np.stack([table[f"{c}_deg"] for c in COORDINATES], axis=1))


def test_sizes(model):
    assert model.muscle_names == MUSCLES
    assert (model.nq, model.nm) == (3, 15)
    assert model.nj in (14, 56)


def test_without_wrapping_equals_opensim(model):
    table = read(FOLDER / "nowrap.csv")
    for got, known in zip(evaluate(model, poses(table)), expected(table), strict=True):
        np.testing.assert_allclose(got, known, rtol=0, atol=1e-13)


def test_sliding_points_and_sliding_bodies_agree():
    low, high = holzbaur().lower, holzbaur().upper
    q = jax.random.uniform(jax.random.key(4), (BATCH, 3), minval=low, maxval=high)
    pairs = zip(
        evaluate(holzbaur(moving="points"), q), evaluate(holzbaur(moving="bodies"), q), strict=True
    )
    for points, bodies in pairs:
        np.testing.assert_allclose(points, bodies, rtol=0, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("sweep", SWEEPS)
def test_whole_sweeps_without_wrapping(model, sweep):
    path = FULL / f"ma_holzbaur_nowrap_{sweep}.csv"
    if not path.exists():
        pytest.skip("the whole sweeps are not at hand")
    table = read(path)
    for name, value in zip(COORDINATES, SWEEPS[sweep], strict=True):
        table[f"{name}_deg"] = table["deg"] if value is None else 0 * table["deg"] + value
    for got, known in zip(evaluate(model, poses(table)), expected(table), strict=True):
        np.testing.assert_allclose(got, known, rtol=0, atol=1e-13)
