"""Andrews' squeezer: seven bodies and three loops as an ODE in one coordinate."""

import equinox as eqx
import jax
import jax.numpy as jnp

import empbody as eb


def main(duration: float = 0.05, rows: int = 201, starts: int = 4) -> dict[str, jax.Array]:
    """Simulate `duration` seconds from rest; returns what was computed."""
    model = eb.models.squeezer(rhythm="implicit")
    ts = jnp.linspace(0.0, duration, rows)
    options = {"solver": "dopri8", "rtol": 1e-10, "atol": 1e-10}
    q0, still = jnp.array([eb.models.Q0_MANUSCRIPT]), jnp.zeros(1)
    solution = eb.simulate(model, q0, still, ts, **options)
    print(f"crank at the end  {solution.q[-1, 0]:.9f} rad, {solution.qd[-1, 0]:.6f} rad/s")
    print("steps             ", int(solution.stats["num_accepted_steps"]))
    print("loops closed to   ", float(jnp.max(solution.closure_error(model))), "m")

    # The start is close to a maximum of the potential: neighbours run apart.
    near = q0[None, :] + 1e-4 * jnp.arange(starts)[:, None]
    ends = jax.vmap(lambda start: eb.simulate(model, start, still, ts, **options).q[-1, 0])(near)
    print("neighbours end at ", ends)

    # Sensitivity of the end to the driving torque, through the solver.
    def end(torque: jax.Array) -> jax.Array:
        driven = eqx.tree_at(lambda m: m.forces[1].value, model, torque)
        return eb.simulate(driven, q0, still, ts, adjoint="forward", **options).q[-1, 0]

    torque = model.forces[1].value
    slope = jax.jvp(end, (torque,), (jnp.ones_like(torque),))[1]
    print("∂(end)/∂(torque)  ", slope, "rad/(N m)")
    return {"q": solution.q, "ends": ends, "slope": slope}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
