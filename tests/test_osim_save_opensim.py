"""Models with most numbers changed, written back: OpenSim's poses and lengths are ours."""

import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _osim_edits import edited

import empbody as eb
from empbody.io.osim._save_check import samples

pytest.importorskip("opensim", reason="OpenSim (pip: opensim) is missing")

HERE = pathlib.Path(__file__).parent
SHARED = HERE.parents[1] / "shared" / "models"
QUICK = {"stem_10902", "beam_20303", "leg_30000", "backwards_30500", "backwards_40000"}
OWN = sorted((HERE / "osim").glob("*.osim"))
PUBLIC = sorted(SHARED.glob("*.osim"))


@eqx.filter_jit
def ours(model, q):
    def at(q):
        mass = eb.mass_matrix(model, q) if model.topology.massive else jnp.zeros((0, 0))
        return eb.body_transforms(model, q)[:, :3], eb.path_lengths(model, q), mass

    return jax.vmap(at)(q)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if path.stem in QUICK else [pytest.mark.slow], id=path.stem)
        for path in (*OWN, *PUBLIC)
    ],
)
def test_opensim_opens_and_agrees(path, tmp_path):
    from empbody.cli._opensim_peer import OpenSimPeer

    model = edited(eb.load(path, wrapping=False))
    assert eb.save(model, tmp_path / path.name) == ()
    context = model.source.context
    held = {name: context.constant(name) for name in model.source.spec.coordinates}
    held = {name: value for name, value in held.items() if value is not None}
    peer = OpenSimPeer(tmp_path / path.name, model.coordinate_names, held, wrapping=False)
    poses = samples(model, 3)
    for q, bodies, lengths, mass in zip(np.asarray(poses), *ours(model, poses), strict=True):
        assert peer.pose(q) < 1e-12
        theirs = peer.transforms()
        for name, place in zip(model.body_names, bodies, strict=True):
            np.testing.assert_allclose(theirs[name], place, rtol=0, atol=1e-10, err_msg=name)
        np.testing.assert_allclose(peer.lengths(model.muscle_names), lengths, rtol=0, atol=1e-10)
        if mass.size:
            size = float(np.abs(mass).max())
            np.testing.assert_allclose(peer.mass_matrix(), mass, rtol=0, atol=1e-10 * size)
