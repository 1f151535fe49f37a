"""Makes tables of path lengths, and says how good they are."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model, PathSet, PathTable
from ._lengths import lengths_and_arms

_CHUNK = 2048
_TRIALS = 1024
_NOTHING = 1e-12
"""Moment arm (m) that is rounding."""
_MOST = 4
"""Coordinates of a table."""
_ROOM = 4_000_000
"""Grid points of a table at most."""
Samples = tuple[Float[np.ndarray, "n nm"], Float[np.ndarray, "n nq nm"]]


@dataclass(frozen=True)
class TableError:
    """How far a unit's table is from its path, at random poses inside the table."""

    name: str
    coordinates: tuple[str, ...]
    """Those that move the unit."""
    length: tuple[float, float, float]
    """m: half of the poses are within the first, 99 of 100 within the second; the largest."""
    arm: tuple[float, float, float]
    """The same for moment arms (m, or m per m), the worst coordinate of each pose."""


class Tabulated(NamedTuple):
    model: Model
    """The model with its lengths and moment arms from tables."""
    errors: tuple[TableError, ...]

    def __str__(self) -> str:
        lines = [f"{'':12}{'length (mm)':^30}{'moment arm (mm)':^30}"]
        lines.append(f"{'':12}" + f"{'median':>10}{'99 %':>10}{'most':>10}" * 2)
        for e in self.errors:
            numbers = "".join(f"{1e3 * x:10.2g}" for x in (*e.length, *e.arm))
            lines.append(f"{e.name:12}{numbers}")
        return "\n".join(lines)


def tabulate_paths(
    model: Model,
    *,
    step: float | Mapping[str, float] = 0.1,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    muscles: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    seed: int = 0,
) -> Tabulated:
    """Lengths of wrapped paths on a grid of coordinates, for speed.

    Lengths, lengthening speeds and moment arms of the model that is returned come from cubic
    splines through the grid. R is exactly -∂L/∂q of these lengths, so work and energy still
    balance; both differ from the wrapped path's by what `errors` says, most where contact
    begins or ends (the splines round corners off) and where the path itself jumps.

    A table holds for the numbers that the model had: paths, surfaces, placements and rhythm. It
    does not follow edits of these, and derivatives to them are zero: tabulate anew. Drawing
    and `check_paths` go on using the paths themselves.

    **Arguments:**

    - `step`: largest distance of grid points (rad, or m), one for all coordinates or by name.
      Halving it makes errors 8 to 16 times smaller where the path is smooth, half where not.
    - `ranges`: by coordinate, in place of the model's own range. Outside, functions raise where
      numbers can be looked at, and go on linearly where not.
    - `muscles`: names; those with surfaces if absent. The others stay as they are.
    - `progress(done, total)`: called after every few poses.
    - `seed`: of the random poses at which errors are measured.

    **Raises:** `ValueError` for a coordinate without a finite range, for a unit that more than
    four coordinates move, and for tables that would be too large.
    """
    exact = _with_tables(model, ())
    units = _units(exact, muscles)
    sample = _sampler(exact)
    low, high = _ends(exact, ranges or {})
    rng = np.random.default_rng(seed)
    open_ended = ~(np.isfinite(low) & np.isfinite(high))
    # Coordinates without a range are allowed where they move nothing that is tabulated.
    spread = np.where(open_ended, 1.0, high - low)
    start = np.where(open_ended, np.asarray(exact.default_q), low)
    trials = start + spread * rng.uniform(size=(_TRIALS, exact.nq))
    lengths, arms = sample(trials, None)
    moves = np.any(np.abs(arms) > _NOTHING, axis=0)
    groups: dict[tuple[int, ...], list[int]] = {}
    for unit in units:
        groups.setdefault(tuple(np.flatnonzero(moves[:, unit]).tolist()), []).append(unit)
    grids = {key: _grid(exact, key, members, low, high, step) for key, members in groups.items()}
    total, done, tables = sum(g.size for g in grids.values()), 0, []
    for key, members in groups.items():
        grid = grids[key]
        count = done

        def advance(rows: int, count: int = count) -> None:
            if progress is not None:
                progress(count + rows, total)

        poses = np.broadcast_to(start, (grid.size, exact.nq)).copy()
        poses[:, list(key)] = grid.points()
        values = sample(poses, advance)[0][:, members]
        done += grid.size
        tables.append(_table(grid, values, key, members))
    made = _with_tables(exact, tuple(tables))
    found = _sampler(made)(trials, None)
    return Tabulated(made, _errors(made, units, moves, found, (lengths, arms)))


def _with_tables(model: Model, tables: tuple[PathTable, ...]) -> Model:
    paths = dataclasses.replace(model.paths, tables=tables)
    return eqx.tree_at(lambda m: m.paths, model, paths, is_leaf=lambda x: isinstance(x, PathSet))


def _units(model: Model, muscles: Sequence[str] | None) -> list[int]:
    if muscles is not None:
        return sorted({model.muscle_index(name) for name in muscles})
    layout = model.paths.layout
    wrapped = {w.unit for w in layout.wraps if layout.surfaces[w.surface].active}
    if not wrapped:
        raise ValueError(
            "no path of the model slides over a surface, and straight ones are quick as they "
            "are; name muscles= to tabulate them all the same"
        )
    return sorted(wrapped)


def _ends(
    model: Model, ranges: Mapping[str, tuple[float, float]]
) -> tuple[Float[np.ndarray, " nq"], Float[np.ndarray, " nq"]]:
    known_low, known_high = model.paths.known_range()
    low = np.maximum(np.asarray(model.lower), np.asarray(known_low))
    high = np.minimum(np.asarray(model.upper), np.asarray(known_high))
    for name, (first, last) in ranges.items():
        if not first < last:
            raise ValueError(f"range of coordinate {name!r} is empty: {first} ... {last}")
        k = model.coordinate_index(name)
        low[k], high[k] = first, last
    return low, high


@dataclass(frozen=True)
class _Grid:
    low: np.ndarray
    step: np.ndarray
    counts: tuple[int, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.counts, dtype=float))

    def points(self) -> Float[np.ndarray, "n nd"]:
        axes = [
            a + h * np.arange(n) for a, h, n in zip(self.low, self.step, self.counts, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _grid(
    model: Model,
    key: tuple[int, ...],
    members: Sequence[int],
    low: np.ndarray,
    high: np.ndarray,
    step: float | Mapping[str, float],
) -> _Grid:
    names = [model.coordinate_names[k] for k in key]
    first = model.muscle_names[members[0]]
    if len(key) > _MOST:
        raise ValueError(
            f"{first!r} is moved by {len(key)} coordinates ({', '.join(names)}); a table has at "
            f"most {_MOST}: lock some, or leave it out with muscles="
        )
    if not key:
        raise ValueError(f"{first!r} does not move with any coordinate; leave it out with muscles=")
    for k, name in zip(key, names, strict=True):
        if not (np.isfinite(low[k]) and np.isfinite(high[k])):
            raise ValueError(f"coordinate {name!r} has no range; give ranges={{{name!r}: (a, b)}}")
    wanted = [step.get(name, 0.1) if isinstance(step, Mapping) else step for name in names]
    if min(wanted) <= 0.0:
        raise ValueError(f"step is {min(wanted)}; grid points are a positive distance apart")
    at = np.array(key)
    width = high[at] - low[at]
    # Five points carry a cubic with its two end conditions.
    cells = np.maximum(np.ceil(width / np.array(wanted) - 1e-9), 4).astype(int)
    grid = _Grid(low[at], width / cells, tuple((cells + 1).tolist()))
    if grid.size > _ROOM:
        raise ValueError(
            f"the table of {first!r} over {', '.join(names)} would have {grid.size:,} points; "
            f"at most {_ROOM:,} are made: give a larger step"
        )
    return grid


def _table(
    grid: _Grid, values: Float[np.ndarray, "n nu"], key: tuple[int, ...], members: Sequence[int]
) -> PathTable:
    coefficients = values.reshape(*grid.counts, -1)
    for axis in range(len(grid.counts)):
        moved = np.moveaxis(coefficients, axis, 0)
        coefficients = np.moveaxis(_interpolate(moved), 0, axis)
    return PathTable(
        low=jnp.asarray(grid.low),
        step=jnp.asarray(grid.step),
        coefficients=jnp.asarray(coefficients),
        coordinates=key,
        units=tuple(members),
    )


def _interpolate(values: Float[np.ndarray, "n *rest"]) -> Float[np.ndarray, "m *rest"]:
    """B-spline coefficients through evenly spaced values; the second and the last but one are
    no breakpoints (not-a-knot)."""
    n = len(values)
    matrix = np.zeros((n + 2, n + 2))
    matrix[0, :5] = matrix[-1, -5:] = [1.0, -4.0, 6.0, -4.0, 1.0]
    for k in range(n):
        matrix[k + 1, k : k + 3] = np.array([1.0, 4.0, 1.0]) / 6.0
    right = np.zeros((n + 2, *values.shape[1:]))
    right[1:-1] = values
    return np.linalg.solve(matrix, right.reshape(n + 2, -1)).reshape(right.shape)


def _sampler(model: Model) -> Callable[[np.ndarray, Callable[[int], None] | None], Samples]:
    """Lengths and moment arms at many poses, chunk by chunk, with one compiled function."""
    small = eqx.tree_at(lambda m: m.muscles, model, None, is_leaf=lambda x: x is None)

    def sample(poses: np.ndarray, advance: Callable[[int], None] | None) -> Samples:
        lengths, arms = [], []
        for first in range(0, len(poses), _CHUNK):
            rows = poses[first : first + _CHUNK]
            padded = np.concatenate([rows, np.repeat(rows[-1:], _CHUNK - len(rows), axis=0)])
            found = _at_poses(small, jnp.asarray(padded))
            lengths.append(np.asarray(found[0])[: len(rows)])
            arms.append(np.asarray(found[1])[: len(rows)])
            if advance is not None:
                advance(first + len(rows))
        return np.concatenate(lengths), np.concatenate(arms)

    return sample


@eqx.filter_jit
def _at_poses(model: Model, q: Float[Array, "n nq"]) -> tuple[Array, Array]:
    return jax.vmap(lambda q: lengths_and_arms(model, q))(q)


def _errors(
    model: Model, units: Sequence[int], moves: np.ndarray, found: Samples, true: Samples
) -> tuple[TableError, ...]:
    out = []
    for unit in units:
        length = np.abs(found[0][:, unit] - true[0][:, unit])
        arm = np.abs(found[1][:, :, unit] - true[1][:, :, unit]).max(axis=1)
        names = tuple(model.coordinate_names[k] for k in np.flatnonzero(moves[:, unit]))
        out.append(TableError(model.muscle_names[unit], names, _summary(length), _summary(arm)))
    return tuple(out)


def _summary(error: np.ndarray) -> tuple[float, float, float]:
    return float(np.median(error)), float(np.percentile(error, 99.0)), float(error.max())
