"""Figures of Andrews' squeezer mechanism.

Source: the benchmark of W. Schiehlen (ed.), Multibody Systems Handbook (Springer, 1990),
as printed in Hairer and Wanner, Solving Ordinary Differential Equations II, section VII.7,
and in the Test Set for Initial Value Problem Solvers, whose letters are kept. SI units.
"""

from typing import NamedTuple


class SqueezerData(NamedTuple):
    """Masses, inertias, lengths, spring and drive of the seven-body mechanism.

    Bodies K1 … K7; O is the ground's origin. Lengths: OF = rr, EF = d, BE = ss, AG = zt,
    GE = e, AH = u, HE = zf; the others place centres of mass and the spring's point D.
    """

    mass: tuple[float, ...] = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
    """of K1 … K7 (kg)"""
    inertia: tuple[float, ...] = (
        2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5,
    )  # fmt: skip
    """of K1 … K7 about the centre of mass, out of the plane (kg m²)"""
    xa: float = -0.06934
    ya: float = -0.00227
    xb: float = -0.03635
    yb: float = 0.03273
    xc: float = 0.014
    yc: float = 0.072
    c0: float = 4530.0
    """stiffness of the spring between ground point C and point D of K3 (N/m)"""
    l0: float = 0.07785
    """its length at rest (m)"""
    mom: float = 0.033
    """constant drive torque on the crank K1 (N m)"""
    d: float = 0.028
    da: float = 0.0115
    e: float = 0.02
    ea: float = 0.01421
    rr: float = 0.007
    ra: float = 0.00092
    ss: float = 0.035
    sa: float = 0.01874
    sb: float = 0.01043
    sc: float = 0.018
    sd: float = 0.02
    ta: float = 0.02308
    tb: float = 0.00916
    u: float = 0.04
    ua: float = 0.01228
    ub: float = 0.00449
    zf: float = 0.02
    zt: float = 0.04
    fa: float = 0.01421


Q0_TEST_SET = -0.0617138900142764496358948458001
"""Crank angle at the start in the test set, where Θ = 0 (rad)."""
Q0_MANUSCRIPT = -0.0620
"""Crank angle at the start in the manuscript (Ehsani 2016, section 4-4 B). The start is
near a maximum of the potential: the two motions differ visibly later."""
