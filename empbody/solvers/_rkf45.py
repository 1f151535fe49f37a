"""Runge-Kutta-Fehlberg 4(5) as a Diffrax solver."""

from collections.abc import Callable
from typing import ClassVar

import diffrax
import numpy as np
from jaxtyping import PyTree

_fifth = np.array([16 / 135, 0, 6656 / 12825, 28561 / 56430, -9 / 50, 2 / 55])
_fourth = np.array([25 / 216, 0, 1408 / 2565, 2197 / 4104, -1 / 5, 0])

# The seventh stage is f at the new state. It is the first stage of the next step, so
# it costs nothing, and it gives the interpolant its slope at the end of the step.
_tableau = diffrax.ButcherTableau(
    a_lower=(
        np.array([1 / 4]),
        np.array([3 / 32, 9 / 32]),
        np.array([1932 / 2197, -7200 / 2197, 7296 / 2197]),
        np.array([439 / 216, -8, 3680 / 513, -845 / 4104]),
        np.array([-8 / 27, 2, -3544 / 2565, 1859 / 4104, -11 / 40]),
        _fifth,
    ),
    b_sol=np.append(_fifth, 0.0),
    b_error=np.append(_fifth - _fourth, 0.0),
    c=np.array([1 / 4, 3 / 8, 12 / 13, 1, 1 / 2, 1]),
)


class _RKF45Interpolation(diffrax.FourthOrderPolynomialInterpolation):
    """Quartic through both ends (value and slope) and a fourth-order midpoint value.

    With b(θ) the weights of y(t + θh) = y + Σ b_i(θ) k_i, the eight order conditions up
    to order four hold for every θ. They leave b_6 free; with both ends fixed its quartic
    has one parameter, and b_6(θ) = (-91 θ² + 190 θ³ - 97 θ⁴)/55 nearly minimises the
    order-five residuals. Their norm over the step then stays below 0.0019, against
    0.0018 for the embedded error estimate: output between the steps is as good as the
    tolerance promises. A quartic is fixed by these five data, so b(1/2) is all it takes.
    """

    c_mid: ClassVar[np.ndarray] = np.array(
        [
            4517 / 34560,
            0,
            6052 / 12825,
            -432809 / 7223040,
            29 / 1600,
            -81 / 880,
            1 / 32,
        ]
    )


class RKF45(diffrax.AbstractERK):
    r"""Fehlberg's explicit 4(5) pair.

    Explicit Runge-Kutta method with six evaluations per step (seven stages, the last
    one being the first of the next step). The fifth-order solution is propagated and
    the embedded fourth-order one estimates the error (local extrapolation, as in
    Shampine and Watts' code; Fehlberg himself propagated the fourth-order solution).
    Dense output is a C¹ quartic of local error O(h⁵), so output between the steps
    converges with order five, as the steps do. Both come at no further evaluation.

    Takes no arguments of its own and any Diffrax term. A Diffrax solver of choice
    should usually be preferred to it (`diffrax.Tsit5` has smaller error constants);
    it is here because the manuscript uses it.

    ??? cite "Reference"

        ```bibtex
        @techreport{fehlberg1969low,
            author={Fehlberg, Erwin},
            title={Low-order classical {R}unge-{K}utta formulas with stepsize control
                   and their application to some heat transfer problems},
            institution={NASA},
            number={TR R-315},
            year={1969},
        }
        ```

        The interpolant is our own, from the order conditions; the idea is that of
        M. K. Horn, "Fourth- and fifth-order, scaled Runge-Kutta algorithms for
        treating dense output", SIAM J. Numer. Anal. 20, 558-568, 1983.
    """

    tableau: ClassVar[diffrax.ButcherTableau] = _tableau
    interpolation_cls: ClassVar[Callable[..., _RKF45Interpolation]] = _RKF45Interpolation

    def order(self, terms: PyTree[diffrax.AbstractTerm]) -> int:
        """Order of the propagated solution: 5."""
        del terms
        return 5
