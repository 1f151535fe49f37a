"""Batches: runs on lanes give what single simulations give; stacks; maps; errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _batches import TS, arguments, damping, forearm, pendulum, ramp, starts

import empbody as eb
from empbody.batch import stack_size
from empbody.simulation import SimulationStatus

RUNS = 11


def same(batch: eb.Batch, singles: eb.Solution, rtol: float = 1e-9) -> None:
    """Every array of every run, against a vmapped `simulate`."""
    for i in range(len(batch)):
        mine, theirs = batch[i], jax.tree.map(lambda x, i=i: np.asarray(x)[i], singles)
        assert jax.tree.structure(mine) == jax.tree.structure(theirs)
        for (path, a), b in zip(
            jax.tree_util.tree_leaves_with_path(mine), jax.tree.leaves(theirs), strict=True
        ):
            message = f"run {i}: {jax.tree_util.keystr(path)}"
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-11, err_msg=message)


def vmapped(function, *arrays):
    """Of a simulation whose max_steps is no array: the same for all runs."""
    singles = jax.jit(jax.vmap(function))(*arrays)
    stats = {k: jnp.broadcast_to(v, arrays[0].shape[:1]) for k, v in singles.stats.items()}
    return eqx.tree_at(lambda s: s.stats, singles, stats)


STOP = eb.CoordinateLimit("angle", lower=-0.5)
OPTIONS = {
    "event": STOP,
    "monitors": ("energy",),
    "rtol": 1e-7,
    "atol": 1e-7,
    "max_steps": 33,
}


@pytest.fixture(scope="module")
def troubled():
    """Starts of which some stop at a limit, one is NaN, one out of range, and some need more
    steps than there are."""
    q0, qd0 = starts(RUNS)
    q0[3], q0[5], q0[7], qd0[7] = np.nan, 500.0, 0.0, 40.0
    return q0, qd0


@pytest.fixture(scope="module")
def batch(troubled):
    q0, qd0 = troubled
    return eb.simulate_batch(pendulum(), q0, qd0, TS, batch_size=6, lanes=4, **OPTIONS)


def test_runs_are_as_single_simulations(batch, troubled):
    model = pendulum()
    singles = vmapped(
        lambda q, qd: eb.simulate(model, q, qd, TS, throw=False, **OPTIONS), *troubled
    )
    same(batch, singles)
    kinds = {SimulationStatus[solution.status] for solution in batch}
    assert len(kinds) >= 4  # done, event, bad start, out of steps
    assert batch.array("q").shape == (RUNS, TS.size, 1)
    assert batch.array("monitors/energy").shape == (RUNS, TS.size)


def test_failures_are_named(batch):
    assert {3, 5, 7} <= set(batch.failed)
    assert np.all(batch.succeeded == np.array([bool(s.succeeded) for s in batch]))
    assert "q0 is NaN in coordinate 'angle'" in batch.reason(3)
    assert "outside its range" in batch.reason(5)
    assert "ran out of 33 steps" in batch.reason(7)
    assert batch.reason(0) is None
    assert f"{RUNS} runs, {len(batch.failed)} failed" in repr(batch)
    with pytest.raises(IndexError, match=f"run {RUNS} of a batch of {RUNS}"):
        batch[RUNS]
    np.testing.assert_array_equal(batch[-1].q, batch[RUNS - 1].q)


def test_throw_names_the_first_failure(troubled):
    q0, qd0 = troubled
    with pytest.raises(eb.SimulationError, match=r"3 of 11 runs failed; run 3: q0 is NaN"):
        eb.simulate_batch(pendulum(), q0, qd0, TS, batch_size=6, lanes=4, throw=True, **OPTIONS)


@pytest.mark.slow
def test_results_do_not_depend_on_lanes_and_chunks(batch, troubled):
    q0, qd0 = troubled
    other = eb.simulate_batch(pendulum(), q0, qd0, TS, batch_size=5, lanes=1, **OPTIONS)
    for name in ("q", "qd", "t_final", "status", "stats/num_steps", "reached"):
        np.testing.assert_allclose(other.array(name), batch.array(name), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("tendon", ["rigid", pytest.param("elastic", marks=pytest.mark.slow)])
def test_muscles(tendon):
    model = forearm(tendon)
    q0, qd0 = 0.5 + 0.2 * starts(5)[0], np.zeros((5, 1))
    levels = {"low": np.linspace(0.02, 0.3, 5), "high": np.linspace(0.6, 0.1, 5)}
    ts = np.linspace(0.0, 0.2, 3)
    given = {"rtol": 1e-5, "atol": 1e-6}
    found = eb.simulate_batch(
        model, q0, qd0, ts, excitation=ramp, parameters=levels, batch_size=5, lanes=2, **given
    )

    def single(q, qd, levels):
        def excitation(t, q, qd):
            return ramp(t, q, qd, levels)

        return eb.simulate(model, q, qd, ts, excitation=excitation, throw=False, **given)

    same(found, vmapped(single, q0, qd0, levels), rtol=1e-7)
    assert found[2].muscle_outputs(model).tendon_force.shape == (3, 1)


@pytest.mark.slow
def test_implicit_solver_and_fixed_steps():
    q0, qd0 = starts(3)
    for given in (
        {"solver": "trbdf2", "rtol": 1e-4, "atol": 1e-4},
        {"fixed_step": 0.05},
        {"fixed_step": np.linspace(0.0, 0.6, 9)},
    ):
        found = eb.simulate_batch(pendulum(), q0, qd0, TS, lanes=2, **given)
        model = pendulum()
        singles = vmapped(
            lambda q, qd, given=given, model=model: eb.simulate(
                model, q, qd, TS, throw=False, **given
            ),
            q0,
            qd0,
        )
        same(found, singles)


def test_stacked_models_and_model_axes():
    masses = np.array([0.5, 1.0, 2.0])
    models = [pendulum(mass, 0.4 + 0.1 * mass) for mass in masses]
    stack = eb.stack_models(models)
    q0, qd0 = starts(3)
    torque = jnp.array([0.3])
    given = {"tau": torque, "rtol": 1e-7, "atol": 1e-7, "lanes": 2}
    found = eb.simulate_batch(stack, q0, qd0, TS, **given)
    for i, model in enumerate(models):
        single = eb.simulate(model, q0[i], qd0[i], TS, tau=torque, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(found[i].q, single.q, rtol=1e-9)
    assert not np.allclose(found[0].q, found[2].q)

    # the same numbers, with all but two arrays shared
    base = models[0]
    axes = eqx.tree_at(
        lambda m: (m.mass, m.com), jax.tree.map(lambda _: None, base), (0, 0),
        is_leaf=lambda x: x is None,
    )  # fmt: skip
    partly = eqx.tree_at(lambda m: (m.mass, m.com), base, (stack.mass, stack.com))
    again = eb.simulate_batch(partly, q0, qd0, TS, model_axes=axes, **given)
    np.testing.assert_allclose(again.array("q"), found.array("q"), rtol=1e-9)


def test_stacks_can_be_taken_apart_and_mapped():
    models = [pendulum(mass) for mass in (0.5, 1.0)]
    stack = eb.stack_models(models)
    assert stack_size(stack) == 2
    assert stack_size(models[0]) is None
    for model, back in zip(models, eb.unstack_models(stack), strict=True):
        assert eqx.tree_equal(model, back)
    q = jnp.array([[0.2], [0.3]])
    stacked = jax.vmap(eb.mass_matrix)(stack, q)
    each = jnp.stack([eb.mass_matrix(m, x) for m, x in zip(models, q, strict=True)])
    np.testing.assert_allclose(stacked, each, rtol=1e-14)
    np.testing.assert_allclose(eb.map_batch(eb.mass_matrix, stack, q), each, rtol=1e-14)
    with pytest.raises(ValueError, match="one model, not a stack"):
        eb.unstack_models(models[0])


def two_rods():
    rod = {"mass": 1.0, "com": (0, -0.5, 0), "inertia": (1e-3, 1e-3, 1e-3)}
    first = eb.Body("rod", "ground", eb.Revolute((0, 0, 1)), **rod)
    return eb.Model.build(("angle",), [first, eb.Body("b", "rod", eb.Weld(), **rod)])


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([], "no models to stack"),
        ([two_rods()], r"models 0 and 1 cannot be stacked: model\.\w+ has the shapes"),
        ([pendulum(), forearm("rigid")], r"models 0 and 2 cannot be stacked: model\.\w+"),
    ],
)
def test_models_that_cannot_be_stacked(others, words):
    models = [pendulum(), *others] if others else []
    with pytest.raises(ValueError, match=words):
        eb.stack_models(models)


def test_other_names_cannot_be_stacked():
    renamed = eqx.tree_at(lambda m: m.mass, pendulum(), jnp.array([2.0]))
    object.__setattr__(renamed, "coordinate_names", ("knee",))
    with pytest.raises(ValueError, match=r"coordinate_names is \('angle',\) and \('knee',\)"):
        eb.stack_models([pendulum(), renamed])


def test_lanes_are_refilled():
    """Runs of very different lengths: under vmap all would wait for the longest."""
    runs = 96
    q0, qd0 = starts(runs)
    ends = np.random.default_rng(1).uniform(0.05, 3.0, runs)
    ts = np.linspace(0.0, 1.0, 4) * ends[:, None]
    found = eb.simulate_batch(pendulum(), q0, qd0, ts, lanes=4, batch_size=96)
    steps = found.stats["num_steps"]
    assert 1.0 - steps.mean() / steps.max() > 0.3
    assert found.stats["waiting_fraction"] < 0.15
    assert found.stats["lane_steps"] >= steps.sum()
    np.testing.assert_allclose(found.array("t_final"), ends, rtol=1e-14)


def test_new_numbers_do_not_compile_again():
    traces = []

    def tau(t, q, qd, coefficient):
        traces.append(1)
        return damping(t, q, qd, coefficient)

    given = arguments(6) | {"tau": tau}
    eb.simulate_batch(**given)
    before = len(traces)
    given["q0"] = given["q0"] + 0.1
    given["model"] = pendulum(2.0)
    eb.simulate_batch(**given | {"rtol": 1e-5})
    assert before > 0
    assert len(traces) == before


def test_map_batch_in_chunks():
    model = forearm("rigid")
    q = np.linspace(0.1, 1.0, 7)[:, None]
    told = []
    arms = eb.map_batch(
        eb.moment_arms, model, q, batch_size=3, progress=lambda done, total: told.append(done)
    )
    np.testing.assert_allclose(arms, jax.vmap(lambda x: eb.moment_arms(model, x))(q), rtol=1e-12)
    assert told == [0, 3, 6, 7]
    tau = eb.map_batch(eb.inverse_dynamics, model, q, 2 * q, 3 * q, batch_size=4)
    each = jax.vmap(lambda a: eb.inverse_dynamics(model, a, 2 * a, 3 * a))(q)
    np.testing.assert_allclose(tau, each, rtol=1e-12)
    with pytest.raises(ValueError, match="one number of samples is expected"):
        eb.map_batch(eb.inverse_dynamics, model, q, q[:3], q)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"q0": np.zeros((9, 1))}, "numbers of runs do not agree: q0 9, qd0 10, parameters 10"),
        ({"q0": np.zeros((10, 2))}, r"q0 has shape \(2,\) for 1 coordinates"),
        ({"ts": TS[::-1]}, "ts must increase"),
        ({"ts": np.tile(TS, (10, 1)) * np.r_[1, -1, np.ones(8)][:, None]}, "run 1: ts must"),
        ({"excitation": np.ones(1)}, "the model has no muscles"),
        ({"ts": np.tile(TS, (10, 1)), "fixed_step": TS}, "times to step to suit one ts"),
        ({"lanes": 0}, "lanes = 0"),
        ({"format": "hdf5"}, r"there is no format 'hdf5'; choose from \['sto', 'zarr'\]"),
        ({"parameters": np.ones(())}, "needs a leading axis"),
        ({"tau": lambda t: t}, "a function of the batch takes the arguments"),
        ({"muscle_state": np.ones(3)}, "muscle_state is a ndarray"),
        ({"model_axes": 1}, "model_axes holds 1"),
    ],
)
def test_wrong_arguments(changed, words):
    with pytest.raises(ValueError, match=words):
        eb.simulate_batch(**arguments() | changed)


def test_tracing_is_refused():
    with pytest.raises(ValueError, match="cannot be traced"):
        jax.jit(lambda q: eb.simulate_batch(pendulum(), q, q, TS).array("q"))(np.ones((2, 1)))


def test_nothing_that_differs():
    with pytest.raises(ValueError, match="nothing differs between runs"):
        eb.simulate_batch(pendulum(), [0.1], [0.0], TS)


def test_excitation_of_a_run_out_of_range():
    levels = np.array([[0.1], [1.5]])
    with pytest.raises(ValueError, match=r"run 1: excitation of muscle 'flexor' is 1\.5"):
        eb.simulate_batch(forearm("rigid"), [0.5], [0.0], TS, excitation=levels)


@pytest.mark.parametrize("function", [eb.mass_matrix, eb.gravity, eb.body_transforms])
def test_a_stack_of_models_is_not_taken_for_one(function):
    stack = eb.stack_models([pendulum(), pendulum()])
    with pytest.raises(ValueError, match=r"a stack of 2 models.*jax\.vmap"):
        function(stack, jnp.zeros(stack.nq))
