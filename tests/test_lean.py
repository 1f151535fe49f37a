"""The plain loop of steps against Diffrax's own, which adjoint="direct" runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.simulation import _course, _lean
from empbody.solvers import SOLVERS

TIMES = np.array([0.0, 0.05, 0.06, 0.21, 0.4])
KINDS = {
    "adaptive": {"rtol": 1e-7, "atol": 1e-9},
    "fixed": {"fixed_step": 0.03},
    "times": {"fixed_step": np.array([0.0, 0.01, 0.03, 0.1, 0.13, 0.2, 0.27, 0.33, 0.4])},
}


@pytest.fixture(scope="module")
def model():
    return eb.models.pendulum_chain(2)


Q0 = jnp.array([0.4, -0.3])


def run(model, q0, **more):
    more = {"throw": False, "max_steps": 300} | more
    return eb.simulate(model, q0, jnp.zeros(2), TIMES, **more)


def test_which_solvers_take_the_plain_loop():
    taken = {name for name, solver in SOLVERS.items() if _lean.applies(solver)}
    assert {"tsit5", "dopri5", "rkf45"} <= taken
    assert not taken & {"kvaerno5", "trbdf2"}


@pytest.mark.parametrize("kind", KINDS)
def test_steps_and_rows_are_diffraxs(model, kind):
    options = KINDS[kind]
    ours, theirs = run(model, Q0, **options), run(model, Q0, adjoint="direct", **options)
    assert int(ours.stats["num_steps"]) == int(theirs.stats["num_steps"])
    assert int(ours.stats["num_rejected_steps"]) == int(theirs.stats["num_rejected_steps"])
    np.testing.assert_allclose(ours.q, theirs.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.qd, theirs.qd, rtol=0, atol=1e-11)
    assert float(ours.t_final) == 0.4


@pytest.mark.parametrize("kind", ["adaptive", "fixed"])
@pytest.mark.parametrize("slots", [4, pytest.param(128, marks=pytest.mark.slow)])
def test_gradients_are_diffraxs(model, kind, slots, monkeypatch):
    """With few slots, places are dropped on the way there and made again on the way back."""
    monkeypatch.setattr("empbody.simulation._lean_adjoint._SLOTS", slots)
    jax.clear_caches()

    def loss(model, q0, adjoint="checkpoint"):
        out = run(model, q0, adjoint=adjoint, max_steps=64, **KINDS[kind])
        return jnp.sum(out.q**2) + jnp.sum(out.qd_final)

    assert int(run(model, Q0, **KINDS[kind]).stats["num_accepted_steps"]) > slots / 16
    ours = jax.jit(jax.grad(loss, (0, 1)))(model, Q0)
    theirs = jax.jit(jax.grad(lambda m, q: loss(m, q, "direct"), (0, 1)))(model, Q0)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.slow
def test_batches_of_gradients_wait_for_the_slowest_and_agree(model):
    starts = jnp.array([[0.4, -0.3], [2.0, 1.0], [0.0, 0.0]])

    def loss(q0):
        return jnp.sum(run(model, q0, max_steps=128, **KINDS["adaptive"]).q ** 2)

    gradient = jax.grad(loss)
    together = jax.jit(jax.vmap(gradient))(starts)
    alone = jnp.stack([jax.jit(gradient)(q0) for q0 in starts])
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-12)


def test_functions_that_hold_what_is_differentiated(model):
    def loss(gain, adjoint):
        out = run(model, Q0, tau=lambda t, q, qd: -gain * q, adjoint=adjoint, fixed_step=0.05)
        return jnp.sum(out.q**2)

    ours = jax.grad(lambda gain: loss(gain, "checkpoint"))(1.5)
    theirs = jax.grad(lambda gain: loss(gain, "direct"))(1.5)
    assert float(ours) == pytest.approx(float(theirs), rel=1e-9)


def test_running_out_of_steps_is_reported(model):
    out = run(model, Q0, max_steps=3, rtol=1e-10, atol=1e-10)
    assert bool(out.status == eb.simulation.SimulationStatus.out_of_steps)
    assert not bool(out.reached[-1])


def test_what_needs_diffraxs_loop_gets_it(model):
    asked = []
    plain = _course._is_plain

    def watched(options):
        asked.append(plain(options))
        return asked[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_course, "_is_plain", watched)
        jax.clear_caches()
        run(model, Q0, dense=True)
        run(model, Q0, event=eb.CoordinateLimit(model.coordinate_names[0], upper=3.0))
        run(model, Q0, solver="kvaerno5")
        run(model, Q0, adjoint="forward")
    assert asked == [False] * 4
