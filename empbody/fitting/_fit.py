"""Fit a rhythm of any family to measurements of one subject."""

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..rhythms import AbstractRhythm, Named
from ._assemble import assemble, ranges_of
from ._checks import as_table, as_weights, check_count, check_units, check_varies
from ._coefficients import Coefficients
from ._families import make_family
from ._prior import Prior
from ._problem import Loss
from ._result import FitSummary, RhythmFit
from ._smoothness import choose_smoothness
from ._solvers import Report, descend, named_optimiser
from ._solving import Options, bare, euler_angles, make_problem, solve
from ._targets import AbstractTargets, Angles, MarkerPositions, Orientations

_LOSSES = ("square", "huber", "soft_l1")


def fit_rhythm(
    inputs: Any,
    targets: Any,
    family: str | AbstractRhythm | None = None,
    *,
    input_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    prior: Prior | None = None,
    weights: Any = None,
    loss: str = "square",
    loss_scale: float | None = None,
    smoothness: float | str = 0.0,
    free: Any = None,
    solver: Any = "auto",
    rate: float | None = None,
    steps: int | None = None,
    tolerance: float = 1e-10,
    patience: int = 200,
    restarts: int = 1,
    validation: tuple[Any, Any] | None = None,
    units: bool = True,
    key: int = 0,
    progress: Report | None = None,
) -> RhythmFit:
    """Fit a rhythm to measurements.

    **Arguments:**

    - `inputs`: coordinates (rows, nq), rad.
    - `targets`: joint variables (rows, nj), rad; or `fitting.Orientations`, `MarkerPositions`,
      `Residuals`; or a function of the rhythm that returns one number to be minimised.
    - `family`: "linear", "poly:3", "spline:8", "fourier:4", "mlp:16", or a rhythm to start
      from (any composition). Default: the prior's; the model's for markers; else "poly:3".
    - `prior`: mean and spread of the coefficients, from `fit_population` or `Prior.around`.
      With it, few poses are enough.
    - `weights`: of squared residuals: per row (n,), per cell (n, nj) or by target's name.
    - `loss`: "square", or robust against outliers: "huber" or "soft_l1", which turn linear
      beyond `loss_scale` (rad; default: 1.345 robust standard deviations of the residuals).
    - `smoothness`: weight of the mean square second derivative over the inputs' box, with
      inputs scaled to half its width, against the mean square residual. "auto": chosen by
      the error on stretches of rows that are left out, for families that are linear in
      their coefficients; for splines of a recording this is the best choice.
    - `free`: what may change: a function that returns arrays of the rhythm, as in
      `eqx.tree_at`, or a tree of Boolean arrays. Default: the coefficients of the family.
    - `solver`: "exact" (linear families, square loss), "lm" (Levenberg-Marquardt), or any
      optimiser of Optax by name ("adam", "lbfgs") or itself, with `rate` (step size),
      `steps` and `patience` (early stopping, on `validation` = (inputs, targets) if given).
    - `restarts`: random starts of families that are not linear; the best is kept.
    - `units`: refuse angles above 2π as degrees.
    - `progress`: called with steps done and the most that there can be.

    **Returns:** `RhythmFit` with `rhythm` and `report`.

    **Raises:** ValueError for data that cannot work: NaN rows, constant inputs, fewer data
    than parameters without a prior, degrees where radians should be.
    """
    begin = time.perf_counter()
    if loss not in _LOSSES:
        raise ValueError(f'loss = "{loss}"; one of {", ".join(_LOSSES)} is expected')
    if restarts < 1:
        raise ValueError(f"restarts = {restarts}; at least 1 is expected")
    if smoothness != "auto" and (isinstance(smoothness, str) or not smoothness >= 0):
        raise ValueError(f'smoothness = {smoothness!r}; "auto" or a number of at least 0')
    xs = as_table("inputs", inputs, input_names)
    _check_rows(xs, targets)
    rhythm, name = _template(xs, targets, family, prior, key)
    if isinstance(rhythm, Named):
        input_names, target_names = input_names or rhythm.inputs, target_names or rhythm.targets
    if rhythm.n_in is not None and rhythm.n_in != xs.shape[1]:
        raise ValueError(f"{xs.shape[1]} columns of inputs for a rhythm of {rhythm.n_in}")
    if callable(targets) and not isinstance(targets, AbstractTargets):
        codec = Coefficients(rhythm, free)
        return _to_scalar(
            cast(Any, targets), codec, xs, name, solver, rate, steps or 2000, patience, tolerance,
            progress, (input_names, target_names), begin,
        )  # fmt: skip
    aims = _aims(targets, rhythm, target_names, units)
    rows, columns = aims.shape
    if units and not isinstance(aims, MarkerPositions):
        check_units("input", xs, input_names)
    codec = Coefficients(rhythm, free)
    w = as_weights(weights, rows, columns, target_names if isinstance(aims, Angles) else None)
    if prior is None:
        check_varies(xs, input_names)
        check_count(int((w.sum(axis=1) > 0).sum()), columns, codec.size, name)
    if isinstance(smoothness, str):
        _check_choice(codec, aims, prior, name)
        smoothness = choose_smoothness(make_problem(codec, aims, xs, w, prior, 0.0, free))
    problem = make_problem(codec, aims, xs, w, prior, smoothness, free)
    options = Options(
        cast(Loss, loss), loss_scale, solver, rate, steps, tolerance, patience, restarts, key,
        validation, progress, name, isinstance(family, str),
    )  # fmt: skip
    solved = solve(problem, options)
    names = (input_names, target_names)
    return assemble(solved, w, prior, name, xs, names, smoothness, begin)


def _check_rows(xs: np.ndarray, targets: Any) -> None:
    if callable(targets) and not isinstance(targets, AbstractTargets):
        return
    rows = targets.shape[0] if isinstance(targets, AbstractTargets) else len(targets)
    if len(xs) != rows:
        raise ValueError(f"{len(xs)} rows of inputs for {rows} rows of targets")


def _check_choice(
    codec: Coefficients, aims: AbstractTargets, prior: Prior | None, name: str
) -> None:
    """Whether the smoothness can be chosen: every trial of one must be an exact solution."""
    if prior is not None:
        raise ValueError('smoothness = "auto" with a prior, which says itself what is smooth')
    if not (codec.linear and isinstance(aims, Angles)):
        raise ValueError(
            f'smoothness = "auto" needs a family that is linear in its coefficients and targets '
            f"that are joint variables; {name} here is not: give a number"
        )


def _template(
    xs: np.ndarray, targets: Any, family: Any, prior: Prior | None, key: int
) -> tuple[AbstractRhythm, str]:
    if isinstance(family, AbstractRhythm):
        return family, type(family).__name__
    if prior is not None:
        return prior.rhythm, family or type(bare(prior.rhythm)).__name__
    if isinstance(targets, MarkerPositions) and family is None:
        return targets.model.rhythm, type(targets.model.rhythm).__name__
    if isinstance(targets, Orientations):
        values = euler_angles(targets)
    elif isinstance(targets, AbstractTargets) and not isinstance(targets, Angles):
        raise ValueError("give family as a rhythm to start from: its size is not known otherwise")
    elif callable(targets):
        raise ValueError("give family as a rhythm to start from: a loss has no columns")
    else:
        values = targets.values if isinstance(targets, Angles) else targets
        values = as_table("targets", values, None)
    name = family or "poly:3"
    return make_family(name, xs, np.asarray(values), key=key), name


def _aims(
    targets: Any, rhythm: AbstractRhythm, names: Sequence[str] | None, units: bool
) -> AbstractTargets:
    if isinstance(targets, AbstractTargets):
        if not isinstance(targets, Angles):
            return targets
        targets = targets.values
    table = as_table("targets", targets, names)
    if units:
        check_units("target", table, names)
    if rhythm.n_out is not None and rhythm.n_out != table.shape[1]:
        raise ValueError(f"{table.shape[1]} columns of targets for a rhythm with {rhythm.n_out}")
    return Angles(jnp.asarray(table, dtype=float))


class _OwnLoss(eqx.Module):
    """A user's loss of the rhythm that coefficients give."""

    coefficients: Coefficients
    loss: Callable[[AbstractRhythm], Array]

    def value(self, z: Array) -> Array:
        return self.loss(self.coefficients.rhythm(z))


def _to_scalar(
    loss: Callable[[AbstractRhythm], Array],
    codec: Coefficients,
    xs: np.ndarray,
    name: str,
    solver: Any,
    rate: float | None,
    steps: int,
    patience: int,
    tolerance: float,
    progress: Report | None,
    names: tuple[Sequence[str] | None, Sequence[str] | None],
    begin: float,
) -> RhythmFit:
    """A user's own loss of the rhythm, by gradient descent (default: L-BFGS)."""
    chosen = "lbfgs" if solver == "auto" else solver
    if chosen in ("exact", "lm"):
        raise ValueError(f'solver = "{chosen}" needs residuals; a scalar loss takes "lbfgs"')
    found = descend(
        _OwnLoss(codec, loss),
        codec.vector(),
        named_optimiser(chosen, rate),
        steps=steps,
        patience=patience,
        tolerance=tolerance,
        progress=progress,
    )
    ins, outs = (None if n is None else tuple(n) for n in names)
    rhythm = codec.rhythm(found.z)
    if ins and outs and not isinstance(rhythm, Named):
        rhythm = Named(rhythm, ins, outs)
    nothing = np.full(1, np.nan)
    report = FitSummary(
        name, chosen if isinstance(chosen, str) else "Optax", len(xs), codec.size, np.nan, nothing,
        np.nan, np.nan, np.nan, found.converged, found.steps, time.perf_counter() - begin,
        (f"loss {found.value:.6g}",), 0.0,
    )  # fmt: skip
    return RhythmFit(
        rhythm, found.z, None, nothing, None, report, codec.labels(ins, outs), ins, outs,
        ranges_of(xs), codec, np.inf,
    )  # fmt: skip
