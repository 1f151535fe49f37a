"""Inside other people's programs: no new traces for new numbers, no call back to Python,
and programs that can be stored and run elsewhere."""

import contextlib
import subprocess
import sys

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from _small_arm import arm, reach

import empbody as eb

TS = jnp.linspace(0.0, 0.02, 3)


@contextlib.contextmanager
def counted():
    """What JAX traces and lowers within a block, functions nested in others too."""
    seen = []

    def listen(event, seconds, **_):
        if event.endswith(("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration")):
            seen.append(event.rsplit("/", 1)[-1].removesuffix("_duration"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


STILL = eb.control.as_reference(arm(), lambda t: jnp.array([0.3, 0.5]) + 0.0 * t)
FUNCTIONS = {
    "mass_matrix": lambda m, x: eb.mass_matrix(m, x["q"]),
    "forward_dynamics": lambda m, x: eb.forward_dynamics(m, x["q"], x["qd"], x["tau"]),
    "inverse_dynamics": lambda m, x: eb.inverse_dynamics(m, x["q"], x["qd"], x["tau"]),
    "body_transforms": lambda m, x: eb.body_transforms(m, x["q"]),
    "path_lengths": lambda m, x: eb.path_lengths(m, x["q"]),
    "moment_arms": lambda m, x: eb.moment_arms(m, x["q"]),
    "muscle_forces": lambda m, x: eb.muscle_forces(m, x["q"], x["qd"], x["level"]),
    "share_forces": lambda m, x: (
        eb.share_forces(m, x["q"], x["qd"], x["tau"], reserves=1.0).activations
    ),
    "simulate": lambda m, x: (
        eb.simulate(m, x["q"], x["qd"], TS, tau=x["tau"], rtol=x["rtol"], throw=False).q
    ),
    "simulate_muscles": lambda m, x: (
        eb.simulate(m, x["q"], x["qd"], TS, excitation=x["level"], fixed_step=0.01, throw=False).q
    ),
    "track": lambda m, x: (
        eb.track(m, STILL, TS, gains=x["gains"], q0=x["q"], rtol=x["rtol"], throw=False).torques
    ),
}


def numbers(seed):
    """A model and arguments, every number of which depends on the seed."""
    draw = np.random.default_rng(seed)
    model = arm()
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    scaled = jax.tree.map(lambda a: a * (1.0 + 0.01 * draw.uniform()), arrays)
    return eqx.combine(scaled, rest), {
        "q": jnp.asarray(draw.uniform(0.2, 0.6, 2)),
        "qd": jnp.asarray(draw.uniform(-0.5, 0.5, 2)),
        "tau": jnp.asarray(draw.uniform(-2.0, 2.0, 2)),
        "level": jnp.asarray(draw.uniform(0.05, 0.5, 2)),
        "rtol": jnp.asarray(draw.uniform(1e-6, 1e-5)),
        "gains": jnp.asarray(draw.uniform(5.0, 10.0, 2)),
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_new_numbers_run_what_was_compiled(name):
    """As called by a user, without any jit around it."""
    function = FUNCTIONS[name]
    with counted() as first:
        one = function(*numbers(0))
    assert "jaxpr_trace" in first
    assert "jaxpr_to_mlir_module" in first
    after = numbers(1)
    with counted() as second:
        other = function(*after)
    # Only a reference is looked at each time, for its shape.
    assert second == (["jaxpr_trace"] if name == "track" else [])
    assert not np.allclose(one, other)


def compiled_text(function, *args):
    return eqx.filter_jit(function).lower(*args).as_text()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_call_back_to_python(name):
    assert "callback" not in compiled_text(FUNCTIONS[name], *numbers(0))


def test_errors_from_within_are_calls_back():
    """What the test above looks for is there where it must be."""

    def run(model, x):
        return eb.simulate(model, x["q"], x["qd"], TS, tau=x["tau"]).q

    assert "callback" in compiled_text(run, *numbers(0))


def test_loop_closures_without_calls_back():
    model = eb.models.four_bar()

    def run(model, q):
        return eb.forward_dynamics(model, q, jnp.zeros(1))

    q = jnp.array([0.5])
    assert "callback" in compiled_text(run, model, q)
    soft = eb.failing_softly(model)
    assert "callback" not in compiled_text(run, soft, q)
    np.testing.assert_array_equal(run(soft, q), run(model, q))
    assert bool(jnp.all(jnp.isnan(run(soft, jnp.array([3.0])))))  # beyond the fold


def test_environment_step():
    """One trace for all numbers, no call back."""
    env = reach()
    step = eqx.filter_jit(lambda env, state, action: env.step_or_reset(state, action))
    state, action = env.reset(jax.random.key(0)), jnp.full(2, 0.1)
    assert "callback" not in step.lower(env, state, action).as_text()
    step(env, state, action)
    heavier = eqx.tree_at(lambda e: e.model.mass, env, 2.0 * env.model.mass)
    with counted() as seen:
        one = step(env, state, action).state.q
        other = step(heavier, state, action).state.q
    assert seen == []
    assert not np.allclose(one, other)


def test_plain_jit_with_the_model_as_an_argument():
    """The recipe of docs/embedding.md."""
    model, x = numbers(0)
    arrays, rest = eqx.partition(model, eqx.is_array)

    @jax.jit
    def accelerations(arrays, q, qd):
        return eb.forward_dynamics(eqx.combine(arrays, rest), q, qd)

    expected = eb.forward_dynamics(model, x["q"], x["qd"])
    np.testing.assert_allclose(accelerations(arrays, x["q"], x["qd"]), expected, rtol=1e-12)
    slopes = jax.jit(jax.grad(lambda *a: jnp.sum(accelerations(*a))))(arrays, x["q"], x["qd"])
    assert jax.tree.structure(slopes) == jax.tree.structure(arrays)


FRESH = """
import sys
import numpy as np
import jax, jax.export
jax.config.update("jax_enable_x64", True)
data = np.load(sys.argv[2])
program = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
leaves = [data[f"arg{k}"] for k in range(sum(name.startswith("arg") for name in data))]
keys = [k for k, a in enumerate(program.in_avals) if str(a.dtype).startswith("key")]
for k in keys:
    leaves[k] = jax.random.wrap_key_data(leaves[k])
args, kwargs = jax.tree.unflatten(program.in_tree, leaves)
found = jax.tree.leaves(jax.jit(program.call)(*args, **kwargs))
for k, value in enumerate(found):
    if f"out{k}" in data:
        np.testing.assert_allclose(value, data[f"out{k}"], rtol=1e-12, atol=1e-14)
assert "empbody" not in sys.modules
print(len(found))
"""


def is_key(x):
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def run_elsewhere(folder, function, *args):
    """Export, store, and run in a process that does not know empbody; returns the program."""
    program = jax.export.export(jax.jit(function))(*args)
    stored, data = folder / "program.bin", folder / "data.npz"
    stored.write_bytes(program.serialize())
    given = {
        f"arg{k}": jax.random.key_data(x) if is_key(x) else x
        for k, x in enumerate(jax.tree.leaves(args))
    }
    wanted = {
        f"out{k}": x
        for k, x in enumerate(jax.tree.leaves(jax.jit(function)(*args)))
        if not is_key(x)
    }
    np.savez(data, **given, **wanted)
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(stored), str(data)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


def split(module):
    arrays, rest = eqx.partition(module, eqx.is_array)
    return jax.tree.leaves(arrays), lambda leaves: eqx.combine(
        jax.tree.unflatten(jax.tree.structure(arrays), leaves), rest
    )


@pytest.mark.slow
def test_stored_programs_run_elsewhere(tmp_path):
    """Forward dynamics, moment arms over a surface, and an environment's step."""
    pytest.importorskip("flatbuffers", reason="JAX writes exported programs with flatbuffers")
    model, x = numbers(0)
    env = reach()
    arrays, whole = split(model)
    of_env, whole_env = split(env)
    state = env.reset(jax.random.key(0))
    states, whole_state = split(state)

    def step(of_env, states, action):
        out = whole_env(of_env).step(whole_state(states), action)
        return jax.tree.leaves(out.state), out.observation, out.reward, out.terminated

    def both(arrays, q, qd, tau):
        model = whole(arrays)
        return eb.forward_dynamics(model, q, qd, tau), eb.moment_arms(model, q)

    run_elsewhere(tmp_path, both, arrays, x["q"], x["qd"], x["tau"])
    run_elsewhere(tmp_path, step, of_env, states, jnp.full(2, 0.1))


def test_exported_for_any_batch_size():
    model, _ = numbers(0)
    arrays, whole = split(model)
    many = jax.export.symbolic_shape("b")[0]

    def accelerations(arrays, q, qd):
        return jax.vmap(lambda q, qd: eb.forward_dynamics(whole(arrays), q, qd))(q, qd)

    rows = jax.ShapeDtypeStruct((many, 2), jnp.float64)
    like = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    program = jax.export.export(jax.jit(accelerations))(like, rows, rows)
    for size in (1, 5):
        q = jnp.linspace(0.2, 0.8, 2 * size).reshape(size, 2)
        found = program.call(arrays, q, -q)
        np.testing.assert_allclose(found, accelerations(arrays, q, -q), rtol=1e-10)
