"""A linkage of one's own: a slider-crank, and a finger whose last joint follows the one before."""

import jax
import jax.numpy as jnp

import empbody as eb

Z = (0, 0, 1)


def crank_slider(q: jax.Array, f: jax.Array) -> jax.Array:
    """Closure of crank 0.1 m and rod 0.3 m: the rod's end stays on the x axis."""
    return 0.1 * jnp.sin(q) + 0.3 * jnp.sin(q + f)


def main(duration: float = 0.5, rows: int = 51) -> dict[str, jax.Array]:
    """Simulate both for `duration` seconds; returns what was computed."""
    period = {"lower": -jnp.pi, "upper": jnp.pi, "periodic": True}
    rod_angle = eb.rhythms.Implicit.build(crank_slider, 0.0, 0.0, **period)
    crank = eb.Model.build(
        coordinates=("crank",),
        bodies=[
            eb.Body("crank", "ground", eb.Revolute(Z), 0.5, (0.05, 0, 0), (0, 0.001, 0.001)),
            eb.Body(
                "rod", "crank", eb.Revolute(Z, (0.1, 0, 0)), 0.3, (0.15, 0, 0), (0, 0.002, 0.002)
            ),
        ],
        rhythm=eb.rhythms.Stack([(eb.rhythms.Identity(), (0,)), (rod_angle, (0,))], n_in=1),
    )
    finger = eb.Model.build(
        coordinates=("base", "middle"),
        bodies=[
            eb.Body("first", "ground", eb.Revolute(Z), 0.03, (0.02, 0, 0), (0, 4e-6, 4e-6)),
            eb.Body("second", "first", eb.Revolute(Z, (0.04, 0, 0)), 0.02, (0.012, 0, 0)),
            eb.Body("third", "second", eb.Revolute(Z, (0.025, 0, 0)), 0.01, (0.01, 0, 0)),
        ],
        rhythm=eb.rhythms.Affine(jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2 / 3]]), jnp.zeros(3)),
    )
    ts, results = jnp.linspace(0.0, duration, rows), {}
    for name, model in (("crank", crank), ("finger", finger)):
        start = jnp.full(model.nq, -0.2)
        solution = eb.simulate(model, start, jnp.zeros(model.nq), ts, rtol=1e-9, atol=1e-9)
        print(name, "ends at", solution.q[-1], "energy kept to", solution.energy_drift(model), "J")
        results[name] = solution.q
    return results


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
