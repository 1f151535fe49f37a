"""A two-muscle elbow: moment arms over a wrapping cylinder, a flexion that muscles drive, and
what tendon slack length does to the peak force."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp

import empbody as eb

LEVEL = -0.30  # height of the elbow below the shoulder (m)


def elbow() -> eb.Model:
    """The upper arm hangs still; x points forwards, y up, flexion is positive.

    Fibre and tendon numbers are those that Holzbaur et al. (2005) give for the short head of
    biceps and the lateral head of triceps, with the strength of both heads of biceps and of
    the lateral and medial heads of triceps. Mass, centre of mass and inertia of forearm with
    hand follow Winter's (2009) proportions for a man of 75 kg. The paths are simplified.
    """
    biceps = eb.Muscle(
        "biceps",
        [eb.PathPoint("ground", (0.025, 0.0, 0.0)), eb.PathPoint("forearm", (0.015, -0.045, 0.0))],
        max_isometric_force=624.3 + 435.6,
        optimal_fibre_length=0.1321,
        tendon_slack_length=0.1923,
    )
    triceps = eb.Muscle(
        "triceps",
        [
            eb.PathPoint("ground", (-0.02, -0.10, 0.0)),
            eb.PathPoint("forearm", (-0.022, 0.01, 0.0)),
        ],
        wraps=[eb.Wrap("trochlea")],
        max_isometric_force=624.3 + 624.3,
        optimal_fibre_length=0.1138,
        tendon_slack_length=0.0980,
        pennation=jnp.deg2rad(9.0),
    )
    joint = eb.Revolute(axis=(0, 0, 1), translation=(0.0, LEVEL, 0.0))
    inertia = (0.0226, 0.002, 0.0226)
    return eb.Model.build(
        coordinates=("flexion",),
        bodies=[eb.Body("forearm", "ground", joint, 1.65, (0.0, -0.173, 0.0), inertia)],
        ranges={"flexion": (0.0, math.radians(150.0))},
        muscles=[biceps, triceps],
        surfaces=[
            eb.WrapCylinder(
                "trochlea", "ground", radius=0.0195, translation=(0, LEVEL, 0), quadrant="-x"
            )
        ],
    )


def excitation(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
    """A burst of biceps that goes over into a hold, then a little triceps to brake."""

    def switched(start: float, stop: float) -> jax.Array:
        return jax.nn.sigmoid((t - start) / 0.01) - jax.nn.sigmoid((t - stop) / 0.01)

    biceps = 0.04 + 0.11 * switched(0.1, 0.35) + 0.07 * switched(0.35, 10.0)
    triceps = 0.02 + 0.05 * switched(0.3, 0.45)
    return jnp.stack([biceps, triceps])


def flex(model: eb.Model, ts: jax.Array, **options) -> eb.Solution:
    """Muscle-driven flexion from 20°, at rest in the balance of fibres and tendons."""
    start, still = jnp.deg2rad(jnp.array([20.0])), jnp.zeros(1)
    state = eb.initial_muscle_state(model, start, activation=excitation(ts[0], start, still))
    given = {"excitation": excitation, "muscle_state": state, "rtol": 1e-6, "atol": 1e-6}
    return eb.simulate(model, start, still, ts, **(given | options))


def peak_force(slack: jax.Array, model: eb.Model, ts: jax.Array) -> jax.Array:
    """Largest force of biceps (N) during the flexion, for tendon slack lengths (m)."""
    edited = eqx.tree_at(lambda m: m.muscles.parameters.tendon_slack_length, model, slack)
    solution = flex(edited, ts, adjoint="forward")
    force = solution.muscle_outputs(edited).tendon_force[:, 0]
    # Not jnp.max, whose derivative looks for the value among those it is the largest of: compiled
    # code may compute both apart, to the last digit, and not find it.
    return force[jnp.argmax(force)]


def main(duration: float = 1.0, rows: int = 101) -> dict[str, jax.Array]:
    """Sweep the range of flexion, then simulate `duration` seconds; returns what was computed."""
    model = elbow()
    angles = jnp.deg2rad(jnp.linspace(0.0, 140.0, 71))[:, None]
    lengths = jax.vmap(lambda q: eb.path_lengths(model, q))(angles)
    arms = jax.vmap(lambda q: eb.moment_arms(model, q))(angles)[:, 0]
    for k, name in enumerate(model.muscle_names):
        low, high = 1e3 * jnp.min(arms[:, k]), 1e3 * jnp.max(arms[:, k])
        print(f"{name:8s} moment arm  {low:6.1f} to {high:6.1f} mm")

    ts = jnp.linspace(0.0, duration, rows)
    solution = flex(model, ts)
    forces = solution.muscle_outputs(model).tendon_force
    print(f"flexion             {jnp.rad2deg(solution.q[-1, 0]):6.1f}° after {duration:g} s")
    print(f"peak biceps force   {jnp.max(forces[:, 0]):6.1f} N")

    slack = model.muscles.parameters.tendon_slack_length
    slope = jax.jit(jax.jacfwd(lambda x: peak_force(x, model, ts)))(slack)
    for name, value in zip(model.muscle_names, slope, strict=True):
        print(f"  per mm of {name} tendon {1e-3 * value:+.2f} N")
    return {"lengths": lengths, "arms": arms, "q": solution.q, "forces": forces, "slope": slope}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
