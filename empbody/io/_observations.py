"""Tables of observations: rows of inputs and targets, with columns of words."""

import csv
import difflib
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from . import _text
from ._errors import FileFormatError

_UNIT = re.compile(r"(?i)(?P<name>.*?\S)\s*(_(?P<a>deg|rad)|[(\[]\s*(?P<b>deg|rad)\s*[)\]])")


class Observations(NamedTuple):
    """Columns that were asked for, angles in rad, and the words of label columns."""

    inputs: Float[np.ndarray, "n nq"]
    targets: Float[np.ndarray, "n nj"]
    labels: dict[str, tuple[str, ...]]
    lines: tuple[int, ...]
    """Line of the file that each row stands on."""
    maps: dict[str, dict[str, float]]
    """Numbers (rad) that words stood for, of the columns that had words."""


def read_observations(
    path: str | os.PathLike[str],
    inputs: Sequence[str],
    targets: Sequence[str],
    labels: Sequence[str] = (),
    maps: Mapping[str, Mapping[str, float]] | None = None,
    where: Mapping[str, str] | None = None,
) -> Observations:
    """Read rows of a table (.csv; commas, semicolons or tabs) for a fit.

    A name matches a column of that name, or with a unit: `elevation` is `elevation_deg`
    (degrees, converted), `elevation_rad` or `elevation` (rad). A column of words becomes
    numbers through `maps` (rad). `where` keeps the rows whose columns have these words.

    **Raises:** `FileFormatError`, naming file, line and column: unknown columns and words,
    cells that are no numbers or NaN, and angles above 2π in a column of radians.
    """
    path = pathlib.Path(path)
    header, rows, lines = _cells(path)
    keep = list(range(len(rows)))
    for name, word in (where or {}).items():
        at = _exact(path, header, name)
        known = {rows[i][at] for i in keep}
        keep = [i for i in keep if rows[i][at] == word]
        if not keep:
            raise FileFormatError(
                path, f"no row with {name} = {word}; there are {_text.some(sorted(known))}"
            )
    rows, lines = [rows[i] for i in keep], [lines[i] for i in keep]
    if not rows:
        raise FileFormatError(path, "the file has no rows")
    used: dict[str, dict[str, float]] = {}
    columns = []
    for name in (*inputs, *targets):
        at, factor = _column(path, header, name)
        words = dict((maps or {}).get(name, {}))
        column = [row[at] for row in rows]
        if words:
            used[name] = words
        columns.append(_numbers(path, header[at], name, column, lines, factor, words))
    table = np.array(columns).T
    found = {name: tuple(row[_exact(path, header, name)] for row in rows) for name in labels}
    n = len(inputs)
    return Observations(table[:, :n], table[:, n:], found, tuple(lines), used)


def _cells(path: pathlib.Path) -> tuple[list[str], list[list[str]], list[int]]:
    text = _text.read_lines(path)
    used = [(n, s) for n, s in enumerate(text, start=1) if s.strip() and s.lstrip()[0] != "#"]
    if not used:
        raise FileFormatError(path, "the file is empty")
    mark = max(",;\t", key=used[0][1].count)
    parsed = []
    for place, line in used:
        cells = [c.strip() for c in next(csv.reader([line], delimiter=mark))]
        parsed.append((place, cells))
    header = parsed[0][1]
    for place, cells in parsed[1:]:
        if len(cells) != len(header):
            raise FileFormatError(
                path, f"{len(cells)} cells under {len(header)} labels", line=place
            )
    doubled = [name for name in header if header.count(name) > 1]
    if doubled:
        raise FileFormatError(path, f"two columns {doubled[0]!r}", line=parsed[0][0])
    return header, [cells for _, cells in parsed[1:]], [place for place, _ in parsed[1:]]


def _bare(label: str) -> tuple[str, str]:
    unit = _UNIT.fullmatch(label)
    return (unit["name"], (unit["a"] or unit["b"]).lower()) if unit else (label, "")


def _exact(path: pathlib.Path, header: list[str], name: str) -> int:
    for fold in (str, str.lower):
        found = [i for i, label in enumerate(header) if fold(label) == fold(name)]
        if len(found) == 1:
            return found[0]
    raise FileFormatError(path, f"no column {name!r}; there are {_text.some(tuple(header))}")


def _column(path: pathlib.Path, header: list[str], name: str) -> tuple[int, float]:
    """Which column is meant by a name, and the factor that makes it radians."""
    for fold in (str, str.lower):
        labels = [fold(label) for label in header]
        found = [i for i, label in enumerate(labels) if label == fold(name)]
        if not found:
            found = [i for i, label in enumerate(labels) if _bare(label)[0] == fold(name)]
        if len(found) > 1:
            both = " and ".join(repr(header[i]) for i in found)
            raise FileFormatError(path, f"{name!r} may be {both}: name one of them in full")
        if found:
            degrees = _bare(header[found[0]])[1] == "deg"
            return found[0], np.pi / 180 if degrees else 1.0
    near = difflib.get_close_matches(name, [_bare(h)[0] for h in header], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise FileFormatError(path, f"no column {name!r}{hint}; there are {_text.some(tuple(header))}")


def _numbers(
    path: pathlib.Path,
    label: str,
    name: str,
    column: list[str],
    lines: list[int],
    factor: float,
    words: Mapping[str, float],
) -> np.ndarray:
    out = np.empty(len(column))
    for i, cell in enumerate(column):
        if cell in words:
            out[i] = words[cell]
            continue
        try:
            out[i] = float(cell) * factor
        except ValueError:
            where = {"line": lines[i], "column": label}
            if not cell:
                problem = "the cell is empty; remove the row or fill the gap"
            elif words:
                problem = f"{cell!r} is not in --map, which has {', '.join(words)}"
            elif any(character.isdigit() for character in cell):
                problem = f"{cell!r} is no number; write decimals with a point and without units"
            else:
                problem = (
                    f"{cell!r} is no number; remove the row if it stands for a missing value. "
                    f"Words become numbers through a map: --map {name}=WORD:DEGREES,..."
                )
            raise FileFormatError(path, problem, **where) from None
    bad = np.flatnonzero(~np.isfinite(out))
    if len(bad):
        shown = ", ".join(str(lines[i]) for i in bad[:8]) + (" ..." if len(bad) > 8 else "")
        raise FileFormatError(
            path, f"NaN or infinite in {len(bad)} rows, lines {shown}; remove them", column=label
        )
    if factor == 1.0:
        worst = int(np.argmax(np.abs(out)))
        if abs(out[worst]) > 2 * np.pi * (1 + 1e-9):
            raise FileFormatError(
                path,
                f"{out[worst]:.6g} is more than 2π in a column of radians: degrees? Then call the "
                f"column {name}_deg",
                line=lines[worst],
                column=label,
            )
    return out
