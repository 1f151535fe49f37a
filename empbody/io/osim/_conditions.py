"""Ranges of any coordinate of a file, as ranges of one that is free."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from ._context import Context
from ._expressions import Expression

SLACK = 1e-5
"""OpenSim widens the range of a conditional point by this much at both ends."""

_SAMPLES = 1000


@dataclass(frozen=True)
class Condition:
    """That a free coordinate is within a range; `words` where that is not all of the truth."""

    coordinate: str
    low: float
    high: float
    words: str = ""


def condition_on_free(
    context: Context, value: Expression, low: float, high: float
) -> Condition | bool | str:
    """low ≤ value ≤ high as a condition on one free coordinate.

    True or False where it always or never holds; a sentence where it cannot be expressed.
    """
    if not low <= high:
        return False
    low, high = low - SLACK, high + SLACK
    if value.is_constant:
        return low <= value.offset <= high
    names = sorted(value.inputs())
    if len(names) > 1:
        return f"its coordinate depends on several others ({', '.join(names)})"
    (name,) = names
    if value.is_affine:
        slope = value.slopes[name]
        ends = sorted(((low - value.offset) / slope, (high - value.offset) / slope))
        return Condition(name, ends[0], ends[1])
    return _through_curve(context, value, name, low, high)


def _through_curve(
    context: Context, value: Expression, name: str, low: float, high: float
) -> Condition | bool | str:
    """Ends of the range by root finding, within the free coordinate's own range."""
    first, last = context.spec.coordinates[name].range
    if not (np.isfinite(first) and np.isfinite(last) and first < last):
        first, last = -np.pi, np.pi
    rhythm, _ = context.rhythm([value])
    at = jax.jit(lambda t: rhythm(t[None])[0])
    grid = np.linspace(first, last, _SAMPLES + 1)
    values = np.asarray(jax.vmap(at)(jnp.asarray(grid)))
    inside = (values >= low) & (values <= high)
    if not inside.any():
        return False
    changes = np.flatnonzero(inside[1:] != inside[:-1])
    if len(changes) > 2 or (len(changes) == 2 and inside[0]):
        return f"its coordinate follows {name!r} up and down, through the range more than once"
    ends = [-np.inf, np.inf]
    for k in changes:
        bound = low if min(values[k], values[k + 1]) < low else high
        root = brentq(lambda t, b=bound: float(at(jnp.asarray(t))) - b, grid[k], grid[k + 1])
        ends[0 if inside[k + 1] else 1] = float(root)  # pyright: ignore[reportArgumentType]
    rises = np.all(np.diff(values) >= 0.0) or np.all(np.diff(values) <= 0.0)
    words = f"its coordinate is a function of {name!r}; the range is that of {name!r}"
    if not rises:
        words += ", right within the range of that coordinate"
    return Condition(name, ends[0], ends[1], words)
