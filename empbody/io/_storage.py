"""OpenSim's storage files: .sto (results) and .mot (motions)."""

import dataclasses
import math
import os
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float

from ._atomic import replacing
from ._errors import FileFormatError

_FLAGS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
# SIMM's older spelling of the counts.
_SYNONYMS = {"datarows": "nrows", "datacolumns": "ncolumns"}


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns over time, as a .sto or .mot file holds them.

    `data[i, j]` is column `labels[j]` at `time[i]` (s, strictly increasing). Angles are in
    degrees if `in_degrees`; see `in_radians`. The time column has no entry in `labels`.
    """

    time: Float[np.ndarray, " rows"]
    labels: tuple[str, ...]
    data: Float[np.ndarray, "rows columns"]
    in_degrees: bool = False
    name: str = "table"

    def __post_init__(self):
        object.__setattr__(self, "time", np.asarray(self.time, dtype=float))
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "data", np.asarray(self.data, dtype=float))
        shape = (self.time.size, len(self.labels))
        if self.time.ndim != 1 or self.data.shape != shape:
            raise ValueError(
                f"table {self.name!r}: {self.time.size} times and {len(self.labels)} labels "
                f"for data of shape {self.data.shape}"
            )
        for label in self.labels:
            if not label.strip() or any(c in label for c in "\t\r\n"):
                raise ValueError(f"table {self.name!r}: {label!r} cannot be a label")

    def column(self, label: str) -> Float[np.ndarray, " rows"]:
        """The column of that label."""
        found = [j for j, name in enumerate(self.labels) if name == label]
        if len(found) != 1:
            raise ValueError(
                f"table {self.name!r} has {len(found) or 'no'} columns {label!r}; "
                f"its labels: {', '.join(self.labels)}"
            )
        return self.data[:, found[0]]

    def in_radians(self, angles: tuple[str, ...] | None = None) -> "Table":
        """The same table with its angles in radians.

        A file does not say which columns are angles: `angles` names them, and None means
        that all columns are.
        """
        if not self.in_degrees:
            return self
        chosen = [angles is None or label in angles for label in self.labels]
        data = self.data * np.where(chosen, math.pi / 180, 1.0)[None, :]
        return dataclasses.replace(self, data=data, in_degrees=False)


def write_storage(path: str | os.PathLike[str], table: Table) -> None:
    """Write a .sto or .mot file with 17 significant digits, so that reading gives it back.

    The file appears whole or not at all.
    """
    lines = [
        table.name.replace("\n", " ").strip() or "table",
        "version=1",
        f"nRows={table.time.size}",
        f"nColumns={len(table.labels) + 1}",
        f"inDegrees={'yes' if table.in_degrees else 'no'}",
        "endheader",
        "\t".join(("time", *table.labels)),
    ]
    rows = np.column_stack([table.time, table.data])
    lines += ["\t".join([f"{x:.17g}" for x in row]) for row in rows.tolist()]
    with replacing(path) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_storage(path: str | os.PathLike[str]) -> Table:
    """Read a .sto or .mot file.

    The header may stand in any order, with or without blanks around `=`, and with keys
    that are not known here; without `inDegrees`, angles are in radians, as in OpenSim.
    Cells are separated by tabs or blanks, and may be NaN.

    **Raises:** `FileFormatError`, naming file, line and column.
    """
    path = pathlib.Path(path)
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    name, header, end = _header(path, lines)
    labels, first = _labels(path, lines, end)
    rows = [
        _row(path, number, line, labels)
        for number, line in enumerate(lines[first:], start=first + 1)
        if line.strip()
    ]
    _check_count(path, header, "nrows", "nRows", len(rows), "rows of data")
    _check_count(path, header, "ncolumns", "nColumns", len(labels), "labels")
    values = np.array(rows, dtype=float).reshape(len(rows), len(labels))
    numbers = [n for n, line in enumerate(lines[first:], start=first + 1) if line.strip()]
    _check_time(path, values[:, 0], numbers)
    return Table(
        time=values[:, 0],
        labels=labels[1:],
        data=values[:, 1:],
        in_degrees=_in_degrees(path, header),
        name=name,
    )


Header = dict[str, tuple[str, int]]
"""Value and line of each key, in small letters."""


def _header(path: pathlib.Path, lines: list[str]) -> tuple[str, Header, int]:
    name, header = "", {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.lower() == "endheader":
            return name or path.stem, header, number
        key, found, value = text.partition("=")
        if not found:
            key, _, value = text.partition(" ")
        key = key.strip().lower()
        key = _SYNONYMS.get(key, key)
        if found or key in ("nrows", "ncolumns", "name"):
            header[key] = (value.strip(), number)
            if key == "name":
                name = value.strip()
        elif text and not name:
            name = text
    raise FileFormatError(path, "no line 'endheader': this is not a .sto or .mot file")


def _labels(path: pathlib.Path, lines: list[str], end: int) -> tuple[tuple[str, ...], int]:
    for number, line in enumerate(lines[end:], start=end + 1):
        if not line.strip():
            continue
        cells = line.strip().split("\t") if "\t" in line.strip() else line.split()
        labels = tuple(cell.strip() for cell in cells)
        for j, label in enumerate(labels, start=1):
            if not label:
                raise FileFormatError(path, "the label is empty", line=number, column=j)
        if labels[0].lower() != "time":
            raise FileFormatError(
                path, f"the first label is {labels[0]!r}, not 'time'", line=number, column=1
            )
        return labels, number
    raise FileFormatError(path, "no labels after 'endheader'", line=end)


def _row(path: pathlib.Path, number: int, line: str, labels: tuple[str, ...]) -> list[float]:
    cells = line.split()
    if len(cells) != len(labels):
        for j, cell in enumerate(line.rstrip("\t ").split("\t")):
            if not cell.strip() and j < len(labels):
                raise FileFormatError(path, "the cell is empty", line=number, column=labels[j])
        raise FileFormatError(path, f"{len(cells)} cells for {len(labels)} labels", line=number)
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        pass
    for label, cell in zip(labels, cells, strict=True):
        try:
            float(cell)
        except ValueError:
            problem = f"{cell!r} is not a number"
            raise FileFormatError(path, problem, line=number, column=label) from None
    raise AssertionError("unreachable")


def _check_count(
    path: pathlib.Path, header: Header, key: str, shown: str, count: int, what: str
) -> None:
    if key not in header:
        return
    value, line = header[key]
    if not value.isdecimal():
        raise FileFormatError(path, f"{shown} is {value!r}, not a count", line=line)
    if int(value) != count:
        raise FileFormatError(path, f"{shown} is {value}, but there are {count} {what}", line=line)


def _check_time(path: pathlib.Path, time: Float[Any, " rows"], numbers: list[int]) -> None:
    bad = ~np.isfinite(time)
    if np.any(bad):
        line = numbers[int(np.argmax(bad))]
        raise FileFormatError(path, "time is not finite", line=line, column="time")
    stuck = np.diff(time) <= 0
    if np.any(stuck):
        line = numbers[int(np.argmax(stuck)) + 1]
        raise FileFormatError(path, "time does not increase", line=line, column="time")


def _in_degrees(path: pathlib.Path, header: Header) -> bool:
    value, line = header.get("indegrees", ("no", None))
    if value.lower() not in _FLAGS:
        raise FileFormatError(path, f"inDegrees is {value!r}, not yes or no", line=line)
    return _FLAGS[value.lower()]
