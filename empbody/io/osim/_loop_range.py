"""Over which ranges a loop can be followed from its default pose."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ...rhythms import Implicit
from ...rhythms._continuation import follow
from ...rhythms._predictor import TaylorTable
from ._loops import LoopClosure, errors_and_slopes
from ._report import Notes
from ._spec import CoordinateSpec
from ._ties import Tie

_CELLS = {1: 64, 2: 32, 3: 12, 4: 6, 5: 4}
_MOST_NODES = 40_000
_MARGIN = 0.1
"""How far beyond its ends a range is followed where the loop allows it."""
_SHRINK = 0.85


def implicit(
    closure: LoopClosure,
    q: np.ndarray,
    f: np.ndarray,
    held: Sequence[CoordinateSpec],
    group: Sequence[Tie],
    notes: Notes,
) -> tuple[Implicit, dict[str, tuple[float, float]]]:
    """The loop as a rhythm over the ranges of its free coordinates, and how far it goes.

    Ranges are shortened where the loop folds within them, and the report says so.
    """
    n = len(held)
    names = [given.name for given in held]
    wanted = [_wanted(given, x) for given, x in zip(held, q, strict=True)]
    if n == 1 and held[0].rotational and wanted[0][1] - wanted[0][0] >= 2.0 * np.pi - 1e-6:
        ends = q - np.pi, q + np.pi
        try:
            rhythm = Implicit.build(closure, q, f, *ends, n=128, periodic=True, coordinates=names)
        except ValueError:
            wanted = [(float(ends[0][0]), float(ends[1][0]))]
        else:
            _check(rhythm, closure, group)
            return rhythm, {}
    reach = np.asarray(wanted)
    problem = "the loop cannot be followed"
    for attempt in range(16):
        low, high = reach.T
        cells = _CELLS[n]
        while (cells + 1) ** n <= _MOST_NODES:
            try:
                rhythm = Implicit.build(
                    closure, q, f, low, high, n=cells, newton=2 if n == 1 else 4, coordinates=names
                )
            except ValueError as error:
                problem = str(error)
                if not problem.startswith("table too coarse"):
                    break
                cells *= 2
                continue
            _check(rhythm, closure, group)
            return rhythm, _narrowed(held, reach, group, notes)
        if attempt == 0:
            reach = np.asarray([_reach(closure, q, f, k, *ends) for k, ends in enumerate(wanted)])
        else:
            reach = q[:, None] + _SHRINK * (reach - q[:, None])
    first = group[0].node
    first.fail(f"{first.label} cannot be followed from the default pose: {problem}")


def _wanted(given: CoordinateSpec, at: float) -> tuple[float, float]:
    low, high = given.range
    around = 1.0 if given.motion == "translational" else np.pi
    low, high = (
        (low if np.isfinite(low) else at - around),
        (high if np.isfinite(high) else at + around),
    )
    low, high = min(low, at), max(high, at)
    margin = max(_MARGIN * (high - low), 1e-3)
    return low - margin, high + margin


def _reach(
    closure: LoopClosure, q: np.ndarray, f: np.ndarray, k: int, low: float, high: float
) -> tuple[float, float]:
    """How far one coordinate goes towards both ends while the others rest."""
    found = []
    for end in (low, high):
        fraction = 1.0
        while fraction > 1e-3:
            axes = [np.asarray([x]) for x in q]
            axes[k] = np.linspace(q[k], q[k] + fraction * (end - q[k]), 9)
            try:
                follow(closure, q, f, axes)
                break
            except ValueError:
                fraction *= _SHRINK
        found.append(float(q[k] + fraction * (end - q[k])))
    return found[0], found[1]


def _narrowed(
    held: Sequence[CoordinateSpec], reach: np.ndarray, group: Sequence[Tie], notes: Notes
) -> dict[str, tuple[float, float]]:
    """Ranges that are shorter than the file's, with a note for the report."""
    out = {}
    for given, (low, high) in zip(held, reach.tolist(), strict=True):
        ends = max(low, given.range[0]), min(high, given.range[1])
        if not ends[0] < ends[1]:  # the loop closes outside the file's range only
            ends = low, high
        if ends != given.range:
            out[given.name] = ends
            for tie in group:
                words = f"the loop is closed for {given.name} from {low:.4g} to {high:.4g} only"
                notes.add("approximated", tie.node, words)
    return out


def _check(rhythm: Implicit, closure: LoopClosure, group: Sequence[Tie]) -> None:
    """All errors must vanish wherever the independent ones do."""
    # f at the nodes of the table
    values = np.asarray(rhythm.table.coefficients[:, 0], dtype=np.float64)
    low, high = np.asarray(rhythm.lower), np.asarray(rhythm.upper)
    shape = rhythm.table.shape if isinstance(rhythm.table, TaylorTable) else (len(values) + 1,)
    worst = np.zeros(1)
    for k in np.linspace(0, len(values) - 1, 17).astype(int):
        node = np.asarray(np.unravel_index(k, shape)) / (np.asarray(shape) - 1)
        x = np.array(closure.pose, dtype=np.float64)
        x[list(closure.places)] = np.concatenate([low + (high - low) * node, values[k]])
        worst = np.maximum(worst, np.abs(errors_and_slopes(closure.errors, x)[0]).max())
    if np.max(worst) <= 1e6 * float(jnp.finfo(jnp.zeros(()).dtype).eps):
        return
    first = group[0].node
    first.fail(
        f"{first.label} can be met at the default pose but not around it (it opens by "
        f"{np.max(worst):.2g}, m or rad): the default pose is singular, or the loop is locked; "
        "give another default pose"
    )
