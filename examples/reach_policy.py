"""A policy that brings the shoulder into a posture, learnt twice: by gradients through the
simulation, and by a plain policy gradient that sees rewards only."""

import pathlib
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import empbody as eb
from empbody import viz


class Policy(eqx.Module):
    """A small network; with a spread where actions are drawn at random."""

    network: eqx.nn.MLP
    log_spread: jax.Array

    def __init__(self, env: eb.environments.Reach, key: jax.Array):
        network = eqx.nn.MLP(env.observation_size, env.action_size, 32, 2, jnp.tanh, key=key)
        # Small first actions: the untrained arm just sinks.
        self.network = eqx.tree_at(
            lambda n: n.layers[-1].weight, network, 0.1 * network.layers[-1].weight
        )
        self.log_spread = jnp.full(env.action_size, -1.0, dtype=float)

    def __call__(self, observation: jax.Array) -> jax.Array:
        return self.network(observation)


def roll_out(
    env: eb.environments.Reach, act: Callable, keys: jax.Array
) -> tuple[eb.environments.ReachState, tuple[jax.Array, ...]]:
    """Whole episodes side by side: the last states, and along time (first axis) observations,
    actions and rewards. `act(observations, key)` gives a batch of actions."""
    start = jax.vmap(env.reset)(keys)

    def step(states, key):
        seen = jax.vmap(env.observe)(states)
        actions = act(seen, key)
        out = jax.vmap(env.step)(states, actions)
        return out.state, (seen, actions, out.reward)

    return jax.lax.scan(step, start, jax.random.split(keys[0], env.horizon))


def analytic_update(optimiser, env, batch):
    """Ascend the return itself: its gradient comes through policy, muscles and mechanics."""

    def loss(policy, keys):
        _, (_, _, rewards) = roll_out(env, lambda seen, _: jax.vmap(policy)(seen), keys)
        return -jnp.mean(jnp.sum(rewards, axis=0))

    @eqx.filter_jit
    def update(policy, memory, key):
        keys = jax.random.split(key, batch)
        value, slope = eqx.filter_value_and_grad(loss)(policy, keys)
        step, memory = optimiser.update(slope, memory)
        return eqx.apply_updates(policy, step), memory, -value

    return update


def likelihood(policy, seen, actions):
    """Log density of actions, up to a constant."""
    spread = jnp.exp(policy.log_spread)
    off = (actions - jax.vmap(policy)(seen)) / spread[None]
    return -0.5 * jnp.sum(off**2, axis=-1) - jnp.sum(policy.log_spread)


def advantages(seen, rewards, discount=0.95):
    """Discounted rewards to come, less what a quadratic fit to the observations expects."""

    def back(later, reward):
        total = reward + discount * later
        return total, total

    _, to_come = jax.lax.scan(back, jnp.zeros_like(rewards[0]), rewards, reverse=True)
    steps, batch, _ = seen.shape
    time_left = jnp.broadcast_to(jnp.linspace(1.0, 0.0, steps)[:, None, None], (steps, batch, 1))
    x = jnp.concatenate([seen, time_left], axis=-1).reshape(steps * batch, -1)
    rows, columns = jnp.triu_indices(x.shape[-1])
    features = jnp.concatenate([jnp.ones((len(x), 1)), x, x[:, rows] * x[:, columns]], axis=-1)
    square = features.T @ features + 1e-3 * len(x) * jnp.eye(features.shape[-1])
    weights = jnp.linalg.solve(square, features.T @ to_come.reshape(-1))
    left = to_come.reshape(-1) - features @ weights
    return (left - jnp.mean(left)) / (jnp.std(left) + 1e-6)


EPOCHS = 8
"""Steps of the optimiser on one batch of episodes, where rewards only are seen."""


def reward_update(optimiser, env, batch, epochs=EPOCHS, clip=0.2):
    """The clipped policy gradient (Schulman et al. 2017), with the fit above as its critic."""

    def draw(policy):
        def act(seen, key):
            noise = jax.random.normal(key, (len(seen), env.action_size))
            return jax.vmap(policy)(seen) + jnp.exp(policy.log_spread)[None] * noise

        return act

    def loss(policy, seen, actions, before, gain):
        ratio = jnp.exp(likelihood(policy, seen, actions) - before)
        held = jnp.clip(ratio, 1.0 - clip, 1.0 + clip)
        return -jnp.mean(jnp.minimum(ratio * gain, held * gain))

    @eqx.filter_jit
    def update(policy, memory, key):
        _, (seen, actions, rewards) = roll_out(env, draw(policy), jax.random.split(key, batch))
        gain = advantages(seen, rewards)
        flat = seen.reshape(len(gain), -1), actions.reshape(len(gain), -1)
        before = likelihood(policy, *flat)

        arrays, rest = eqx.partition(policy, eqx.is_array)

        def again(carry, _):
            policy, memory = eqx.combine(carry[0], rest), carry[1]
            slope = eqx.filter_grad(loss)(policy, *flat, before, gain)
            step, memory = optimiser.update(slope, memory)
            return (eqx.filter(eqx.apply_updates(policy, step), eqx.is_array), memory), None

        (arrays, memory), _ = jax.lax.scan(again, (arrays, memory), None, length=epochs)
        return eqx.combine(arrays, rest), memory, jnp.mean(jnp.sum(rewards, axis=0))

    return update


def learn(make_update, env, policy, rate, updates, batch, key, steps=1):
    """Train; returns the policy, the return (mean over episodes) and the processor time (s)
    after each update, of which each makes so many `steps` of the optimiser.

    Steps become shorter towards the end. Slopes are held at length 1, so that one batch
    cannot undo what others have taught: without that, learning is much slower.
    """
    rate = optax.cosine_decay_schedule(rate, updates * steps, 0.05)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))
    memory = optimiser.init(eqx.filter(policy, eqx.is_array))
    update = make_update(optimiser, env, batch)
    returns, seconds, begin = [], [], time.process_time()
    for number, one in enumerate(jax.random.split(key, updates)):
        policy, memory, value = update(policy, memory, one)
        returns.append(float(value))
        seconds.append(time.process_time() - begin)
        if number % max(1, updates // 10) == 0 or number == updates - 1:
            print(f"  update {number:4d}  return {returns[-1]:8.2f}  {seconds[-1]:6.1f} s")
    return policy, jnp.array(returns), jnp.array(seconds)


@eqx.filter_jit
def judge(env, policy, keys):
    """Mean return, and the angle (°) that is missing at the end, without any randomness."""
    last, (_, _, rewards) = roll_out(env, lambda seen, _: jax.vmap(policy)(seen), keys)
    missing = jnp.rad2deg(jax.vmap(env.distance)(last))
    return jnp.mean(jnp.sum(rewards, axis=0)), jnp.median(missing)


def main(
    updates: int = 100,
    batch: int = 32,
    drive: str = "torque",
    plain_updates: int = 100,
    plain_batch: int = 64,
    horizon: int = 25,
    figure: str | None = "out/reach_policy.png",
) -> dict[str, jax.Array]:
    """Train both ways on the same environment and compare on the same unseen episodes."""
    env = eb.environments.shoulder_reach(drive, dt=0.04, horizon=horizon)
    key, test = jax.random.split(jax.random.key(0))
    first = Policy(env, key)
    exam = jax.random.split(test, 64)
    results = {"untrained": jnp.stack(judge(env, first, exam))}
    curves = {}
    # One step of the optimiser for each batch of episodes, or eight: so their length differs.
    ways = {
        "through the simulation": (analytic_update, 1e-2, updates, batch, 1),
        "from rewards only": (reward_update, 3e-3, plain_updates, plain_batch, EPOCHS),
    }
    for name, (way, rate, count, size, steps) in ways.items():
        print(f"{name}: {count} updates of {size} episodes")
        policy, *curves[name] = learn(way, env, first, rate, count, size, key, steps)
        results[name] = jnp.stack(judge(env, policy, exam))
    for name, (value, missing) in results.items():
        print(f"{name:24s} return {value:8.2f}, {missing:5.1f}° missing after {horizon * 0.04:g} s")
    if figure is not None:
        pathlib.Path(figure).parent.mkdir(parents=True, exist_ok=True)
        viz.save(draw(curves, float(results["untrained"][0])), figure)
        print(f"learning curves in {figure}")
    return results | {f"returns {name}": curve[0] for name, curve in curves.items()}


def draw(curves, untrained):
    """Return over processor time, compilation included."""
    with viz.style():
        figure = viz.new_figure((6.5, 3.5))
        axes = figure.subplots()
        for name, (returns, seconds) in curves.items():
            axes.plot(seconds, returns, label=name)
        axes.axhline(untrained, color="0.5", lw=1, ls=":", label="untrained")
        axes.set(xlabel="processor time (s), compilation included", ylabel="return of an episode")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(top=-0.8)
        axes.legend()
    return figure


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
