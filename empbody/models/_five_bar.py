"""The planar five-bar linkage."""

import math

import jax.numpy as jnp
import numpy as np

from ..model import Body, Model, Revolute, Weld
from ..rhythms import AbstractRhythm
from ._loops import FiveBarLoop
from ._rods import rod
from ._routes import Closure, driven, unknowns

_Z = (0.0, 0.0, 1.0)


def five_bar(
    mode: str = "neg",
    rhythm: str | AbstractRhythm = "implicit",
    *,
    l0: float = 3.0,
    l1: float = 1.0,
    l2: float = 1.0,
    l3: float = 3.0,
    l4: float = 3.0,
    lp: float = 2.0,
    order: int = 16,
    density: float = 1.0,
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Model:
    """Five-bar linkage in the x-y plane with two coordinates (Ehsani 2016, Eq. 123, Table 2).

    The coordinates are q = (θ1, θ2), joint variables theta1 … theta4 turn each of bar1 …
    bar4 against the one before (rad, counter-clockwise); bar4 ends on the ground at
    (l0, 0). Bar i points along its own x axis. The body "p", without mass, sits on bar3 at
    lp from its first end; the manuscript shows the point only in a figure.

    **Arguments:**

    - `mode`: the two assembly modes, by the sign of θ4.
    - `rhythm`: how θ3, θ4 are made from q (one of `ROUTES`), or any rhythm from q to all four.
      Both coordinates turn freely with "implicit", "projection", "molecule" and "fourier";
      splines hold for -2π … 2π, since θ3 winds.
    - `l0`, …, `lp`: lengths (m).
    - `order`: harmonics in each coordinate of the Fourier rhythm.
    - `density`: the manuscript gives no masses; the bars are taken as slender uniform rods
      of this many kg/m.
    - `gravity`: m/s²; none by default.

    **Raises:** `ValueError` if the linkage does not close for every (θ1, θ2).
    """
    ranges = {}
    if not isinstance(rhythm, AbstractRhythm):
        loop = FiveBarLoop(*(jnp.asarray(x, dtype=float) for x in (l0, l1, l2, l3, l4)))
        closure = Closure(
            residual=loop,
            seed_q=np.zeros(2),
            seed_f=_seed(mode, l0, l1, l2, l3, l4),
            lower=-math.pi,
            upper=math.pi,
            periodic=True,
            names=("theta1", "theta2"),
        )
        if rhythm in ("cubic", "cubic-not-a-knot", "quintic"):
            ranges = dict.fromkeys(closure.names, (-2 * math.pi, 2 * math.pi))
        rhythm = driven(2, unknowns(closure, rhythm, order, spline_period=False))
    return Model.build(
        coordinates=("theta1", "theta2"),
        bodies=[
            rod("bar1", "ground", Revolute(_Z, name="theta1"), l1, density),
            rod("bar2", "bar1", Revolute(_Z, (l1, 0, 0), name="theta2"), l2, density),
            rod("bar3", "bar2", Revolute(_Z, (l2, 0, 0), name="theta3"), l3, density),
            rod("bar4", "bar3", Revolute(_Z, (l3, 0, 0), name="theta4"), l4, density),
            Body("p", "bar3", Weld((lp, 0, 0))),
        ],
        rhythm=rhythm,
        gravity=gravity,
        ranges=ranges,
    )


def _seed(mode: str, l0: float, l1: float, l2: float, l3: float, l4: float) -> np.ndarray:
    """(θ3, θ4) at θ1 = θ2 = 0 by the law of cosines, after a check of the whole torus."""
    if mode not in ("neg", "pos"):
        raise ValueError(f"five-bar mode {mode!r} is not known: 'neg' or 'pos'")
    for name, length in (("l0", l0), ("l1", l1), ("l2", l2), ("l3", l3), ("l4", l4)):
        if not length > 0:
            raise ValueError(f"five-bar: {name} = {length:g} is not a positive length")
    # Bars 3 and 4 must span the distance from bar2's end to the ground pivot.
    farthest, nearest = l0 + l1 + l2, max(0.0, 2 * max(l0, l1, l2) - (l0 + l1 + l2))
    if not (farthest < l3 + l4 and abs(l3 - l4) < nearest):
        raise ValueError(
            f"the five-bar does not assemble for every (θ1, θ2): bars 3 and 4 span "
            f"{abs(l3 - l4):g} to {l3 + l4:g}, and {nearest:g} to {farthest:g} are needed"
        )
    gap = l0 - l1 - l2  # signed distance along x from bar2's end to the pivot
    cosine = (gap**2 - l3**2 - l4**2) / (2 * l3 * l4)
    fourth = math.acos(min(1.0, max(-1.0, cosine))) * (1.0 if mode == "pos" else -1.0)
    third = math.atan2(0.0, gap) - math.atan2(l4 * math.sin(fourth), l3 + l4 * math.cos(fourth))
    return np.array([third, fourth])
