"""Which few poses of a subject to measure."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ._checks import as_table
from ._features import linearise
from ._prior import Prior

_ROUNDS = 5
_CANDIDATES = 400


def choose_poses(inputs: Any, count: int, prior: Prior | None = None) -> Int[np.ndarray, " count"]:
    """Rows of `inputs` (n, nq) at which to measure, spread over the inputs; targets are not
    looked at.

    Without a prior, each pose is as far as possible from those before it, with inputs scaled
    to their ranges. With a prior, the poses after which the curves are known best: least
    expected variance of the fitted rhythm, averaged over all rows (I-optimal design, by
    greedy choice and exchange).
    """
    xs = as_table("inputs", inputs, None)
    if not 1 <= count <= len(xs):
        raise ValueError(f"{count} poses of {len(xs)} rows; between 1 and {len(xs)} can be chosen")
    if prior is None:
        return _far_apart(xs, count)
    _, features = linearise(prior.rhythm, xs)
    return most_telling(features @ prior.factor(), np.asarray(prior.noise), count)


def _far_apart(xs: np.ndarray, count: int) -> np.ndarray:
    span = np.ptp(xs, axis=0)
    x = (xs - xs.min(axis=0)) / np.where(span > 0, span, 1.0)
    chosen = [int(np.argmax(((x - 0.5) ** 2).sum(axis=1)))]
    nearest = np.full(len(x), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, ((x - x[chosen[-1]]) ** 2).sum(axis=1))
        nearest[chosen] = -1.0
        chosen.append(int(np.argmax(nearest)))
    return np.sort(np.asarray(chosen))


def most_telling(
    features: Float[np.ndarray, "n k r"], noise: Float[np.ndarray, " k"], count: int
) -> Int[np.ndarray, " count"]:
    """Rows whose measurement leaves the least mean variance of features @ z, z ~ N(0, 1)."""
    rows, columns, size = features.shape
    flat = features.reshape(-1, size)
    # Variance is weighed by the targets' noise, as the fit weighs residuals.
    scale = np.broadcast_to(noise, (rows, columns)).reshape(-1, 1)
    wanted = (flat / scale).T @ (flat / scale) / rows
    candidates = np.unique(np.linspace(0, rows - 1, min(rows, _CANDIDATES)).astype(int))
    options = features[candidates]
    chosen: list[int] = []
    for _ in range(count):
        chosen.append(_best(options, noise, wanted, chosen))
    for _ in range(_ROUNDS):
        before = list(chosen)
        for k in range(count):
            chosen[k] = _best(options, noise, wanted, chosen[:k] + chosen[k + 1 :])
        if chosen == before:
            break
    return np.sort(candidates[chosen])


def _best(
    options: Float[np.ndarray, "c k r"],
    noise: Float[np.ndarray, " k"],
    wanted: Float[np.ndarray, "r r"],
    chosen: list[int],
) -> int:
    """The candidate that lowers the wanted variance most, given those chosen."""
    size, columns = options.shape[2], options.shape[1]
    variance = np.eye(size)
    extra = np.diag(np.broadcast_to(noise, (columns,)) ** 2)
    if chosen:
        rows = options[chosen].reshape(-1, size)
        whole = rows @ rows.T + np.kron(np.eye(len(chosen)), extra)
        variance -= rows.T @ np.linalg.solve(whole, rows)
    reach = options @ variance  # (c, k, r)
    scatter = reach @ np.swapaxes(options, 1, 2) + extra[None]
    gain = np.linalg.solve(scatter, (reach @ wanted) @ np.swapaxes(reach, 1, 2))
    lowered = np.trace(gain, axis1=1, axis2=2)
    lowered[chosen] = -np.inf
    return int(np.argmax(lowered))
