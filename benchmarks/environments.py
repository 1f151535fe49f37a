"""Error and speed of the environments' fixed steps: the table of docs/environments.md.

Run from the project's folder: `.venv/bin/python benchmarks/environments.py`
"""

import time

import equinox as eqx
import jax
import jax.numpy as jnp

import empbody as eb

BATCH = 64


def with_substeps(env: eb.environments.Reach, substeps: int) -> eb.environments.Reach:
    fields = {name: getattr(env, name) for name in env.__dataclass_fields__}
    return eb.environments.Reach(**(fields | {"substeps": substeps}))


@eqx.filter_jit
def ends(env, states, actions, steps):
    """States after some steps under constant actions."""

    def one(state, action):
        def step(state, _):
            return env.step(state, action).state, None

        return jax.lax.scan(step, state, None, length=steps)[0]

    return jax.vmap(one)(states, actions)


@eqx.filter_jit
def exact(env, states, actions, steps):
    """The same by adaptive steps at 1e-10."""
    ts = jnp.array([0.0, steps * env.dt])

    def one(state, action):
        if env.drive == "muscles":
            given = {"excitation": action, "muscle_state": state.muscles}
        else:
            given = {"tau": action * env.torques}
        found = eb.simulate(
            env.model, state.q, state.qd, ts, rtol=1e-10, atol=1e-10, throw=False, **given
        )
        return found.q_final, found.succeeded

    return jax.vmap(one)(states, actions)


def main():
    jax.config.update("jax_enable_x64", True)
    print("| drive | substeps | after 1 step | after 10 steps | µs per step |")
    print("| --- | --- | --- | --- | --- |")
    for drive, largest, tried in (("torque", 1.0, (2, 4, 8)), ("muscles", 0.3, (4, 8))):
        env = eb.environments.shoulder_reach(drive)
        keys = jax.random.split(jax.random.key(0), BATCH)
        states = jax.vmap(env.reset)(keys)
        low = largest * env.action_bounds[0]
        shape = (BATCH, env.action_size)
        actions = jax.random.uniform(keys[0], shape, minval=low, maxval=largest)
        wanted = [exact(env, states, actions, steps) for steps in (1, 10)]
        for substeps in tried:
            other = with_substeps(env, substeps)
            errors = []
            for steps, (q, inside) in zip((1, 10), wanted, strict=True):
                found = ends(other, states, actions, steps).q
                off = jnp.max(jnp.abs(found - q), axis=1)[inside]
                errors.append(f"{jnp.median(off):.0e} (at most {jnp.max(off):.0e})")
            begin = time.process_time()
            jax.block_until_ready(ends(other, states, actions, 10))
            cost = 1e6 * (time.process_time() - begin) / (10 * BATCH)
            print(f"| {drive} | {substeps} | {errors[0]} | {errors[1]} | {cost:.0f} |", flush=True)


if __name__ == "__main__":
    main()
