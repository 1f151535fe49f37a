"""Tables of comma-separated values."""

import csv
import os
import pathlib
import re

import numpy as np

from . import _text
from ._atomic import replacing
from ._errors import FileFormatError
from ._table import Origin, Table

_TIME = re.compile(r"(?i)(time|t)\s*([_ ]s|_?[(\[]\s*s(ec(onds)?)?\s*[)\]])?")
_UNIT = re.compile(r"(?i)(?P<name>.*?\S)\s*(_(?P<a>deg|rad)|[(\[]\s*(?P<b>deg|rad)\s*[)\]])")


def write_csv(path: str | os.PathLike[str], table: Table) -> None:
    """Write a table of comma-separated values with 17 significant digits.

    If the table is in degrees, *every* label gets the suffix `_deg`. `eb.write_motion`
    knows which columns are angles.
    """
    suffix = "_deg" if table.in_degrees else ""
    labels = [label + suffix for label in table.labels]
    write_columns(path, table.time, labels, table.data)


def write_columns(
    path: str | os.PathLike[str], time: np.ndarray, labels: list[str], data: np.ndarray
) -> None:
    """Write columns under labels as they are."""
    rows = np.column_stack([time, data]).tolist()
    with (
        replacing(path) as part,
        part.open("w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["time", *labels])
        writer.writerows([[_text.show(x) for x in row] for row in rows])


def read_csv(path: str | os.PathLike[str]) -> Table:
    """Read a table of comma-separated values.

    The first line has labels, one of which is `time` (or `t`, `time_s`, `time (s)`). Cells
    are separated by commas, semicolons or tabs; with semicolons or tabs the decimal mark may
    be a comma. Empty cells are NaN. Lines that begin with `#` are skipped.

    A label that ends in `_deg` or `(deg)` is in degrees; the table has it in radians and
    without the suffix. `_rad` and `(rad)` are taken off too. Other columns stay as they
    are: radians, metres.

    **Raises:** `FileFormatError`, naming file, line and column.
    """
    path = pathlib.Path(path)
    lines = _text.read_lines(path)
    used = [(n, s) for n, s in enumerate(lines, start=1) if s.strip() and s.lstrip()[0] != "#"]
    if not used:
        raise FileFormatError(path, "the file is empty")
    label_line, first = used[0]
    mark = max(",;\t", key=first.count)
    labels = tuple(" ".join(c.split()) for c in _cells(path, label_line, first, mark))
    at = _time_column(path, label_line, labels)
    places = [place for place, _ in used[1:]]
    rows = [_row(path, place, line, mark, labels, at) for place, line in used[1:]]
    values = np.array(rows, dtype=float).reshape(len(rows), len(labels))
    time = values[:, at]
    _text.check_time(path, time, places, column=labels[at])
    kept = [j for j in range(len(labels)) if j != at]
    names, scale, stated = [], [], False
    for j in kept:
        unit = _UNIT.fullmatch(labels[j])
        word = (unit["a"] or unit["b"]).lower() if unit else ""
        names.append(unit["name"] if unit else labels[j])
        scale.append(np.pi / 180 if word == "deg" else 1.0)
        stated |= bool(word)
    return Table(
        time=time,
        labels=tuple(names),
        data=values[:, kept] * np.array(scale, dtype=float)[None, :],
        name=path.stem,
        unit_is_stated=stated,
        origin=Origin(str(path), label_line, tuple(places)),
    )


def _cells(path: pathlib.Path, place: int, line: str, mark: str) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=mark, strict=True))
    except csv.Error as error:
        raise FileFormatError(path, f"not a row of values: {error}", line=place) from None
    return rows[0] if rows else []


def _time_column(path: pathlib.Path, place: int, labels: tuple[str, ...]) -> int:
    found = [j for j, label in enumerate(labels) if _TIME.fullmatch(label)]
    if len(found) != 1:
        problem = f"{len(found) or 'no'} columns 'time' among the labels {_text.some(labels)}"
        raise FileFormatError(path, problem, line=place)
    for j, label in enumerate(labels, start=1):
        if not label:
            raise FileFormatError(path, "the label is empty", line=place, column=j)
    return found[0]


def _row(
    path: pathlib.Path, place: int, line: str, mark: str, labels: tuple[str, ...], at: int
) -> list[float]:
    cells = [cell.strip() for cell in _cells(path, place, line, mark)]
    while len(cells) > len(labels) and not cells[-1]:
        cells.pop()
    if len(cells) != len(labels):
        raise FileFormatError(path, f"{len(cells)} cells for {len(labels)} labels", line=place)
    if not cells[at]:
        raise FileFormatError(path, "the cell is empty", line=place, column=labels[at])
    if mark != ",":
        cells = [cell.replace(",", ".") for cell in cells]
    return _text.numbers(path, place, [cell or "nan" for cell in cells], labels)
