"""Numbers of a small arm in the precision named (32 or 64), as JSON; run by test_float32.py."""

import json
import sys

import jax
import jax.numpy as jnp
from _small_arm import arm

import empbody as eb

jax.config.update("jax_enable_x64", sys.argv[1] == "64")


def refusal(call):
    """What a call complains of, if it does."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return None


def main():
    model = arm()
    q, qd = jnp.array([0.25, 0.5]), jnp.array([0.5, -0.25])
    tau, level = jnp.array([1.0, -2.0]), jnp.array([0.25, 0.5])
    ts = jnp.array([0.0, 0.1])
    found = {
        "mass_matrix": eb.mass_matrix(model, q),
        "inverse_dynamics": eb.inverse_dynamics(model, q, qd, tau),
        "forward_dynamics": eb.forward_dynamics(model, q, qd, tau),
        "path_lengths": eb.path_lengths(model, q),
        "moment_arms": eb.moment_arms(model, q),
        "muscle_forces": eb.muscle_forces(model, q, qd, level),
        "share_forces": eb.share_forces(model, q, qd, tau, reserves=1.0).activations,
        "simulate": eb.simulate(model, q, qd, ts, tau=tau, rtol=1e-5, atol=1e-5).q_final,
    }
    refused = {
        "simulate": refusal(lambda: eb.simulate(model, q, qd, ts)),
        "track": refusal(lambda: eb.track(model, lambda t: q + 0.0 * t, ts, gains=10.0)),
    }
    kinds = sorted({str(value.dtype) for value in found.values()})
    numbers = {name: value.tolist() for name, value in found.items()}
    print(json.dumps({"found": numbers, "kinds": kinds, "refused": refused}))


if __name__ == "__main__":
    main()
