"""OpenSim's storage files: .sto (results) and .mot (motions)."""

import os
import pathlib
import re
from typing import NamedTuple

import numpy as np

from . import _text
from ._atomic import replacing
from ._errors import FileFormatError
from ._table import Origin, Table

_FLAGS = {"yes": True, "y": True, "true": True, "1": True}
_FLAGS |= {"no": False, "n": False, "false": False, "0": False}
# SIMM's older spellings of the counts.
_SYNONYMS = {"datarows": "nrows", "nr": "nrows", "datacolumns": "ncolumns", "nc": "ncolumns"}
# Keys that may stand without `=`, as SIMM writes them.
_BARE = re.compile(
    r"(?i)(?P<key>name|nrows|datarows|nr|ncolumns|datacolumns|nc|inDegrees|range)"
    r"[ \t]+(?P<value>\S.*)"
)
# Numbers in a cell of each data type of OpenSim's version 2 and 3 files.
_COMPONENTS = {"double": 1, "unitvec3": 3, "quaternion": 4, "spatialvec": 6} | {
    f"vec{n}": n for n in range(2, 13)
}


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
    """Read a .sto or .mot file of any version.

    The header may stand in any order, with or without blanks around `=`, and with keys
    that are not known here. Cells are separated by tabs or blanks, and may be NaN. Columns
    of vectors (`DataType=Vec3`) become `label_1`, `label_2`, ... as OpenSim flattens them.
    A SIMM file without times gets them from its `range`.

    Where the header lacks `inDegrees`, a line "Angles are in degrees." (or radians) counts;
    without that, angles are in radians for version 1 and later and in degrees for files
    without a version, as in OpenSim. `Table.unit_is_stated` is False then.

    **Raises:** `FileFormatError`, naming file, line and column.
    """
    path = pathlib.Path(path)
    lines = _text.read_lines(path)
    header = _header(path, lines)
    labels, label_line = _labels(path, lines, header.end)
    width = _width(path, header)
    rows, places = [], []
    names = _flat(labels, width)
    for place, line in enumerate(lines[label_line:], start=label_line + 1):
        if line.strip():
            rows.append(_row(path, place, line, labels, names, width))
            places.append(place)
    _check_count(path, header, "nrows", "nRows", len(rows), "rows of data")
    _check_count(path, header, "ncolumns", "nColumns", len(labels), "labels")
    values = np.array(rows, dtype=float).reshape(len(rows), len(names))
    at = _time_column(names)
    if at is None:
        time = _time_of_range(path, header, len(rows), label_line)
        data = values
    else:
        time, data = values[:, at], np.delete(values, at, axis=1)
        names = names[:at] + names[at + 1 :]
        _text.check_time(path, time, places)
    in_degrees, stated = _in_degrees(path, header)
    return Table(
        time=time,
        labels=names,
        data=data,
        in_degrees=in_degrees,
        name=header.name or path.stem,
        unit_is_stated=stated,
        components=width,
        origin=Origin(str(path), label_line, tuple(places)),
    )


class _Header(NamedTuple):
    name: str
    values: dict[str, tuple[str, int]]
    """Value and line of each key, in small letters."""
    angles: bool | None
    """Whether a sentence in the header says that angles are in degrees."""
    end: int


def _header(path: pathlib.Path, lines: list[str]) -> _Header:
    name, titled, values, angles = "", False, {}, None
    for place, line in enumerate(lines, start=1):
        text = line.strip()
        if text.lower() == "endheader":
            return _Header(name, values, angles, place)
        if not text:
            continue
        key, found, value = text.partition("=")
        bare = None if found else _BARE.fullmatch(text)
        if bare and _is_entry(bare["key"].lower(), bare["value"]):
            key, found, value = bare["key"], "=", bare["value"]
        key = key.strip().lower()
        if found:
            values[_SYNONYMS.get(key, key)] = (value.strip(), place)
            if key == "name":
                name, titled = value.strip(), True
        elif said := re.match(r"(?i)angles are in (degrees|radians)\b", text):
            angles = said[1].lower() == "degrees"
        elif not titled:
            name, titled = text, True
    raise FileFormatError(path, "no line 'endheader': this is not a .sto or .mot file")


def _is_entry(key: str, value: str) -> bool:
    """Whether a line without `=` is an entry, and not a title such as "range of motion"."""
    if key == "name":
        return True
    if key == "indegrees":
        return value.lower() in _FLAGS
    count = 2 if key == "range" else 1
    cells = value.split()
    return len(cells) == count and all(_text.number(cell) is not None for cell in cells)


def _labels(path: pathlib.Path, lines: list[str], end: int) -> tuple[tuple[str, ...], int]:
    for place, line in enumerate(lines[end:], start=end + 1):
        if not line.strip():
            continue
        cells = line.strip().split("\t") if "\t" in line.strip() else line.split()
        labels = tuple(cell.strip() for cell in cells)
        for j, label in enumerate(labels, start=1):
            if not label:
                raise FileFormatError(path, "the label is empty", line=place, column=j)
        if all(_text.number(label) is not None for label in labels):
            problem = "numbers where the line of labels should be"
            raise FileFormatError(path, problem, line=place)
        return labels, place
    raise FileFormatError(path, "no labels after 'endheader'", line=end)


def _time_column(labels: tuple[str, ...]) -> int | None:
    return next((j for j, label in enumerate(labels) if label.lower() == "time"), None)


def _flat(labels: tuple[str, ...], width: int) -> tuple[str, ...]:
    """One label for each number of a row: those of OpenSim's `flatten`."""
    if width == 1:
        return labels
    at = _time_column(labels)
    return tuple(
        name
        for j, label in enumerate(labels)
        for name in ([label] if j == at else [f"{label}_{i + 1}" for i in range(width)])
    )


def _width(path: pathlib.Path, header: _Header) -> int:
    value, line = header.values.get("datatype", ("double", None))
    if value.lower() not in _COMPONENTS:
        known = "double, Vec2 ... Vec12, UnitVec3, Quaternion and SpatialVec"
        problem = f"DataType is {_text.shorten(value)}; what can be read: {known}"
        raise FileFormatError(path, problem, line=line)
    return _COMPONENTS[value.lower()]


def _row(
    path: pathlib.Path,
    place: int,
    line: str,
    labels: tuple[str, ...],
    names: tuple[str, ...],
    width: int,
) -> list[float]:
    vectors = width > 1 and "\t" in line.strip()  # "1, 2, 3" may have blanks inside
    cells = [cell.strip() for cell in line.strip().split("\t")] if vectors else line.split()
    if len(cells) != len(labels):
        for j, cell in enumerate(line.rstrip("\t ").split("\t")):
            if not cell.strip() and j < len(labels):
                problem = "the cell is empty; write NaN where a value is missing"
                raise FileFormatError(path, problem, line=place, column=labels[j])
        raise FileFormatError(path, f"{len(cells)} cells for {len(labels)} labels", line=place)
    if width > 1:
        at = _time_column(labels)
        parts = [[c] if j == at else _components(c, width) for j, c in enumerate(cells)]
        for j, part in enumerate(parts):
            if len(part) != (1 if j == at else width):
                problem = f"{_text.shorten(cells[j])} has {len(part)} components, not {width}"
                raise FileFormatError(path, problem, line=place, column=labels[j])
        cells = [cell for part in parts for cell in part]
    return _text.numbers(path, place, cells, names)


def _components(cell: str, width: int) -> list[str]:
    # Some exporters write the mathematical notation ~[1,2,3].
    parts = re.sub(r"[~\[\]()]", "", cell).split(",")
    missing = len(parts) == 1 and parts[0].lower() == "nan"
    return parts * width if missing else parts


def _check_count(
    path: pathlib.Path, header: _Header, key: str, shown: str, count: int, what: str
) -> None:
    if key not in header.values:
        return
    value, line = header.values[key]
    if _text.count(path, shown, value, line) != count:
        raise FileFormatError(path, f"{shown} is {value}, but there are {count} {what}", line=line)


def _time_of_range(path: pathlib.Path, header: _Header, rows: int, label_line: int) -> np.ndarray:
    """Even times for a SIMM file that gives only their range."""
    if "range" not in header.values:
        problem = "no label is 'time', and the header has no 'range' to take times from"
        raise FileFormatError(path, problem, line=label_line)
    value, line = header.values["range"]
    ends = [_text.number(cell) for cell in value.split()]
    if len(ends) != 2 or None in ends or not np.all(np.isfinite(ends)):  # pyright: ignore
        problem = f"range is {_text.shorten(value)}, not a first and a last time"
        raise FileFormatError(path, problem, line=line)
    first, last = float(ends[0] or 0), float(ends[1] or 0)
    if rows > 1 and not last > first:
        raise FileFormatError(path, f"range ends at {last:g}, before it begins", line=line)
    time = np.linspace(first, last, rows)
    if not np.all(np.diff(time) > 0):
        raise FileFormatError(path, f"range {value} is too narrow for {rows} rows", line=line)
    return time


def _in_degrees(path: pathlib.Path, header: _Header) -> tuple[bool, bool]:
    """Whether angles are in degrees, and whether the file says so."""
    if "indegrees" in header.values:
        value, line = header.values["indegrees"]
        if value.lower() not in _FLAGS:
            problem = f"inDegrees is {_text.shorten(value)}, not yes or no"
            raise FileFormatError(path, problem, line=line)
        return _FLAGS[value.lower()], True
    if header.angles is not None:
        return header.angles, True
    if "version" not in header.values:
        return True, False
    value, line = header.values["version"]
    return _text.count(path, "version", value, line) < 1, False
