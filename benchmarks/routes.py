"""How exact each route from a closed loop to its rhythm is: the tables of docs/rhythms.md.

Run from the project's folder: `.venv/bin/python benchmarks/routes.py`
"""

import jax
import jax.numpy as jnp
import numpy as np

import empbody as eb


def errors(make, route, exact, points):
    """Largest absolute errors of f, ∂f/∂q and H over the points."""
    rhythm = make(rhythm=route).rhythm
    found = jax.vmap(lambda q: (rhythm(q), rhythm.jacobian(q), rhythm.hessian(q)))(points)
    return [float(jnp.abs(a - b).max()) for a, b in zip(found, exact, strict=True)]


def main():
    jax.config.update("jax_enable_x64", True)
    line = np.linspace(-2.0, 2.0, 1001)[:, None]
    middle = np.linspace(-1.5, 1.5, 751)[:, None]
    turn = np.linspace(-np.pi, np.pi, 1001)[:, None]
    rng = np.random.default_rng(0)
    torus = rng.uniform(-np.pi, np.pi, size=(2000, 2))
    closed = ["projection", "molecule"]
    splines = ["cubic", "cubic-not-a-knot", "quintic"]
    cases = [
        ("four-bar, q = -2 ... 2", eb.models.four_bar, line, closed + splines),
        ("four-bar, q = -1.5 ... 1.5", eb.models.four_bar, middle, closed + splines),
        ("five-bar, one turn of both", eb.models.five_bar, torus, [*closed, *splines, "fourier"]),
        ("squeezer, whole turn", eb.models.squeezer, turn, [*closed, *splines, "fourier"]),
    ]
    for title, make, points, routes in cases:
        print(f"\n{title}\n\n| route | f | gradient | Hessian |\n| --- | --- | --- | --- |")
        rhythm = make(rhythm="implicit").rhythm
        exact = jax.vmap(lambda q, r=rhythm: (r(q), r.jacobian(q), r.hessian(q)))(points)
        for route in routes:
            try:
                row = " | ".join(f"{e:.0e}" for e in errors(make, route, exact, points))
            except ValueError as error:
                row = f"{error} | |"
            print(f"| {route} | {row} |", flush=True)


if __name__ == "__main__":
    main()
