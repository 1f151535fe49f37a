"""Inverse kinematics: the poses whose markers are nearest to those measured."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..model import Model
from ..simulation._loops import failing_softly
from ._least_squares import Normal, least_squares
from ._markers import MarkerSet, Places, marker_motion, model_markers

_LANES = 32
"""Stretches of a trial solved side by side."""
_STEPS = 8
"""Frames of a stretch, solved one after the other. The sizes are fixed, so that one compiled
function serves trials of every length."""
_KEYS = 128
"""Frames followed in order through the whole trial; stretches start from these."""


@dataclasses.dataclass(frozen=True)
class InverseKinematics:
    """Poses of all frames, and how well they fit."""

    q: Float[np.ndarray, "rows nq"]
    """Coordinates (rad or m); NaN in frames without any marker."""
    rms: Float[np.ndarray, " rows"]
    """Root of the mean squared distance of the visible markers with a weight (m)."""
    errors: Float[np.ndarray, "rows n"]
    """Distance of each marker from its measured place (m); NaN where it is missing."""
    converged: Bool[np.ndarray, " rows"]
    """Whether the last step was below the tolerance."""
    undetermined: Bool[np.ndarray, "rows nq"]
    """Coordinates that move no visible marker of the frame; they keep a neighbour's value."""
    marker_names: tuple[str, ...]
    """Markers that were used."""
    unused: tuple[str, ...]
    """Markers measured that the model has not."""

    @property
    def worst(self) -> tuple[str, int, float]:
        """Marker, row and distance (m) of the largest error."""
        errors = np.where(np.isfinite(self.errors), self.errors, -1.0)
        row, marker = np.unravel_index(int(np.argmax(errors)), errors.shape)
        return self.marker_names[marker], int(row), float(errors[row, marker])


def inverse_kinematics(
    model: Model,
    markers: Any,
    weights: Mapping[str, float] | None = None,
    q0: Any = None,
    *,
    places: Places | None = None,
    bounded: bool = True,
    tolerance: float | None = None,
    max_iterations: int = 50,
    progress: Callable[[int, int], None] | None = None,
) -> InverseKinematics:
    """Coordinates that minimise Σ w |x(q) - measured|² in every frame.

    Markers move with the coordinates through the rhythm, so couplers are exact and there
    is nothing to constrain. The first good frame is searched from many starts; then a few
    frames are followed in order, and all frames are solved side by side from these.

    **Arguments:**

    - `markers`: what was measured: an object with `names` and `positions` (rows, n, 3) in m,
      ground frame, such as `read_markers` gives, or a mapping from names to (rows, 3).
      NaN where a marker is not seen.
    - `weights`: by marker; 1 where nothing is said, 0 leaves a marker out (it still has an
      error in the result).
    - `q0`: a pose to start from, (nq,); the model's default pose if absent.
    - `places`: body and point (m, body frame) by marker, instead of the model's own.
    - `bounded`: whether coordinates stay in their ranges, those that the model's file clamps.
    - `tolerance`: step (rad or m), or share of the sum that a step gains, below which a
      frame counts as solved; 1.5e-8 in double precision if absent.
    - `progress`: called with the number of frames done and of all frames.

    **Raises:** `ValueError` for names and shapes that do not fit the model.
    """
    known = model_markers(model) if places is None else places
    measured, unused = _measured(markers, known)
    names = tuple(measured)
    weight = _weights(names, weights or {})
    points = np.stack([measured[name] for name in names], axis=1)
    seen = np.all(np.isfinite(points), axis=2)
    usable = np.any(seen & (weight[None] > 0), axis=1)
    if not usable.any():
        raise ValueError(f"no frame shows any of the markers {', '.join(names)}")
    dtype = np.dtype(jnp.asarray(0.0).dtype)
    if tolerance is None:
        tolerance = float(np.sqrt(np.finfo(dtype).eps))
    lower, upper = _bounds(model, bounded)
    solver = _Solver(
        model=failing_softly(model),
        markers=MarkerSet.of(model, names, places),
        lower=jnp.asarray(lower, dtype=dtype),
        upper=jnp.asarray(upper, dtype=dtype),
        tolerance=jnp.asarray(tolerance, dtype=float),
        max_iterations=max_iterations,
    )
    frames = _Frames(
        np.where(seen[..., None], points, 0.0).astype(dtype),
        np.where(seen, weight[None], 0.0).astype(dtype),
    )
    chosen = np.flatnonzero(usable)
    start = _first_pose(solver, frames, _default_pose(model, q0), chosen)
    keys = chosen[np.linspace(0, len(chosen) - 1, _KEYS).round().astype(int)]
    poses = _follow_keys(solver, frames, keys, start)
    result = _Result.empty(len(points), model.nq, len(names))
    count = -(-len(chosen) // _STEPS) * _STEPS
    # the last frame is repeated to fill up
    stretches = chosen[np.minimum(np.arange(count), len(chosen) - 1)].reshape(-1, _STEPS)
    nearest = np.abs(stretches[:, :1] - keys[None]).argmin(axis=1)
    _solve_stretches(solver, frames, stretches, poses[nearest], result, progress)
    _mend(solver, frames, chosen, result)
    result.q[~usable] = np.nan
    return _finish(result, seen, weight, names, unused)


class _Frames:
    """Measured points and weights of all frames (missing ones have weight zero)."""

    def __init__(self, points: np.ndarray, weights: np.ndarray):
        self.points, self.weights = points, weights

    def at(self, rows: np.ndarray) -> tuple[Array, Array]:
        """Points (steps, n, 3, lanes) and weights (steps, n, lanes) of rows (lanes, steps)."""
        points, weights = self.points[rows], self.weights[rows]
        return jnp.asarray(np.moveaxis(points, 0, -1)), jnp.asarray(np.moveaxis(weights, 0, -1))


@dataclasses.dataclass
class _Result:
    q: np.ndarray
    cost: np.ndarray
    errors: np.ndarray
    converged: np.ndarray
    undetermined: np.ndarray

    @staticmethod
    def empty(rows: int, nq: int, n: int) -> "_Result":
        return _Result(
            np.full((rows, nq), np.nan),
            np.full(rows, np.inf),
            np.full((rows, n), np.nan),
            np.zeros(rows, dtype=bool),
            np.ones((rows, nq), dtype=bool),
        )

    def put(self, rows: np.ndarray, of: tuple[np.ndarray, ...], better_only: bool) -> None:
        """Keep results of `rows`; a row may occur twice with the same result."""
        q, cost, errors, converged, undetermined = of
        # A gain within the rounding of the cost is none.
        take = (cost < self.cost[rows] * (1 - 1e-9)) | np.full(len(rows), not better_only)
        rows = rows[take]
        self.q[rows], self.cost[rows], self.errors[rows] = q[take], cost[take], errors[take]
        self.converged[rows], self.undetermined[rows] = converged[take], undetermined[take]


class _Solver(eqx.Module):
    model: Model
    markers: MarkerSet
    lower: Float[Array, " nq"]
    upper: Float[Array, " nq"]
    tolerance: Float[Array, ""]
    max_iterations: int = eqx.field(static=True)

    def solve(
        self, points: Float[Array, "n 3 lanes"], weights: Float[Array, "n lanes"], q0: Array
    ) -> Any:
        def normal(q: Array) -> Normal:
            position, jacobian = marker_motion(self.model, self.markers, q)
            gap = position - points
            pull = weights[:, None] * gap
            weighted = weights[:, None, None] * jacobian
            pairs = jacobian[:, :, :, None] * weighted[:, :, None]
            return Normal(
                0.5 * jnp.sum(pull * gap, axis=(0, 1)),
                jnp.sum(jacobian * pull[:, :, None], axis=(0, 1)),
                jnp.sum(pairs, axis=(0, 1)),
                jnp.sqrt(jnp.sum(gap * gap, axis=1)),
            )

        bounds = self.lower[:, None], self.upper[:, None]
        count = len(self.markers.names)
        return least_squares(normal, q0, count, *bounds, self.tolerance, self.max_iterations)


@eqx.filter_jit
def _follow(
    solver: _Solver,
    points: Float[Array, "steps n 3 lanes"],
    weights: Float[Array, "steps n lanes"],
    q0: Float[Array, "nq lanes"],
) -> tuple[Array, ...]:
    """Frames in order, each solved from the one before.

    Poses, costs, errors, whether converged, and what is undetermined; steps, then lanes first.
    """

    def one(q: Array, frame: tuple[Array, Array]) -> tuple[Array, tuple[Array, ...]]:
        found = solver.solve(*frame, q)
        cost, _, matrix, distances = found.normal
        seen = jnp.stack([matrix[i, i] for i in range(matrix.shape[0])])
        unseen = seen <= 1e-12 * jnp.max(seen, axis=0)[None]
        return found.q, (found.q.T, cost, distances.T, found.converged, unseen.T)

    return jax.lax.scan(one, q0, (points, weights))[1]


def _run(
    solver: _Solver, frames: _Frames, rows: np.ndarray, q0: np.ndarray
) -> tuple[np.ndarray, ...]:
    """`_follow` for rows (lanes, steps) from poses (lanes, nq); lanes first."""
    lanes = len(rows)
    rows, q0 = np.resize(rows, (_LANES, _STEPS)), np.resize(q0, (_LANES, q0.shape[1]))
    start = jnp.asarray(q0.T, dtype=frames.points.dtype)
    out = _follow(solver, *frames.at(rows), start)
    return tuple(np.moveaxis(np.asarray(x), 0, 1)[:lanes] for x in out)


def _solve_stretches(
    solver: _Solver,
    frames: _Frames,
    rows: np.ndarray,
    q0: np.ndarray,
    result: _Result,
    progress: Callable[[int, int], None] | None = None,
    better_only: bool = False,
) -> None:
    """Solve stretches of frames, rows (stretches, steps), from poses (stretches, nq)."""
    for first in range(0, len(rows), _LANES):
        part = slice(first, first + _LANES)
        out = _run(solver, frames, rows[part], q0[part])
        flat = tuple(x.reshape(-1, *x.shape[2:]) for x in out)
        result.put(rows[part].reshape(-1), flat, better_only)
        if progress is not None:
            done = min((first + _LANES) * _STEPS, rows.size)
            progress(done, rows.size)


def _follow_keys(
    solver: _Solver, frames: _Frames, keys: np.ndarray, q: np.ndarray
) -> Float[np.ndarray, "keys nq"]:
    poses = []
    for first in range(0, len(keys), _STEPS):
        found, *_ = _run(solver, frames, keys[None, first : first + _STEPS], q[None])
        poses.append(found[0])
        q = found[0, -1]
    return np.concatenate(poses)


def _first_pose(
    solver: _Solver, frames: _Frames, q0: np.ndarray, usable: np.ndarray
) -> Float[np.ndarray, " nq"]:
    """The best pose of the frame with most markers, searched from many starts."""
    count = np.sum(frames.weights[usable] > 0, axis=1)
    row = usable[int(np.argmax(count))]
    rows = np.full((_LANES, _STEPS), row)
    starts = _starts(q0, np.asarray(solver.lower), np.asarray(solver.upper))
    found = [_run(solver, frames, rows, part) for part in np.split(starts, 2)]
    q, cost = (np.concatenate([each[k][:, -1] for each in found]) for k in (0, 1))
    # Poses may look alike to the markers, such as turns by 180 degrees about all three axes:
    # of those that are as good as the best, the nearest to q0.
    good = np.flatnonzero(cost <= 1.01 * np.nanmin(cost) + 1e-12)
    return q[good[np.argmin(np.sum((q[good] - q0[None]) ** 2, axis=1))]]


def _starts(q0: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """q0, then poses ever farther from it, within the ranges."""
    rng = np.random.default_rng(0)
    low = np.where(np.isfinite(lower), lower, q0 - np.pi)
    high = np.where(np.isfinite(upper), upper, q0 + np.pi)
    drawn = rng.uniform(low, high, size=(2 * _LANES, len(q0)))
    share = np.linspace(0.0, 1.0, 2 * _LANES)[:, None]
    return (q0[None] + share * (drawn - q0[None])).astype(q0.dtype)


def _mend(solver: _Solver, frames: _Frames, rows: np.ndarray, result: _Result) -> None:
    """Solve frames that stand out once more, from the poses of their neighbours."""
    if len(rows) < 3:
        return
    cost = result.cost[rows]
    calm = result.converged[rows] & (cost <= 4.0 * np.median(cost) + 1e-12)
    odd = np.flatnonzero(~calm)
    good = np.flatnonzero(calm)
    if not (len(odd) and len(good)):
        return
    place = np.searchsorted(good, odd)
    for side in (good[np.maximum(place - 1, 0)], good[np.minimum(place, len(good) - 1)]):
        again = np.repeat(rows[odd][:, None], _STEPS, axis=1)
        _solve_stretches(solver, frames, again, result.q[rows[side]], result, better_only=True)


def _finish(
    result: _Result,
    seen: np.ndarray,
    weight: np.ndarray,
    names: tuple[str, ...],
    unused: tuple[str, ...],
) -> InverseKinematics:
    counted = seen & (weight[None] > 0)
    square = np.sum(np.where(counted, result.errors, 0.0) ** 2, axis=1)
    count = np.sum(counted, axis=1)
    rms = np.sqrt(square / np.maximum(count, 1))
    return InverseKinematics(
        q=result.q,
        rms=np.where(count > 0, rms, np.nan),
        errors=np.where(seen, result.errors, np.nan),
        converged=result.converged,
        undetermined=result.undetermined,
        marker_names=names,
        unused=unused,
    )


def _bounds(model: Model, bounded: bool) -> tuple[np.ndarray, np.ndarray]:
    """Ranges that hold: all of a model made by hand, those that a file clamps."""
    lower, upper = np.array(model.lower), np.array(model.upper)
    clamped = getattr(model.source, "clamped", (True,) * model.nq)
    free = ~(np.array(clamped, dtype=bool) & bounded)
    lower[free], upper[free] = -np.inf, np.inf
    return lower, upper


def _default_pose(model: Model, q0: Any) -> Float[np.ndarray, " nq"]:
    pose = np.asarray(model.default_q if q0 is None else q0, dtype=np.dtype(jnp.asarray(0.0).dtype))
    if pose.shape != (model.nq,):
        raise ValueError(f"q0 has shape {pose.shape} for {model.nq} coordinates")
    if not np.all(np.isfinite(pose)):
        raise ValueError("q0 holds a number that is not finite")
    return pose


def _measured(markers: Any, known: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Measured places of the markers that the model knows, and the names of the others."""
    if isinstance(markers, Mapping):
        tracks = {name: np.asarray(track, dtype=float) for name, track in markers.items()}
    else:
        positions = np.asarray(markers.positions, dtype=float)
        tracks = {name: positions[:, i] for i, name in enumerate(markers.names)}
    shapes = {track.shape for track in tracks.values()}
    if any(len(shape) != 2 or shape[1] != 3 for shape in shapes) or len(shapes) > 1:
        raise ValueError(f"markers need arrays (rows, 3) of one length, got {sorted(shapes)}")
    used = {name: track for name, track in tracks.items() if name in known}
    if not used:
        raise ValueError(
            f"none of the markers measured ({', '.join(tracks) or 'none'}) is one of the model's "
            f"({', '.join(known) or 'it has none'})"
        )
    return used, tuple(name for name in tracks if name not in used)


def _weights(names: tuple[str, ...], given: Mapping[str, float]) -> Float[np.ndarray, " n"]:
    for name, value in given.items():
        if name not in names:
            raise ValueError(f"weight of {name!r}: there is no such marker among {names}")
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(f"weight of {name!r} is {value}; a number from 0 up is needed")
    weight = np.array([given.get(name, 1.0) for name in names], dtype=float)
    if not np.any(weight > 0):
        raise ValueError("all markers have weight 0")
    return weight
