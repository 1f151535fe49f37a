"""The peers of the benchmarks compute what ours compute."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _holzbaur import holzbaur

import empbody as eb
from empbody.bench._moment_arms import opensim_calls, poses
from empbody.bench._opensim import OpenSimShoulder


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


def test_a_missing_peer_is_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "opensim", None)
    assert opensim_calls(poses(1)) is None
