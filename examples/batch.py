"""A population of forearms that swing under noisy muscles: one call, every run with its own model,
start and excitations, and the results in a folder that survives an interruption."""

import pathlib
import tempfile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import empbody as eb


def forearm() -> eb.Model:
    """A flexor and an extensor with rigid tendons; the upper arm hangs. Invented figures."""
    numbers = {"optimal_fibre_length": 0.12, "tendon_slack_length": 0.19, "tendon": "rigid"}
    front = [eb.PathPoint("ground", (0.02, 0.0, 0)), eb.PathPoint("forearm", (0.01, -0.04, 0))]
    back = [eb.PathPoint("ground", (-0.03, 0.0, 0)), eb.PathPoint("forearm", (-0.02, 0.01, 0))]
    joint = eb.Revolute((0, 0, 1), (0, -0.3, 0))
    return eb.Model.build(
        ("elbow",),
        [eb.Body("forearm", "ground", joint, 1.5, (0, -0.12, 0), (0.008, 0.001, 0.008))],
        muscles=[
            eb.Muscle("flexor", front, max_isometric_force=435.0, **numbers),
            eb.Muscle("extensor", back, max_isometric_force=600.0, **numbers),
        ],
        forces=[eb.forces.SoftStops("elbow", 0.1, 2.4, 20.0, 20.0, damping=1.0)],
    )


def subjects(count: int, rng: np.random.Generator) -> list[eb.Model]:
    """The same forearm with other masses and strengths."""
    base = forearm()

    def scaled(mass: float, strength: float) -> eb.Model:
        return eqx.tree_at(
            lambda m: (m.mass, m.inertia, m.muscles.parameters.max_isometric_force),
            base,
            replace_fn=lambda x: x * (strength if x.shape == (2,) else mass),
        )

    factors = rng.uniform(0.8, 1.25, (count, 2))
    return [scaled(mass, strength) for mass, strength in factors]


def excitation(t: jax.Array, q: jax.Array, qd: jax.Array, wave: dict) -> jax.Array:
    """Each run has its own levels, and its own rhythm of flexing and extending."""
    swing = jnp.sin(2 * jnp.pi * wave["frequency"] * t)
    return jnp.clip(wave["level"] * (1.0 + jnp.stack([swing, -swing])), 0.0, 1.0)


def main(runs: int = 200, duration: float = 1.0, rows: int = 51) -> dict[str, np.ndarray]:
    """Simulate the population twice, the second time out of the folder."""
    rng = np.random.default_rng(0)
    stack = eb.stack_models(subjects(runs, rng))
    ts = np.linspace(0.0, duration, rows)
    start = rng.uniform(0.6, 1.6, (runs, 1))
    waves = {
        "frequency": rng.uniform(0.5, 3.0, runs),
        "level": rng.uniform(0.02, 0.25, (runs, 2)),
    }
    given = {"excitation": excitation, "parameters": waves, "rtol": 1e-6, "atol": 1e-6}
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "swings"
        batch = eb.simulate_batch(stack, start, np.zeros((runs, 1)), ts, out=out, **given)
        files = len(list(out.glob("*.sto")))
        q = batch.array("q")
        again = eb.load_batch(out).array("q")
    ends = np.rad2deg(q[:, -1, 0])
    print(f"{batch}: {files} files")
    print(f"elbow after {duration:g} s  {ends.mean():.0f} ± {ends.std():.0f}°")
    print(f"steps {batch.stats['num_steps'].min()} to {batch.stats['num_steps'].max()} a run,")
    print(f"  lanes waited {100 * batch.stats['waiting_fraction']:.0f} % of theirs")
    # Any function of a model and one sample, here of each subject in its last pose:
    arms = eb.map_batch(eb.moment_arms, stack, q[:, -1])
    print(f"moment arm of the flexor  {1e3 * arms[:, 0, 0].mean():.0f} mm")
    return {"q": q, "again": again, "arms": arms, "failed": batch.failed}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
