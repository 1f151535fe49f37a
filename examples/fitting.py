"""A subject's shoulder rhythm from five poses, with what a population knows, on synthetic data;
and what the own rhythm does to the muscles' moment arms."""

import jax
import jax.numpy as jnp
import numpy as np

import empbody as eb

ANGLES = ("st_protraction", "st_medial_rotation", "st_tilt")


def error(rhythm, truth, inputs) -> float:
    """Root mean square difference (deg) of two rhythms over rows of inputs."""
    apart = jax.vmap(rhythm)(jnp.asarray(inputs)) - jax.vmap(truth)(jnp.asarray(inputs))
    return float(jnp.rad2deg(jnp.sqrt(jnp.mean(apart**2))))


def abduction_arms(rhythm, degrees, muscles) -> jax.Array:
    """Moment arms (mm) for elevation in abduction; muscles without wrapping, for speed."""
    model = eb.models.shoulder(rhythm, wrapping=False, muscles=muscles)
    elevation = jnp.deg2rad(jnp.asarray(degrees, dtype=float))
    poses = jnp.stack([0 * elevation, elevation, 0 * elevation], axis=1)
    arms = jax.jit(jax.vmap(lambda q: eb.moment_arms(model, q)))(poses)
    return 1e3 * arms[:, model.coordinate_index("shoulder_elv")]


def main(subjects: int = 20, poses: int = 5, rows: int = 12) -> dict:
    # Invented subjects around de Groot & Brand's regression; the last one is our new subject.
    people = eb.models.synthetic_population(subjects + 1, targets=ANGLES, seed=1)
    names = {"input_names": people.input_names, "target_names": people.target_names}
    new = f"synthetic {subjects + 1}"
    others = people.subjects != new
    population = eb.fit_population(
        people.inputs[others], people.targets[others], people.subjects[others], "poly:2", **names
    )
    inputs, targets = people.of(new)
    chosen = eb.fitting.choose_poses(inputs, poses, population.prior)
    fit = eb.fit_rhythm(inputs[chosen], targets[chosen], prior=population.prior, **names)
    alone = eb.fit_rhythm(inputs[chosen], targets[chosen], "linear", **names)

    truth = people.rhythms[new]
    errors = {
        "the population's mean": error(population.rhythm, truth, inputs),
        f"{poses} poses alone": error(alone.rhythm, truth, inputs),
        f"{poses} poses with the prior": error(fit.rhythm, truth, inputs),
    }
    print(f"{new}: error against the rhythm that it was made with")
    for what, value in errors.items():
        print(f"  {what:28s} {value:5.2f} deg")

    degrees = np.linspace(10, 120, rows)
    before = abduction_arms("de_groot", degrees, ("DELT2", "SUBSC"))
    after = abduction_arms(fit.rhythm, degrees, ("DELT2", "SUBSC"))
    change = float(jnp.max(jnp.abs(after - before)))
    print(f"moment arms change by up to {change:.1f} mm")
    return {"errors": np.array(list(errors.values())), "before": before, "after": after}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
