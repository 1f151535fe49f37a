"""The planar four-bar linkage."""

import math

import jax.numpy as jnp
import numpy as np

from ..model import Body, Model, Revolute, Weld
from ..rhythms import AbstractRhythm
from ._loops import FourBarLoop
from ._rods import rod
from ._routes import Closure, unknowns

_Z = (0.0, 0.0, 1.0)


def four_bar(
    branch: str = "A",
    rhythm: str | AbstractRhythm = "implicit",
    *,
    l0: float = 5.0,
    l1: float = 2.0,
    l2: float = 4.0,
    l3: float = math.sqrt(5.0),
    lcm2: float = 2.0,
    lp: float = math.sqrt(5.0) / 2.0,
    q_range: tuple[float, float] = (-2.0, 2.0),
    density: float = 1.0,
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Model:
    """Four-bar linkage in the x-y plane (Ehsani 2016, Eq. 121, Table 1).

    The coordinate q is the height of the second bar's centre of mass. Joint variables
    theta1, theta2, theta3 turn bar1 against the ground, bar2 against bar1 and bar3 against
    bar2 (rad, counter-clockwise); bar3 ends on the ground at (l0, 0). Bar i points along
    its own x axis. The body "p", without mass, sits on bar3 at lp from its first end:
    p = l1 e(θ1) + l2 e(θ1+θ2) + lp e(θ1+θ2+θ3).

    **Arguments:**

    - `branch`: the two motions with the same q. A holds θ = (π/2, -π/2, -atan 2) at q = 2,
      and has det ∂g/∂θ < 0; B is A turned upside down, θ(q) → -θ(-q).
    - `rhythm`: how θ(q) is made (one of `ROUTES`), or any rhythm from q to (θ1, θ2, θ3).
    - `l0`, …, `lp`: lengths (m): of the bars, of bar2 up to its centre of mass, and of p.
    - `q_range`: range of q; it must stay clear of the folds, for Table 1 at ±2.05738.
    - `density`: the manuscript gives no masses; the bars are taken as slender uniform rods
      of this many kg/m, with bar2's centre of mass put at lcm2.
    - `gravity`: m/s²; none by default.

    **Raises:** `ValueError` if the linkage does not assemble, or folds within the range.
    """
    lengths = {"l0": l0, "l1": l1, "l2": l2, "l3": l3}
    _check_assembly(lengths)
    if not isinstance(rhythm, AbstractRhythm):
        loop = FourBarLoop(*(jnp.asarray(x, dtype=float) for x in (l0, l1, l2, l3, lcm2)))
        middle = 0.5 * (q_range[0] + q_range[1])
        closure = Closure(
            residual=loop,
            seed_q=np.array([middle]),
            seed_f=_seed(branch, l0, l1, l2, l3, lcm2, middle),
            lower=q_range[0],
            upper=q_range[1],
            periodic=False,
            names=("q",),
        )
        rhythm = unknowns(closure, rhythm, order=0, spline_period=False)
    return Model.build(
        coordinates=("q",),
        bodies=[
            rod("bar1", "ground", Revolute(_Z, name="theta1"), l1, density),
            rod("bar2", "bar1", Revolute(_Z, (l1, 0, 0), name="theta2"), l2, density, lcm2),
            rod("bar3", "bar2", Revolute(_Z, (l2, 0, 0), name="theta3"), l3, density),
            Body("p", "bar3", Weld((lp, 0, 0))),
        ],
        rhythm=rhythm,
        gravity=gravity,
        ranges={"q": q_range},
    )


def _check_assembly(lengths: dict[str, float]) -> None:
    for name, length in lengths.items():
        if not length > 0:
            raise ValueError(f"four-bar: {name} = {length:g} is not a positive length")
    longest = max(lengths, key=lambda name: lengths[name])
    others = sum(lengths.values()) - lengths[longest]
    if not lengths[longest] < others:
        raise ValueError(
            f"the four-bar does not assemble: {longest} = {lengths[longest]:g} is not shorter "
            f"than the other three bars together ({others:g})"
        )


def _seed(
    branch: str, l0: float, l1: float, l2: float, l3: float, lcm2: float, q: float
) -> np.ndarray:
    """θ on the branch at q: the crank's angle is scanned and both ways to close are tried."""
    if branch not in ("A", "B"):
        raise ValueError(f"four-bar branch {branch!r} is not known: 'A' or 'B'")
    crank = np.linspace(-np.pi, np.pi, 4097)
    x, y = l1 * np.cos(crank), l1 * np.sin(crank)
    reach = np.hypot(l0 - x, y)
    cosine = (l2**2 + reach**2 - l3**2) / (2 * l2 * np.maximum(reach, 1e-12))
    closes = np.abs(cosine) <= 1.0
    spread = np.arccos(np.clip(cosine, -1.0, 1.0))
    for side in (1.0, -1.0):
        second = np.arctan2(-y, l0 - x) + side * spread
        third = np.arctan2(-y - l2 * np.sin(second), l0 - x - l2 * np.cos(second))
        miss = y + lcm2 * np.sin(second) - q
        crossing = (miss[1:] * miss[:-1] <= 0) & closes[1:] & closes[:-1]
        for i in np.flatnonzero(crossing):
            angles = np.array([crank[i], second[i], third[i]])
            if (_determinant(angles, l1, l2, l3, lcm2) < 0) == (branch == "A"):
                relative = np.array([angles[0], angles[1] - angles[0], angles[2] - angles[1]])
                # Of equal poses the one with angles in (-π, π], as in the tables.
                return relative - 2 * np.pi * np.round(relative / (2 * np.pi))
    raise ValueError(
        f"the four-bar does not assemble on branch {branch} with its second bar's centre of "
        f"mass at the height q = {q:g}; choose another q_range"
    )


def _determinant(angles: np.ndarray, l1: float, l2: float, l3: float, lcm2: float) -> float:
    """det ∂g/∂θ; it is the same for absolute and relative angles."""
    (s1, s2, s3), (c1, c2, c3) = np.sin(angles), np.cos(angles)
    matrix = [
        [l1 * c1, lcm2 * c2, 0.0],
        [0.0, (l2 - lcm2) * c2, l3 * c3],
        [-l1 * s1, -l2 * s2, -l3 * s3],
    ]
    return float(np.linalg.det(np.array(matrix)))
