"""Motions of a model: coordinates over time, from files and to files."""

import dataclasses
import os
import pathlib
import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from .. import signals
from ..model import Model
from . import _matching, _text
from ._csv import read_csv, write_columns
from ._errors import FileFormatError
from ._storage import read_storage, write_storage
from ._table import Table

_DEGREES = 180.0 / np.pi
# Two full turns: joints do not go further, and 13 degrees is soon passed.
_MOST_RADIANS = 4.0 * np.pi
_FEW_DEGREES = 7.0


@dataclasses.dataclass(frozen=True)
class Remedies:
    """What to do about a file, in the words of whoever reads it; these are Python's."""

    missing: str = "missing='default' holds them at the model's default"
    gaps: str = "gaps='interpolate' fills gaps between rows"
    degrees: str = "give degrees=True"
    radians: str = "give degrees=False"
    coupled: str = "name what is not to be converted in translational=(...)"


_PYTHON = Remedies()


@dataclasses.dataclass(frozen=True)
class Motion:
    """A model's coordinates over time: radians and metres, whatever the file had.

    `q[i, j]` is coordinate `coordinates[j]` at `time[i]` (s, strictly increasing);
    `rotational[j]` says whether it is an angle.
    """

    time: Float[np.ndarray, " rows"]
    q: Float[np.ndarray, "rows nq"]
    coordinates: tuple[str, ...]
    rotational: tuple[bool, ...]
    qd: Float[np.ndarray, "rows nq"] | None = None
    """Speeds, where the file has them for all coordinates (rad/s, m/s)."""
    labels: tuple[str | None, ...] = ()
    """The file's label of each coordinate; None where the file has none."""
    extra: tuple[str, ...] = ()
    """Labels of the file that are no coordinate of the model."""
    filled: tuple[str, ...] = ()
    """Coordinates that are not in the file and were given the model's default."""
    warnings: tuple[str, ...] = ()
    """What looked wrong, in words."""
    name: str = "motion"

    def __post_init__(self):
        shape = (np.size(self.time), len(self.coordinates))
        if np.shape(self.q) != shape:
            raise ValueError(
                f"{shape[0]} times and {shape[1]} coordinates for q of shape {np.shape(self.q)}"
            )
        if self.qd is not None and np.shape(self.qd) != shape:
            raise ValueError(f"qd has the shape {np.shape(self.qd)} and q {shape}")
        if len(self.rotational) != shape[1]:
            raise ValueError(f"{len(self.rotational)} kinds for {shape[1]} coordinates")

    @staticmethod
    def of(model: Model, time, q, qd=None, name: str = "motion") -> "Motion":
        """A motion of a model from arrays: times (rows,) and coordinates (rows, nq)."""
        return Motion(
            time=np.asarray(time, dtype=float),
            q=np.asarray(q, dtype=float),
            coordinates=model.coordinate_names,
            rotational=tuple(_matching.rotational(model).tolist()),
            qd=None if qd is None else np.asarray(qd, dtype=float),
            labels=model.coordinate_names,
            name=name,
        )

    def coordinate(self, name: str) -> Float[np.ndarray, " rows"]:
        """One coordinate over time."""
        if name not in self.coordinates:
            raise ValueError(f"no coordinate {name!r}; there are {_text.some(self.coordinates)}")
        return self.q[:, self.coordinates.index(name)]


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a .mot, .sto or .csv file as it stands."""
    suffix = pathlib.Path(path).suffix.lower()
    readers = {".mot": read_storage, ".sto": read_storage, ".csv": read_csv}
    if suffix not in readers:
        raise FileFormatError(path, f"tables are read from .mot, .sto and .csv, not {suffix!r}")
    return readers[suffix](path)


def read_motion(
    path: str | os.PathLike[str],
    model: Model,
    *,
    missing: Literal["raise", "default"] = "raise",
    gaps: Literal["raise", "interpolate"] = "raise",
    longest_gap: float | None = None,
    degrees: bool | None = None,
    translational: Sequence[str] | None = None,
    remedies: Remedies = _PYTHON,
) -> Motion:
    """Read a model's motion from a .mot, .sto or .csv file.

    Columns are found by the coordinates' names, bare or as OpenSim's paths; they may stand
    in any order, and others may stand beside them (see `Motion.extra`). Angles become
    radians; translational coordinates are metres and never converted.

    **Arguments:**

    - `path`, `model`: the file and the model whose coordinates are wanted.
    - `missing`: what to do about coordinates without a column: "raise", or "default" to
      hold them at the model's default value.
    - `gaps`: what to do about NaN: "raise", or "interpolate" across gaps between rows by a
      cubic spline. Gaps at the ends cannot be interpolated and raise.
    - `longest_gap`: duration (s) of the longest gap to interpolate; None for any.
    - `degrees`: True or False overrides what the file says of its unit; not for .csv, whose
      labels say it.
    - `translational`: names of the coordinates that are not to be converted. None asks the
      model: lengths, and what OpenSim calls "coupled", which it never converts either.
    - `remedies`: words for messages, where the caller is no Python program.

    **Raises:** `FileFormatError`, naming file, line and column; also if angles in radians, by
    the file's word, go two turns beyond the range of their coordinate.

    **Warns:** if the numbers do not look like the unit that the file claims.
    """
    _check_choice("missing", missing, ("raise", "default"))
    _check_choice("gaps", gaps, ("raise", "interpolate"))
    table = read_table(path)
    if degrees is not None:
        if pathlib.Path(path).suffix.lower() == ".csv":
            raise ValueError("a .csv file says its units in its labels: leave degrees out")
        table = dataclasses.replace(table, in_degrees=degrees, unit_is_stated=True)
    names = model.coordinate_names
    columns, absent = _match(table, names, missing, remedies)
    kinds = _kinds(model, translational)
    q = np.repeat(_matching.default_values(model)[None, :], table.time.size, axis=0)
    here = [i for i, j in enumerate(columns.values) if j >= 0]
    found = _clean(table, [columns.values[i] for i in here], gaps, longest_gap, remedies)
    if degrees is None and not table.in_degrees:
        _refuse_degrees(table, model, columns.values, [i for i in here if kinds[i]], remedies)
    words = _unit_warnings(table, found[:, kinds[here]], remedies)
    if table.in_degrees and translational is None:
        words += _coupled_warnings(table, model, here, found, remedies)
    scale = np.where(kinds & table.in_degrees, 1.0 / _DEGREES, 1.0)
    q[:, here] = found * scale[None, here]
    qd = None
    if min(columns.speeds) >= 0:
        speeds = _clean(table, list(columns.speeds), gaps, longest_gap, remedies)
        qd = speeds * scale[None, :]
    for text in words:
        warnings.warn(text, stacklevel=2)
    return Motion(
        time=table.time,
        q=q,
        coordinates=names,
        rotational=tuple(kinds.tolist()),
        qd=qd,
        labels=tuple(table.labels[j] if j >= 0 else None for j in columns.values),
        extra=columns.extra,
        filled=absent,
        warnings=words,
        name=table.name,
    )


def write_motion(path: str | os.PathLike[str], motion: Motion, *, degrees: bool = True) -> None:
    """Write a motion to a .mot, .sto or .csv file, by the coordinates' names.

    **Arguments:**

    - `degrees`: whether angles are written in degrees, as OpenSim's own motions are. In a
      .csv file, labels of angles in degrees end in `_deg`.

    Numbers have 17 significant digits, so radians come back exactly. Speeds are not written.
    """
    turned = np.array(motion.rotational, dtype=bool) & degrees
    values = motion.q * np.where(turned, _DEGREES, 1.0)[None, :]
    suffix = pathlib.Path(path).suffix.lower()
    if suffix in (".mot", ".sto"):
        table = Table(motion.time, motion.coordinates, values, degrees, motion.name)
        write_storage(path, table)
    elif suffix == ".csv":
        marks = np.where(turned, "_deg", "").tolist()
        labels = [name + mark for name, mark in zip(motion.coordinates, marks, strict=True)]
        write_columns(path, motion.time, labels, values)
    else:
        where = os.fspath(path)
        raise ValueError(f"{where}: motions are written to .mot, .sto and .csv, not {suffix!r}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(choices)}")


def _fail(table: Table, problem: str, row: int | None = None, column: str | None = None):
    origin = table.origin
    path = table.name if origin is None else origin.path
    line = None
    if origin is not None:
        # Times made from a range have rows too, so every row has its line.
        line = origin.label_line if row is None else origin.lines[row]
    return FileFormatError(path, problem, line=line, column=column)


def _match(
    table: Table, names: tuple[str, ...], missing: str, remedies: Remedies
) -> tuple[_matching.Columns, tuple[str, ...]]:
    try:
        columns = _matching.match(table.labels, names)
    except ValueError as error:
        raise _fail(table, str(error)) from None
    absent = tuple(names[i] for i, j in enumerate(columns.values) if j < 0)
    if absent and (missing == "raise" or len(absent) == len(names)):
        words = _matching.explain_missing(absent, names, table.labels, columns.extra)
        if len(absent) < len(names):
            words += f"; {remedies.missing}"
        raise _fail(table, words)
    if not table.time.size:
        raise _fail(table, "no rows of data")
    return columns, absent


def _kinds(model: Model, translational: Sequence[str] | None) -> np.ndarray:
    if translational is None:
        return _matching.rotational(model)
    for name in translational:
        model.coordinate_index(name)
    return np.array([name not in translational for name in model.coordinate_names])


def _clean(
    table: Table, chosen: list[int], gaps: str, longest: float | None, remedies: Remedies
) -> Float[np.ndarray, "rows chosen"]:
    """The chosen columns, finite everywhere."""
    values = table.data[:, chosen]
    if np.any(np.isinf(values)):
        row, k = (int(x) for x in np.argwhere(np.isinf(values))[0])
        raise _fail(table, "the value is infinite", row, table.labels[chosen[k]])
    if gaps == "interpolate":
        values = signals.fill_gaps(table.time, values, longest=longest)
    left = signals.find_gaps(table.time, values)
    if not left:
        return values
    gap = left[0]
    rows = f"rows {gap.first + 1} to {gap.last + 1}" if gap.last > gap.first else "this row"
    words = f"the value is missing (NaN) in {rows}"
    if len(left) > 1:
        words += f", and there are {len(left) - 1} more gaps"
    if gaps == "raise":
        words += f"; {remedies.gaps}"
    elif gap.at_end:
        words += "; a gap at an end cannot be interpolated: cut those rows off"
    else:
        words += f"; the gap lasts {gap.duration:.3g} s, more than longest_gap"
    raise _fail(table, words, gap.first, table.labels[chosen[gap.column]])


def _refuse_degrees(
    table: Table, model: Model, columns: Sequence[int], angles: Sequence[int], remedies: Remedies
) -> None:
    """Radians two turns beyond a coordinate's range are no motion of this model."""
    for i in angles:
        low, high = float(model.lower[i]), float(model.upper[i])
        values = table.data[:, columns[i]]
        beyond = (values < low - _MOST_RADIANS) | (values > high + _MOST_RADIANS)
        if not (np.isfinite(low) and np.isfinite(high) and beyond.any()):
            continue
        row = int(np.argmax(beyond))
        said = "the file says" if table.unit_is_stated else "for want of 'inDegrees' it is taken"
        raise _fail(
            table,
            f"{said} that angles are in radians, but {values[row]:.4g} is "
            f"{abs(values[row]) / (2 * np.pi):.1f} turns, and {model.coordinate_names[i]} goes "
            f"from {low:.3g} to {high:.3g} rad; if these are degrees, "
            f"{_in_degrees(table, remedies)}; if not, widen the range in the model",
            row,
            table.labels[columns[i]],
        )


def _in_degrees(table: Table, remedies: Remedies) -> str:
    path = table.name if table.origin is None else table.origin.path
    return "let their labels end in _deg" if path[-4:].lower() == ".csv" else remedies.degrees


def _unit_warnings(table: Table, angles: np.ndarray, remedies: Remedies) -> tuple[str, ...]:
    """Words about angles that do not look like the unit they are said to be in."""
    if not angles.size:
        return ()
    where = table.name if table.origin is None else table.origin.path
    largest = float(np.max(np.abs(angles)))
    said = "the file says" if table.unit_is_stated else "for want of 'inDegrees' it is taken"
    if table.in_degrees and 0.0 < largest <= _FEW_DEGREES:
        return (
            f"{where}: {said} that angles are in degrees, but all lie within "
            f"±{largest:.3g}: if they are radians, {remedies.radians}",
        )
    if not table.in_degrees and largest > _MOST_RADIANS:
        return (
            f"{where}: {said} that angles are in radians, but they reach {largest:.4g}, "
            f"{largest / (2 * np.pi):.1f} turns: if they are degrees, "
            f"{_in_degrees(table, remedies)}",
        )
    return ()


def _coupled_warnings(
    table: Table, model: Model, here: list[int], found: np.ndarray, remedies: Remedies
) -> tuple[str, ...]:
    """Words about coordinates that are left as they are and look like degrees."""
    coupled = _matching.coupled(model)[here]
    large = np.max(np.abs(found), axis=0) > _MOST_RADIANS
    names = [model.coordinate_names[here[k]] for k in np.flatnonzero(coupled & large)]
    if not names:
        return ()
    where = table.name if table.origin is None else table.origin.path
    return (
        f"{where}: {_text.some(names)}: no joint turns by just these coordinates, so that they "
        "are not converted from degrees, as in OpenSim; but they look like degrees. If they "
        f"are, {remedies.coupled}",
    )
