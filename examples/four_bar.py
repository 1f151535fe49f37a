"""A four-bar linkage: joint variables, a point's motion, a simulation, a gradient to a length."""

import equinox as eqx
import jax
import jax.numpy as jnp

import empbody as eb


def main(duration: float = 4.0, rows: int = 101) -> dict[str, jax.Array]:
    """Let the linkage swing on a spring for `duration` seconds; returns what was computed."""
    model = eb.models.four_bar(branch="A")
    q, qd = jnp.array([0.5]), jnp.array([1.0])  # height of bar 2's centre of mass (m), and rate
    print("joint angles (rad)  ", eb.joint_variables(model, q))
    print("their slopes (rad/m)", eb.joint_jacobian(model, q)[:, 0])
    velocity = eb.point_velocity(model, q, qd, "p", (0, 0, 0))
    print("velocity of p (m/s) ", velocity)

    # No constraint and no multiplier: the closed loop is a plain ODE in q.
    sprung = model.with_forces([eb.forces.CoordinateSpring("q", stiffness=50.0)])
    ts = jnp.linspace(0.0, duration, rows)
    solution = eb.simulate(sprung, q, jnp.zeros(1), ts, rtol=1e-9, atol=1e-9)
    print("energy kept to (J)  ", solution.energy_drift(sprung))
    print("loop closed to (m)  ", jnp.max(solution.closure_error(sprung)))

    # Every length is a parameter of the model: how p's height answers to the third bar.
    def height(l3: jax.Array) -> jax.Array:
        longer = eqx.tree_at(lambda m: m.rhythm.residual.l3, model, l3)
        return eb.point_position(longer, q, "p", (0, 0, 0))[1]

    slope = jax.grad(height)(model.rhythm.residual.l3)
    print("∂(height of p)/∂l3  ", slope)
    return {"q": solution.q, "velocity": velocity, "slope": slope}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
