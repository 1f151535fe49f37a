"""A five-bar linkage with two coordinates: three routes to a gradient, and a fall in a batch."""

import jax
import jax.numpy as jnp

import empbody as eb


def main(duration: float = 1.0, rows: int = 51, starts: int = 8) -> dict[str, jax.Array]:
    """Let `starts` copies fall for `duration` seconds; returns what was computed."""
    gravity = (0.0, -9.80665, 0.0)
    model = eb.models.five_bar(mode="neg", gravity=gravity)
    q = jnp.array([0.4, 0.8])
    slopes = {}
    for route in ("implicit", "projection", "molecule"):
        other = model if route == "implicit" else eb.models.five_bar("neg", route, gravity=gravity)
        slopes[route] = eb.joint_jacobian(other, q)[2:]
        print(f"∇θ3, ∇θ4 by {route:10s}", slopes[route].ravel())

    # One compiled function for the whole batch: the starts differ in the first angle.
    ts = jnp.linspace(0.0, duration, rows)
    q0 = jnp.stack([jnp.linspace(0.2, 0.6, starts), jnp.full(starts, 0.8)], axis=1)

    def fall(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        solution = eb.simulate(model, start, jnp.zeros(2), ts, rtol=1e-9, atol=1e-9)
        return solution.q, solution.energy_drift(model)

    paths, drifts = jax.jit(jax.vmap(fall))(q0)
    print("angles at the end (rad)\n", paths[:, -1])
    print("energy kept to (J)", jnp.max(drifts))
    return {"q": paths, "drift": drifts, **slopes}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
