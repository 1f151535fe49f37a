"""Motion Analysis' files of marker positions (.trc)."""

import os
import pathlib
import warnings
from typing import NamedTuple

import numpy as np

from . import _text
from ._atomic import replacing
from ._errors import FileFormatError
from ._marker_data import Markers

METRES = {"m": 1.0, "meters": 1.0, "metres": 1.0, "cm": 1e-2, "mm": 1e-3}
"""Metres in the units that files name."""
_AXES = "XYZ"


def write_trc(path: str | os.PathLike[str], markers: Markers, units: str = "mm") -> None:
    """Write a .trc file; missing markers become blank cells.

    The file appears whole or not at all.
    """
    if units not in ("m", "cm", "mm"):
        raise ValueError(f"units is {units!r}; choose 'mm', 'cm' or 'm'")
    for name in markers.names:
        if not name.strip() or any(c in name for c in "\t\r\n"):
            raise ValueError(f"{name!r} cannot be the name of a marker")
    rows, n = markers.time.size, len(markers.names)
    frames = np.arange(1, rows + 1) if markers.frames is None else markers.frames
    rate = f"{markers.rate:.10g}"
    first = int(frames[0]) if rows else 1
    axes = [f"{axis}{i + 1}" for i in range(n) for axis in _AXES]
    lines = [
        f"PathFileType\t4\t(X/Y/Z)\t{pathlib.Path(path).name}",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\t"
        "OrigDataRate\tOrigDataStartFrame\tOrigNumFrames",
        f"{rate}\t{rate}\t{rows}\t{n}\t{units}\t{rate}\t{first}\t{rows}",
        "\t".join(["Frame#", "Time", *(f"{name}\t\t" for name in markers.names)]),
        "\t".join(["", "", *axes]),
        "",
    ]
    scaled = (markers.positions / METRES[units]).reshape(rows, -1).tolist()
    for frame, time, values in zip(frames.tolist(), markers.time.tolist(), scaled, strict=True):
        cells = ["" if x != x else f"{x:.17g}" for x in values]
        lines.append("\t".join([str(frame), f"{time:.17g}", *cells]))
    with replacing(path) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_trc(path: str | os.PathLike[str]) -> Markers:
    """Read a .trc file; positions in metres whatever unit its header names.

    Blank cells and NaN are missing markers. Names may have blanks inside.

    **Raises:** `FileFormatError`, naming file, line and column.
    """
    path = pathlib.Path(path)
    lines = _text.read_lines(path)
    if not lines[0].strip().lower().startswith("pathfiletype"):
        raise FileFormatError(path, "no 'PathFileType': this is not a .trc file", line=1)
    header = _header(path, lines)
    names = _names(path, lines, header)
    labels = ["Frame#", "Time", *(f"{name} {axis}" for name in names for axis in _AXES)]
    rows, places = [], []
    start = header.label_line
    for place, line in enumerate(lines[start:], start=start + 1):
        if not line.strip() or (not rows and _is_axes(line)):
            continue
        rows.append(_row(path, place, line, labels))
        places.append(place)
    if header.rows is not None and header.rows != len(rows):
        problem = f"NumFrames is {header.rows}, but there are {len(rows)} rows of data"
        raise FileFormatError(path, problem, line=header.line)
    values = np.array(rows, dtype=float).reshape(len(rows), len(labels))
    _check_frames(path, values[:, 0], places)
    time = values[:, 1]
    _text.check_time(path, time, places, column="Time")
    _check_rate(path, time, header.rate)
    positions = values[:, 2:].reshape(len(rows), len(names), 3)
    _check_parts(path, positions, places, names)
    return Markers(time, names, positions * header.scale, header.rate, values[:, 0].astype(int))


class _Header(NamedTuple):
    rate: float
    rows: int | None
    markers: int | None
    scale: float
    line: int
    label_line: int


def _header(path: pathlib.Path, lines: list[str]) -> _Header:
    used = [n for n, line in enumerate(lines, start=1) if line.strip()]
    if len(used) < 4:
        raise FileFormatError(path, "the header is cut off: it has 5 lines", line=used[-1])
    keys, values = lines[used[1] - 1].split(), lines[used[2] - 1].split()
    line, entries = used[2], dict(zip([k.lower() for k in keys], values, strict=False))
    if "units" not in entries:
        problem = "no 'Units' among the keys of the header; add it, with mm or m below"
        raise FileFormatError(path, problem, line=used[1])
    if len(keys) != len(values):
        problem = f"{len(values)} values for the {len(keys)} keys of the line above"
        raise FileFormatError(path, problem, line=line)
    units = entries["units"]
    if units.lower() not in METRES:
        problem = f"Units is {_text.shorten(units)}; known are mm, cm and m"
        raise FileFormatError(path, problem, line=line, column="Units")
    text = entries.get("datarate", "")
    rate = _text.number(text)
    if rate is None or not np.isfinite(rate) or rate <= 0:
        problem = f"DataRate is {_text.shorten(text)}, not a positive number"
        raise FileFormatError(path, problem, line=line, column="DataRate")
    counts = [
        _text.count(path, key, entries[key.lower()], line) if key.lower() in entries else None
        for key in ("NumFrames", "NumMarkers")
    ]
    return _Header(rate, counts[0], counts[1], METRES[units.lower()], line, used[3])


def _split(line: str) -> list[str]:
    """Cells of a line; without tabs, blanks separate."""
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


def _names(path: pathlib.Path, lines: list[str], header: _Header) -> tuple[str, ...]:
    place = header.label_line
    cells = _split(lines[place - 1])
    if [cell.lower().rstrip("#") for cell in cells[:2]] != ["frame", "time"]:
        problem = "the line of names must begin with Frame# and Time"
        raise FileFormatError(path, problem, line=place)
    names = [cell for cell in cells[2:] if cell]
    if header.markers is not None and header.markers != len(names):
        problem = f"{len(names)} names, but NumMarkers is {header.markers}: {_text.some(names)}"
        raise FileFormatError(path, problem, line=place)
    for i, name in enumerate(names):
        if name in names[:i]:
            problem = f"two markers are called {name!r}; give each its own name"
            raise FileFormatError(path, problem, line=place, column=cells.index(name) + 1)
    return tuple(names)


def _is_axes(line: str) -> bool:
    """Whether this is the line X1 Y1 Z1 X2 ... below the names."""
    cells = line.split()
    return all(cell[0] in "XYZxyz" and cell[1:].isalnum() for cell in cells)


def _row(path: pathlib.Path, place: int, line: str, labels: list[str]) -> list[float]:
    cells = _split(line)
    while len(cells) > len(labels) and not cells[-1]:
        cells.pop()
    if len(cells) != len(labels):
        count = (len(labels) - 2) // 3
        problem = (
            f"{len(cells)} cells, but {count} markers need {len(labels)}; "
            "a missing marker needs its three blank cells"
        )
        raise FileFormatError(path, problem, line=place)
    for cell, label in zip(cells[:2], labels[:2], strict=True):
        if not cell:
            raise FileFormatError(path, "the cell is empty", line=place, column=label)
    return _text.numbers(path, place, [cell or "nan" for cell in cells], labels)


def _check_frames(path: pathlib.Path, frames: np.ndarray, places: list[int]) -> None:
    good = np.isfinite(frames) & (np.abs(frames) < 1e15)
    good = good & (np.where(good, frames, 0.0) % 1 == 0)
    if not np.all(good):
        row = int(np.argmin(good))
        problem = f"{frames[row]:g} is not the number of a frame"
        raise FileFormatError(path, problem, line=places[row], column="Frame#")


def _check_rate(path: pathlib.Path, time: np.ndarray, rate: float) -> None:
    if time.size < 2:
        return
    found = 1.0 / np.median(np.diff(time))
    if abs(found / rate - 1.0) > 0.02:
        words = f"{path}: DataRate is {rate:g}, but the times are those of {found:g} frames/s"
        warnings.warn(f"{words}; the times are used", stacklevel=4)


def _check_parts(
    path: pathlib.Path, positions: np.ndarray, places: list[int], names: tuple[str, ...]
) -> None:
    """Infinite values and markers with a part of their coordinates are damage."""
    seen = np.isfinite(positions)
    wrong = np.isinf(positions).any(axis=-1) | (seen.any(axis=-1) & ~seen.all(axis=-1))
    if np.any(wrong):
        row, marker = (int(k) for k in np.argwhere(wrong)[0])
        part = int(np.argmin(seen[row, marker]))
        problem = "the value is infinite" if np.isinf(positions[row, marker, part]) else ""
        problem = problem or "this coordinate is missing while others of the marker are there"
        column = f"{names[marker]} {_AXES[part]}"
        raise FileFormatError(path, problem, line=places[row], column=column)
