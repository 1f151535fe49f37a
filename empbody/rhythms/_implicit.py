"""Implicit rhythms: joint variables that close loops, g(q, f) = 0."""

from collections.abc import Callable, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._closure_derivatives import (
    closure_hessian,
    closure_jacobian,
    closure_jet,
    value_and_slope,
)
from empbody.rhythms._continuation import (
    at,
    closing_jump,
    coordinate_names,
    follow,
    node_coordinates,
    per_input,
    uniform_axes,
)
from empbody.rhythms._predictor import HermiteTable, TaylorTable, tabulate
from empbody.rhythms._samples import Numbers
from empbody.rhythms._small_lu import SmallLU, differentiable_solver


class LoopStatus(eqx.Enumeration):
    """Outcome of one loop closure; each item carries its reason in words."""

    ok = ""
    out_of_range = (
        "implicit rhythm: a coordinate is outside the range that the table was built for "
        "(or is not a number); build the rhythm over a wider range, or as periodic"
    )
    not_converged = (
        "implicit rhythm: Newton's corrections did not converge in the number allowed; the "
        "parameters may be far from those the table was built for: build it again, or allow "
        "more corrections (newton=)"
    )
    singular = "implicit rhythm: singular configuration, the loop closure has lost its rank"
    left_branch = (
        "implicit rhythm: left its assembly mode (the correction of the prediction is larger "
        "than max_correction, or the determinant of the loop closure has changed its sign)"
    )


class _Attempt(eqx.Module):
    """What Newton's method from the table found, before anyone judges it."""

    f: Float[Array, " nf"]
    moved: Float[Array, ""]
    last: Float[Array, ""]
    pivot_ratio: Float[Array, ""]
    determinant: Float[Array, ""]


class Implicit(AbstractRhythm):
    """f(q) with g(q, f) = 0, on one assembly mode (Ehsani 2016, Eq. 100, corrected).

    A table sampled by continuation when the rhythm is built predicts f on the chosen
    assembly mode; a fixed number of Newton corrections makes it exact. The mode is thus
    kept by construction, and checked: the correction must stay small and ∂g/∂f must keep
    the sign of its determinant. Derivatives follow from the implicit function theorem,
    also with respect to every array leaf of `residual`; the table itself is a constant.

    Failures (`LoopStatus`) raise with their reason, or with `on_failure="nan"` turn the
    value into NaN while `status` tells why. There is no extrapolation: outside
    [lower, upper] a coordinate that is not periodic is out of range.

    Make one with `Implicit.build`.
    """

    residual: Callable
    table: HermiteTable | TaylorTable
    lower: Float[Array, " nq"]
    upper: Float[Array, " nq"]
    jump: Float[Array, "nq nf"]
    """Increase of each unknown over one period of each coordinate (0 if not periodic)."""
    periodic: tuple[bool, ...] = eqx.field(static=True)
    orientation: int = eqx.field(static=True)
    """Sign of det ∂g/∂f on this assembly mode."""
    newton: int = eqx.field(static=True)
    max_correction: float = eqx.field(static=True)
    min_pivot_ratio: float = eqx.field(static=True)
    on_failure: Literal["raise", "nan"] = eqx.field(static=True)

    @classmethod
    def build(
        cls,
        residual: Callable,
        seed_q: Numbers,
        seed_f: Numbers,
        lower: Numbers,
        upper: Numbers,
        *,
        n: int | Sequence[int] | None = None,
        step: float | Sequence[float] | None = None,
        periodic: bool | Sequence[bool] = False,
        newton: int | None = None,
        max_correction: float = 0.2,
        min_pivot_ratio: float | None = None,
        on_failure: Literal["raise", "nan"] = "raise",
        coordinates: Sequence[str] | None = None,
    ) -> "Implicit":
        """Sample the assembly mode that holds the seed and check the result.

        - `residual(q, f)`: the loop closure, as many equations as unknowns f.
        - `seed_q`, `seed_f`: a start guess; it is solved first and picks the mode.
        - `lower`, `upper`: the range of each coordinate.
        - `n` or `step`: cells of the table per coordinate, or their size. Default 256
          cells for one coordinate, 64 for each of several.
        - `periodic`: the range is one full period and the coordinate may wind freely.
        - `newton`: corrections per evaluation, default 2 (one coordinate) or 3.
        - `max_correction`: largest correction of the prediction, in units of f.
        - `min_pivot_ratio`: below it ∂g/∂f counts as singular; default √(machine epsilon).
        - `coordinates`: names for messages.

        Raises ValueError, naming q, if the seed does not assemble, a fold lies in the
        range, or the table is too coarse for `newton` corrections.
        """
        seed = np.atleast_1d(np.asarray(seed_q, dtype=float))
        nq = seed.shape[0]
        names = coordinate_names(coordinates, nq)
        low, high = per_input(lower, nq, float), per_input(upper, nq, float)
        wraps = tuple(per_input(periodic, nq, bool))
        if n is None and step is None:
            n = 256 if nq == 1 else 64
        axes = uniform_axes(low, high, n, step, names)
        if newton is None:
            newton = 2 if nq == 1 else 3
        if newton < 1:
            raise ValueError(f"newton = {newton}: at least one correction is needed")
        if on_failure not in ("raise", "nan"):
            raise ValueError(f"on_failure = {on_failure!r}: 'raise' or 'nan'")
        for k in range(nq):
            if not wraps[k] and not low[k] <= seed[k] <= high[k]:
                raise ValueError(
                    f"the seed {names[k]} = {seed[k]:.6g} lies outside its range "
                    f"[{low[k]:.6g}, {high[k]:.6g}]"
                )
        start = np.atleast_1d(np.asarray(seed_f, dtype=float))
        values, orientation = follow(residual, seed, start, axes)
        jump = np.stack(
            [
                closing_jump(values, k, names[k]) if wraps[k] else np.zeros(values.shape[-1])
                for k in range(nq)
            ]
        )
        rhythm = cls(
            residual=residual,
            table=tabulate(residual, axes, values),
            lower=jnp.asarray(low, dtype=float),
            upper=jnp.asarray(high, dtype=float),
            jump=jnp.asarray(jump, dtype=float),
            periodic=wraps,
            orientation=orientation,
            newton=newton,
            max_correction=float(max_correction),
            min_pivot_ratio=_default_ratio() if min_pivot_ratio is None else float(min_pivot_ratio),
            on_failure=on_failure,
        )
        _check_between_nodes(rhythm, axes)
        return rhythm

    @property
    def n_in(self) -> int:
        return self.lower.shape[-1]

    @property
    def n_out(self) -> int:
        return self.jump.shape[-1]

    # Compiled as a whole also when called outside jit: piece by piece it takes seconds.
    @eqx.filter_jit
    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        return _root(self.residual, q, rest=_constant(self))

    @eqx.filter_jit
    def status(self, q: Float[Array, " nq"]) -> LoopStatus:
        """Why the closure at q failed, or `LoopStatus.ok`. Compare with `==`."""
        self.check_coordinates(q)
        return _judge(self, q, _attempt(self, q))

    @eqx.filter_jit
    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        return closure_jacobian(self.residual, q, self(q))

    @eqx.filter_jit
    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        return closure_hessian(self.residual, q, self(q))[1]

    @eqx.filter_jit
    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        return closure_jet(self.residual, q, self(q), qd)


def _constant(rhythm: Implicit) -> Implicit:
    """The rhythm without its residual's parameters, cut from differentiation."""
    rest = eqx.tree_at(lambda r: r.residual, rhythm, replace=None)
    dynamic, static = eqx.partition(rest, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(dynamic), static)


def _attempt(rhythm: Implicit, q: Float[Array, " nq"]) -> _Attempt:
    wrapped, start = q, 0.0
    if any(rhythm.periodic):
        period = rhythm.upper - rhythm.lower
        turns = jnp.floor((q - rhythm.lower) / period)
        turns = jnp.where(np.asarray(rhythm.periodic), turns, 0.0)
        wrapped = q - turns * period
        start = jnp.sum(turns[:, None] * rhythm.jump, axis=0)
    # Barriers keep the compiler from computing shared inputs again for every output.
    predicted = jax.lax.optimization_barrier(rhythm.table(wrapped) + start)
    f = predicted
    for _ in range(rhythm.newton):
        g, by_f = jax.lax.optimization_barrier(value_and_slope(rhythm.residual, q, f))
        factors = SmallLU(by_f)
        step = factors.solve(g)
        f = jax.lax.optimization_barrier(f - step)
    return _Attempt(
        f=f,
        moved=jnp.max(jnp.abs(f - predicted)),
        last=jnp.max(jnp.abs(step)),  # pyright: ignore[reportPossiblyUnboundVariable]
        pivot_ratio=factors.pivot_ratio,  # pyright: ignore[reportPossiblyUnboundVariable]
        determinant=factors.determinant,  # pyright: ignore[reportPossiblyUnboundVariable]
    )


def _judge(rhythm: Implicit, q: Float[Array, " nq"], found: _Attempt) -> LoopStatus:
    eps = float(jnp.finfo(found.f.dtype).eps)
    free = np.asarray(rhythm.periodic)
    slack = 4 * eps * (rhythm.upper - rhythm.lower)
    inside = (q >= rhythm.lower - slack) & (q <= rhythm.upper + slack)
    in_range = jnp.all((inside | free) & jnp.isfinite(q))
    # Newton converges quadratically: a last step of √eps leaves an error of order eps.
    converged = found.last <= eps**0.5
    regular = found.pivot_ratio >= rhythm.min_pivot_ratio
    kept = (found.moved <= rhythm.max_correction) & (found.determinant * rhythm.orientation > 0)
    result = LoopStatus.where(kept, LoopStatus.ok, LoopStatus.left_branch)
    result = LoopStatus.where(converged, result, LoopStatus.not_converged)
    result = LoopStatus.where(regular, result, LoopStatus.singular)
    return LoopStatus.where(in_range, result, LoopStatus.out_of_range)


@eqx.filter_custom_jvp
def _root(residual, q, *, rest):
    """Solution of g(q, f) = 0 on the mode of the table; derivatives by its own rule."""
    rhythm = eqx.tree_at(lambda r: r.residual, rest, residual, is_leaf=lambda x: x is None)
    found = _attempt(rhythm, q)
    status = _judge(rhythm, q, found)
    failed = status != LoopStatus.ok
    if rhythm.on_failure == "nan":
        return jnp.where(failed, jnp.nan, found.f)
    return status.error_if(found.f, failed)


@_root.def_jvp  # pyright: ignore[reportFunctionMemberAccess]
def _root_jvp(primals, tangents, *, rest):
    residual, q = primals
    f = _root(residual, q, rest=rest)
    _, by_f = value_and_slope(residual, q, f)
    push = eqx.filter_jvp(lambda r, x: r(x, f), primals, tangents)[1]
    return f, -differentiable_solver(by_f)(push)


@eqx.filter_jit
def _statuses(rhythm: Implicit, q: Float[Array, "samples nq"]):
    def one(x: Float[Array, " nq"]):
        code = rhythm.status(x)
        return code != LoopStatus.ok, code

    return jax.vmap(one)(q)


def _check_between_nodes(rhythm: Implicit, axes: list[Float[np.ndarray, " _"]]) -> None:
    """The prediction is worst between nodes: every cell's centre must close as well."""
    middles = [0.5 * (axis[1:] + axis[:-1]) for axis in axes]
    q = jnp.asarray(node_coordinates(middles).reshape(-1, len(axes)), dtype=float)
    bad, codes = _statuses(rhythm, q)
    bad = np.asarray(bad)
    if np.any(bad):
        where = int(np.argmax(bad))
        reason = LoopStatus[jax.tree.map(lambda x: x[where], codes)]
        raise ValueError(
            f"table too coarse: of {bad.size} cells {int(bad.sum())} fail at their centre after "
            f"{rhythm.newton} corrections, the first at {at(q[where])} ({reason}); use more "
            "cells (n=), more corrections (newton=) or a shorter range"
        )


def _default_ratio() -> float:
    return float(jnp.finfo(jnp.zeros(()).dtype).eps) ** 0.5
