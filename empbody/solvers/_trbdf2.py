"""TR-BDF2 as a Diffrax solver."""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optimistix as optx
from jaxtyping import PyTree

from ._chord import StageChord

# γ is the share of the step that the trapezoidal rule takes; this value makes the
# iteration matrix of both stages the same, and the method L-stable.
_γ = 2 - np.sqrt(2.0)
_d = _γ / 2
_w = np.sqrt(2.0) / 4
_second = np.array([_w, _w, _d])
_third = np.array([(1 - _w) / 3, (1 + 3 * _w) / 3, _d / 3])

_tableau = diffrax.ButcherTableau(
    a_lower=(np.array([_d]), np.array([_w, _w])),
    a_diagonal=np.array([0.0, _d, _d]),
    # the slope of the stage before, then the line through the two slopes before
    a_predictor=(np.array([1.0]), np.array([1 - 1 / _γ, 1 / _γ])),
    b_sol=_second,
    b_error=_second - _third,
    c=np.array([_γ, 1.0]),
)


class TRBDF2(diffrax.AbstractESDIRK):
    r"""Trapezoidal rule over the first part of the step, then BDF2 over the whole of it.

    Second-order, L-stable, stiffly accurate ESDIRK method with three stages, the first
    of which is the last of the step before; the two implicit stages share one Jacobian
    and one factorisation. The embedded third-order formula estimates the error, so the
    estimate is O(h³). Uses third-order Hermite interpolation for dense output, which
    converges with order two, as the steps do.

    For low accuracy or stiff problems: the second-order solution is what is propagated,
    so the global error falls as tol^(2/3) and the number of steps grows as tol^(-1/3).

    **Arguments:**

    - `root_finder`: solves the implicit stages; an Optimistix root finder. By default
      `StageChord` at the tolerances of the step size controller. With fixed steps there
      are none to take over: pass `StageChord(rtol=..., atol=...)`.
    - `root_find_max_steps`: iterations after which a step is rejected.
    - `smooth_error`: apply (I - γ/2 h J)⁻¹ to the error estimate, J being the Jacobian at
      the end of the step. The raw estimate grows with the stiffness and then forces
      needlessly small steps; the smoothed one does not, and they agree as h → 0. Costs
      a second Jacobian and factorisation per step: switch it off where the problem is
      not stiff.

    ??? cite "Reference"

        ```bibtex
        @article{bank1985transient,
            author={Bank, R. E. and Coughran, W. M. and Fichtner, W. and Grosse, E. H. and
                    Rose, D. J. and Smith, R. K.},
            title={Transient simulation of silicon devices and circuits},
            journal={IEEE Trans. Computer-Aided Design},
            volume={4},
            number={4},
            pages={436--451},
            year={1985},
        }
        ```

        Value of γ in this form, embedded formula and smoothed estimate:

        ```bibtex
        @article{hosea1996analysis,
            author={Hosea, M. E. and Shampine, L. F.},
            title={Analysis and implementation of {TR-BDF2}},
            journal={Applied Numerical Mathematics},
            volume={20},
            pages={21--37},
            year={1996},
        }
        ```
    """

    tableau: ClassVar[diffrax.ButcherTableau] = _tableau
    interpolation_cls: ClassVar[Callable[..., diffrax.ThirdOrderHermitePolynomialInterpolation]] = (
        diffrax.ThirdOrderHermitePolynomialInterpolation.from_k
    )

    root_finder: optx.AbstractRootFinder = diffrax.with_stepsize_controller_tols(StageChord)()
    root_find_max_steps: int = 10
    smooth_error: bool = eqx.field(default=True, static=True)

    def order(self, terms: PyTree[diffrax.AbstractTerm]) -> int:
        """Order of the propagated solution: 2."""
        del terms
        return 2

    def error_order(self, terms: PyTree[diffrax.AbstractTerm]) -> int:
        """Power of the step size in the error estimate: 3, the embedded formula being of
        higher order than the solution."""
        del terms
        return 3

    def step(
        self,
        terms: diffrax.AbstractTerm,
        t0: Any,
        t1: Any,
        y0: PyTree,
        args: PyTree,
        solver_state: Any,
        made_jump: Any,
    ) -> tuple[PyTree, PyTree, dict[str, PyTree], Any, diffrax.RESULTS]:
        """One step, see `diffrax.AbstractSolver.step`."""
        y1, error, dense_info, solver_state, result = super().step(
            terms, t0, t1, y0, args, solver_state, made_jump
        )
        if self.smooth_error:
            error = _smooth(terms, t0, t1, y1, args, error)
        return y1, error, dense_info, solver_state, result


def _smooth(
    terms: diffrax.AbstractTerm, t0: Any, t1: Any, y1: PyTree, args: PyTree, error: PyTree
) -> PyTree:
    """(I - γ/2 h J)⁻¹ error. An infinite error, which marks a failed stage, is kept."""
    # The step size is not differentiated, so neither is what controls it.
    operands, static = eqx.partition((terms, t0, t1, y1, args, error), eqx.is_inexact_array)
    operands = jax.lax.stop_gradient(operands)
    terms, t0, t1, y1, args, error = eqx.combine(operands, static)
    control = terms.contr(t0, t1)

    def residual(y: PyTree, _: Any) -> PyTree:
        k = terms.vf_prod(t1, y, args, control)
        return jax.tree.map(lambda y_leaf, k_leaf: y_leaf - _scaled(k_leaf), y, k)

    finite = jax.tree.map(lambda e: jnp.where(jnp.isfinite(e), e, 0), error)
    operator = lx.JacobianLinearOperator(residual, y1)
    smoothed = lx.linear_solve(operator, finite, throw=False).value
    return jax.tree.map(
        lambda s, e: jax.lax.stop_gradient(jnp.where(jnp.isfinite(e) & jnp.isfinite(s), s, e)),
        smoothed,
        error,
    )


def _scaled(k: jax.Array) -> jax.Array:
    return jnp.asarray(_d, k.dtype) * k
