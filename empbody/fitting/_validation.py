"""Errors on data that a fit has not seen, and the choice of a family by them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ._checks import as_table, as_weights
from ._fit import fit_rhythm
from ._population import fit_population
from ._stretches import blocks


class Validation(NamedTuple):
    """Errors (rad) on rows that were left out of the fit that predicts them."""

    rms: Float[np.ndarray, " k"]
    """Root of the mean square error of each target, over all rows."""
    rms_all: float
    """The same over all targets and rows."""
    folds: dict[str, float]
    """The same for each group that was left out."""
    residuals: Float[np.ndarray, "n k"]


class Choice(NamedTuple):
    """A family chosen from several; smaller scores are better."""

    family: str
    scores: dict[str, float]
    """rad for "cv"; no unit for "aic" and "bic". Infinite where a family cannot be fitted."""
    reasons: dict[str, str]
    """Why those cannot be fitted."""


def cross_validate(
    inputs: Any, targets: Any, family: Any = "poly:3", *, groups: Any = None, folds: int = 5,
    weights: Any = None, **options: Any,
) -> Validation:  # fmt: skip
    """Leave out one group of rows after the other, fit the rest, and predict the group.

    `groups` (n,) says which trial, plane or subject a row belongs to; without it, stretches
    of neighbouring rows are left out (see `blocks`). `weights` are those of `fit_rhythm`, or a
    function that makes them from the inputs of the rows that are fitted, as `frame_weights`
    does. `options` go to `fit_rhythm`.
    """
    names = (options.get("input_names"), options.get("target_names"))
    xs, ys = as_table("inputs", inputs, names[0]), as_table("targets", targets, names[1])
    group = blocks(len(xs), folds) if groups is None else np.asarray(groups)
    if group.shape != (len(xs),):
        raise ValueError(f"{group.size} groups for {len(xs)} rows")
    labels = np.unique(group)
    if len(labels) < 2:
        raise ValueError(f"one group only ({labels[0]}): nothing is left to fit")
    residuals, errors = np.zeros_like(ys), {}
    for label in labels.tolist():
        left = group == label
        given = weights
        if callable(weights):
            given = np.zeros(len(xs))
            given[~left] = np.asarray(weights(xs[~left]))
        w = as_weights(given, len(ys), ys.shape[1], names[1])
        fit = fit_rhythm(xs, ys, family, weights=np.where(left[:, None], 0.0, w), **options)
        guess = np.asarray(jax.vmap(fit.rhythm)(jnp.asarray(xs, dtype=float)))
        residuals[left] = (guess - ys)[left]
        errors[str(label)] = float(np.sqrt(np.mean(residuals[left] ** 2)))
    rms = np.sqrt(np.mean(residuals**2, axis=0))
    return Validation(rms, float(np.sqrt(np.mean(residuals**2))), errors, residuals)


def choose_family(
    inputs: Any,
    targets: Any,
    candidates: Sequence[str] = ("linear", "poly:2", "poly:3", "poly:4"),
    *,
    criterion: Literal["cv", "aic", "bic"] = "cv",
    groups: Any = None,
    folds: int = 5,
    subjects: Any = None,
    poses: int = 5,
    options: Mapping[str, Any] | None = None,
) -> Choice:
    """The family with the least error on what it has not seen, or by AIC or BIC.

    With `subjects`, rows of many subjects, the score is the error for a new subject who is
    measured in `poses` poses and fitted with the prior of the others. AIC and BIC take
    residuals for independent, which frames of a recording are not: they choose too large a
    family there.

    `options` go to `fit_rhythm` or `fit_population`. Splines are as smooth as they are best
    (`smoothness="auto"`) unless `options` say how smooth, or there is a prior.
    """
    if criterion not in ("cv", "aic", "bic"):
        raise ValueError(f'criterion = "{criterion}"; "cv", "aic" or "bic" is expected')
    scores, reasons = {}, {}
    for name in candidates:
        given = dict(options or {})
        if name.startswith("spline") and subjects is None and given.get("prior") is None:
            given.setdefault("smoothness", "auto")
        try:
            if subjects is not None:
                found = fit_population(
                    inputs, targets, subjects, name, leave_one_out=poses, **given
                )
                assert found.left_out is not None
                scores[name] = found.left_out.mean
            elif criterion == "cv":
                checked = cross_validate(inputs, targets, name, groups=groups, folds=folds, **given)
                scores[name] = checked.rms_all
            else:
                report = fit_rhythm(inputs, targets, name, **given).report
                scores[name] = getattr(report, criterion)
        except ValueError as error:
            scores[name], reasons[name] = np.inf, str(error)
    best = min(scores, key=scores.__getitem__)
    if not np.isfinite(scores[best]):
        raise ValueError(f"no family can be fitted; {best}: {reasons[best]}")
    return Choice(best, scores, reasons)
