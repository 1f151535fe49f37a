"""Environments: rewards, ends of episodes, transformations, derivatives, Gymnasium."""

import builtins
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _small_arm import reach

import empbody as eb
from empbody.environments import ReachState, register, shoulder_reach, to_gymnasium

BATCH = 8


@pytest.fixture(scope="module")
def env():
    """Of a small arm, driven by torques: the shoulder's takes longer to compile."""
    return reach("torque", horizon=5)


@pytest.fixture(scope="module")
def step():
    return eqx.filter_jit(lambda env, state, action: env.step(state, action))


@pytest.fixture(scope="module")
def batched():
    """Actions along time (nt, batch, na) on a batch of fresh episodes."""

    @eqx.filter_jit
    def run(env, keys, actions):
        start = jax.vmap(env.reset)(keys)

        def one(states, action):
            out = jax.vmap(env.step_or_reset)(states, action)
            return out.state, out

        return start, jax.lax.scan(one, start, actions)[1]

    return run


def test_sizes_and_names():
    env = shoulder_reach()
    assert env.action_names == ("elv_angle", "shoulder_elv", "shoulder_rot")
    assert env.action_size == 3
    assert env.observation_size == 9
    assert env.observation_names[3:7] == (
        "elv_angle_speed",
        "shoulder_elv_speed",
        "shoulder_rot_speed",
        "elv_angle_to_go",
    )
    driven = shoulder_reach("muscles")
    assert driven.action_names[:2] == ("DELT1", "DELT2")
    assert driven.action_bounds == (0.0, 1.0)
    assert driven.observation_size == 9 + 14
    assert driven.observation_names[-1] == "LAT3_activation"


def test_an_episode_starts_at_rest_in_the_box(env):
    states = jax.vmap(env.reset)(jax.random.split(jax.random.key(3), 200))
    for posture in (states.q, states.target):
        assert bool(jnp.all((posture >= env.box[:1]) & (posture <= env.box[1:])))
        np.testing.assert_allclose(jnp.min(posture, axis=0), env.box[0], atol=0.05)
    assert not np.allclose(states.q, states.target)
    assert not np.any(states.qd)
    seen = jax.vmap(env.observe)(states)
    np.testing.assert_allclose(seen[:, 4:6], states.target - states.q, atol=1e-15)


def test_reward_and_torque_of_a_step(env, step):
    """At the target, at rest, with the torques that hold it there: only effort costs."""
    q, none = jnp.array([0.2, 0.3]), jnp.zeros(2)
    hold = eb.inverse_dynamics(env.model, q, none, none) / env.torques
    assert float(jnp.max(jnp.abs(hold))) < 1.0
    out = step(env, env.begin(q, q, jax.random.key(0)), hold)
    np.testing.assert_allclose(out.state.q, q, atol=1e-12)
    np.testing.assert_allclose(out.reward, -env.effort_weight * jnp.mean(hold**2), rtol=1e-9)
    assert not bool(out.terminated)
    assert int(out.state.steps) == 1


def test_actions_are_held_in_their_bounds(env, step):
    state = env.reset(jax.random.key(1))
    full, beyond = (step(env, state, jnp.array(a)) for a in ([1.0, 1.0], [2.0, 3.0]))
    np.testing.assert_array_equal(beyond.state.q, full.state.q)
    np.testing.assert_array_equal(beyond.reward, full.reward)
    assert not bool(beyond.terminated)
    assert bool(step(env, state, jnp.array([0.0, jnp.inf])).terminated)  # no action at all


def test_fixed_steps_against_adaptive_ones(env, step):
    """0.02 s under random torques, against Tsit5 at 1e-10."""
    keys = jax.random.split(jax.random.key(5), BATCH)
    states = jax.vmap(env.reset)(keys)
    actions = jax.random.uniform(keys[0], (BATCH, 2), minval=-1.0)
    ends = jax.vmap(lambda s, a: step(env, s, a).state.q)(states, actions)
    ts = jnp.array([0.0, env.dt])

    def exact(state, action):
        found = eb.simulate(
            env.model, state.q, state.qd, ts, tau=action * env.torques, rtol=1e-10, throw=False
        )
        return found.q_final

    wanted = jax.vmap(exact)(states, actions)
    assert float(jnp.max(jnp.abs(ends - states.q))) > 1e-2
    np.testing.assert_allclose(ends, wanted, rtol=0, atol=1e-4)


def test_episodes_are_truncated_and_start_anew(env, batched):
    keys = jax.random.split(jax.random.key(0), BATCH)
    start, out = batched(env, keys, jnp.zeros((12, BATCH, 2)))
    np.testing.assert_array_equal(np.asarray(out.truncated[:, 0]), np.arange(1, 13) % 5 == 0)
    assert not bool(jnp.any(out.terminated))
    np.testing.assert_array_equal(np.asarray(out.state.steps[:, 0]), np.arange(1, 13) % 5)
    again = jax.vmap(env.reset)(start.key)
    np.testing.assert_array_equal(out.state.q[4], again.q)
    np.testing.assert_array_equal(out.observation[4], jax.vmap(env.observe)(again))
    assert not np.allclose(out.state.target[4], start.target)


def test_what_goes_wrong_ends_the_episode_with_finite_numbers(env, step, batched):
    """Thrown about, out of every range, with actions that are not numbers."""
    state = env.reset(jax.random.key(2))
    far = eqx.tree_at(lambda s: (s.q, s.qd), state, (jnp.array([9.0, -9.0]), 1e3 * jnp.ones(2)))
    for wrong, action in ((far, jnp.ones(2)), (state, jnp.full(2, jnp.nan))):
        out = step(env, wrong, action)
        assert bool(out.terminated)
        assert all(bool(jnp.all(jnp.isfinite(x))) for x in (out.state.q, out.state.qd, out.reward))
        assert float(out.reward) < -10.0
    low, high = env.observation_bounds
    assert bool(jnp.all((out.observation >= low) & (out.observation <= high)))
    keys = jax.random.split(jax.random.key(4), BATCH)
    actions = jnp.sign(jax.random.normal(keys[0], (12, BATCH, 2)))
    _, found = batched(env, keys, actions)
    assert bool(jnp.all(jnp.isfinite(found.observation)))
    slope = jax.grad(lambda a: env.step(far, a).reward)(jnp.ones(2))
    assert bool(jnp.all(jnp.isfinite(slope)))


def test_derivatives_through_steps(env):
    """Of the return over three steps to actions and to a mass, against differences."""

    def total(scale, actions):
        other = eqx.tree_at(lambda e: e.model.mass, env, env.model.mass * scale)
        start = other.reset(jax.random.key(7))

        def one(state, action):
            out = other.step(state, action)
            return out.state, out.reward

        return jnp.sum(jax.lax.scan(one, start, actions)[1])

    actions = 0.3 * jax.random.normal(jax.random.key(8), (3, 2))
    value = jax.jit(total)
    by_scale, by_actions = jax.jit(jax.grad(total, (0, 1)))(1.0, actions)
    step = 1e-5
    difference = (value(1.0 + step, actions) - value(1.0 - step, actions)) / (2 * step)
    np.testing.assert_allclose(by_scale, difference, rtol=1e-5)
    along = jax.random.normal(jax.random.key(9), (3, 2))
    difference = (value(1.0, actions + step * along) - value(1.0, actions - step * along)) / (
        2 * step
    )
    np.testing.assert_allclose(jnp.sum(by_actions * along), difference, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("drive", ["torque", "muscles"])
def test_the_shoulder_moves(drive, batched):
    """The idle arm sinks, the driven one goes elsewhere, all stays finite."""
    env = shoulder_reach(drive, horizon=50)
    keys = jax.random.split(jax.random.key(0), 2)
    shape = (10, 2, env.action_size)
    start, idle = batched(env, keys, jnp.zeros(shape))
    _, busy = batched(env, keys, jnp.full(shape, 0.5))
    assert bool(jnp.all(idle.state.q[-1, :, 1] < start.q[:, 1]))
    assert not np.allclose(busy.state.q[-1], idle.state.q[-1])
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in (busy.observation, busy.reward))
    if drive == "muscles":
        np.testing.assert_allclose(start.muscles.activation, 0.01)
        # The last row may belong to a new episode.
        assert bool(jnp.all(busy.state.muscles.activation.max(axis=0) > 0.4))
        assert bool(jnp.all(idle.state.muscles.activation[-1] < 0.011))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"substeps": 0}, "substeps is 0 and horizon 100: at least 1"),
        ({"torques": (1.0, 2.0)}, r"torques has shape \(2,\); give three numbers"),
        ({"box": jnp.zeros((3, 2))}, r"box has shape \(3, 2\); give \(2, 3\)"),
        ({"box": [[0.0] * 3, [9.0] * 3]}, "'elv_angle' from 0 to 9 rad; the task's range is"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        shoulder_reach(**options)


def replaced(env, **new):
    fields = {name: getattr(env, name) for name in env.__dataclass_fields__}
    return eb.environments.Reach(**(fields | new))


def test_wrong_actions_and_tendons(env):
    state = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"shape \(5,\) for 2 numbers \(shoulder, elbow\)"):
        env.step(state, jnp.zeros(5))
    with pytest.raises(ValueError, match="the model has no muscles"):
        replaced(env, model=eb.models.pendulum_chain(2), drive="muscles")
    elastic = eb.models.shoulder(wrapping=False, muscles=["DELT1"], tendon="elastic")
    with pytest.raises(ValueError, match="elastic tendons are too stiff"):
        replaced(env, model=elastic, drive="muscles")


def test_gymnasium_accepts_it(env):
    gym = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    wrapped = to_gymnasium(env)
    check_env(wrapped, skip_render_check=True)
    target = np.array([0.4, 0.8])
    first, info = wrapped.reset(seed=1, options={"q": target, "target": target})
    assert info["distance"] == 0.0
    assert first.dtype == np.float32
    with pytest.raises(ValueError, match="no option 'pose'"):
        wrapped.reset(options={"pose": 0})
    with pytest.raises(ValueError, match=r"option 'q' has shape \(\)"):
        wrapped.reset(options={"q": 0.0})
    with pytest.raises(ValueError, match="outside their ranges"):
        wrapped.reset(options={"q": np.rad2deg(target)})
    assert "empbody/ShoulderReach-v0" not in gym.registry
    name = register()
    try:
        assert register() == name  # again does no harm
        made = gym.make(name, drive="muscles", horizon=3)
        assert made.action_space.shape == (14,)
        assert made.observation_space.shape == (23,)
    finally:
        del gym.registry[name]


def test_gymnasium_scales_excitations():
    pytest.importorskip("gymnasium")
    wrapped = to_gymnasium(shoulder_reach("muscles"))
    assert wrapped.action_space.shape == (14,)
    assert float(wrapped.action_space.low[0]) == -1.0


def test_without_gymnasium(env, monkeypatch):
    find = builtins.__import__

    def absent(name, *args, **kwargs):
        if name == "gymnasium":
            raise ImportError(name)
        return find(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    for ask in (lambda: to_gymnasium(env), register):
        with pytest.raises(ImportError, match=r"pip install 'empbody\[gym\]'"):
            ask()


def test_importing_does_not_import_gymnasium():
    program = "import sys, empbody.environments; assert 'gymnasium' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_states_are_pytrees_of_arrays(env):
    state = env.reset(jax.random.key(0))
    assert isinstance(state, ReachState)
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(state))
