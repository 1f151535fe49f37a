"""A chain of pendulums, for scaling."""

import numpy as np

from ..model import Body, Model, Revolute

_AXES = {"x": (1.0, 0.0, 0.0), "z": (0.0, 0.0, 1.0)}


def pendulum_chain(
    n: int,
    length: float = 1.0,
    mass: float = 1.0,
    *,
    axes: str = "planar",
    seed: int = 0,
    gravity: tuple[float, float, float] = (0.0, -9.80665, 0.0),
) -> Model:
    """n equal links, each hanging on the end of the one before; every angle a coordinate.

    At q = 0 the chain hangs straight down along -y. Links "link1" … are round rods with a
    radius of a twentieth of their length.

    **Arguments:**

    - `length`, `mass`: of each link (m, kg).
    - `axes`: "planar" (all about z), "alternating" (z, x, z, …) or "random" (unit vectors
      drawn with `seed`).
    - `gravity`: m/s².
    """
    if n < 1:
        raise ValueError(f"a chain of {n} links: at least 1 is needed")
    if axes == "planar":
        directions = [_AXES["z"]] * n
    elif axes == "alternating":
        directions = [_AXES["zx"[i % 2]] for i in range(n)]
    elif axes == "random":
        drawn = np.random.default_rng(seed).normal(size=(n, 3))
        directions = list(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    else:
        raise ValueError(f"axes = {axes!r}: 'planar', 'alternating' or 'random'")
    radius = 0.05 * length
    across = mass * (3 * radius**2 + length**2) / 12.0
    along = 0.5 * mass * radius**2
    bodies = [
        Body(
            f"link{i + 1}",
            "ground" if i == 0 else f"link{i}",
            Revolute(axis, (0.0, 0.0, 0.0) if i == 0 else (0.0, -length, 0.0)),
            mass,
            (0.0, -0.5 * length, 0.0),
            (across, along, across),
        )
        for i, axis in enumerate(directions)
    ]
    return Model.build([f"q{i + 1}" for i in range(n)], bodies, gravity=gravity)
