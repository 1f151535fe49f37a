"""Andrews' squeezer mechanism."""

import math

import jax.numpy as jnp
import numpy as np

from ..forces import JointForce, PointSpring
from ..model import Body, Model, Revolute
from ..rhythms import AbstractRhythm
from ._loops import SqueezerLoop
from ._routes import Closure, driven, unknowns
from ._squeezer_data import SqueezerData

_Z = (0.0, 0.0, 1.0)
# θ2 … θ7 at q = 0 to three digits: picks the assembly mode sin θ5 < 0, sin θ6 > 0.
_SEED = np.array([-0.340, 0.487, -1.116, -1.349, 1.349, -1.054])


def squeezer(
    rhythm: str | AbstractRhythm = "implicit",
    *,
    order: int = 14,
    data: SqueezerData | None = None,
) -> Model:
    """Andrews' squeezer: seven bodies, three loops, one coordinate (Ehsani 2016, Eq. 199).

    The coordinate q = θ1 is the crank's angle (rad, counter-clockwise); it turns without
    end and θ2 … θ7 repeat with every turn. The tree: K1 (theta1) on ground point O, K7
    (theta2) on A with K6 (theta6) on it and K2 (theta7) on that, K5 (theta3) on A with K4
    (theta5) on it, K3 (theta4) on B. Every body's x axis points from its joint to the next
    one. A spring ties K3 to the ground and a constant torque drives K1; the torque's work
    is no part of `potential_energy`. No gravity.

    **Arguments:**

    - `rhythm`: how θ2 … θ7 are made from q (one of `ROUTES`), or any rhythm from q to all
      seven.
    - `order`: of the Fourier rhythm. The trajectory of the test set is met to 5e-6 rad
      (RMS over 0.05 s) at order 8 and to 4e-9 rad at 14.
    - `data`: other figures than those of the test set.
    """
    p = SqueezerData() if data is None else data
    if not isinstance(rhythm, AbstractRhythm):
        lengths = (p.xa, p.ya, p.xb, p.yb, p.rr, p.d, p.ss, p.zt, p.e, p.u, p.zf)
        closure = Closure(
            residual=SqueezerLoop(*(jnp.asarray(x, dtype=float) for x in lengths)),
            seed_q=np.zeros(1),
            seed_f=_SEED,
            lower=-math.pi,
            upper=math.pi,
            periodic=True,
            names=("q",),
        )
        rhythm = driven(1, unknowns(closure, rhythm, order, spline_period=True))
    return Model.build(
        coordinates=("q",),
        bodies=_bodies(p),
        rhythm=rhythm,
        gravity=(0.0, 0.0, 0.0),
        forces=[
            PointSpring(
                "ground", (p.xc, p.yc, 0.0), "K3", (p.sc, p.sd, 0.0), p.c0, rest_length=p.l0
            ),
            JointForce("theta1", p.mom),
        ],
    )


def _bodies(p: SqueezerData) -> list[Body]:
    """In the order of the joint variables θ1 … θ7."""
    ground_a, ground_b = (p.xa, p.ya, 0.0), (p.xb, p.yb, 0.0)
    # number of the body, parent, joint variable, where the joint is, centre of mass
    table = [
        (1, "ground", 1, (0.0, 0.0, 0.0), (p.ra, 0.0)),
        (7, "ground", 2, ground_a, (p.ua, -p.ub)),
        (5, "ground", 3, ground_a, (p.ta, p.tb)),
        (3, "ground", 4, ground_b, (p.sa, p.sb)),
        (4, "K5", 5, (p.zt, 0.0, 0.0), (p.e - p.ea, 0.0)),
        (6, "K7", 6, (p.u, 0.0, 0.0), (p.zf - p.fa, 0.0)),
        (2, "K6", 7, (p.zf, 0.0, 0.0), (p.d - p.da, 0.0)),
    ]
    bodies = []
    for number, parent, joint, place, (x, y) in table:
        out_of_plane = p.inertia[number - 1]
        bodies.append(
            Body(
                f"K{number}",
                parent,
                Revolute(_Z, place, name=f"theta{joint}"),
                p.mass[number - 1],
                (x, y, 0.0),
                # Only the last one acts; the others are those of a flat plate.
                (0.5 * out_of_plane, 0.5 * out_of_plane, out_of_plane),
            )
        )
    return bodies
