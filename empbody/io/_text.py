"""What the readers of text tables share: lines, numbers, counts and times."""

import math
import os
import pathlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ._errors import FileFormatError

_LARGEST = 1 << 30


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a text file, counted as an editor counts them.

    Bytes that are not UTF-8 become replacement characters: they matter only where a number
    or a name is expected, and are reported there.
    """
    path = pathlib.Path(path)
    size = path.stat().st_size
    if size > _LARGEST:
        raise FileFormatError(path, f"{size / 1e9:.1f} GB is too large for a table; cut it up")
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def number(cell: str) -> float | None:
    """The number that a cell holds, or None if it holds something else."""
    if "_" in cell:  # Python would read 1_0 as ten
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def numbers(
    path: str | os.PathLike[str], line: int, cells: Sequence[str], labels: Sequence[str]
) -> list[float]:
    """The numbers of one row; `labels` has a name for each cell."""
    try:
        values = list(map(float, cells))
    except ValueError:
        values = None
    if values is not None and not any("_" in cell for cell in cells):
        return values
    wrong = [j for j, cell in enumerate(cells) if number(cell) is None]
    shown = shorten(cells[wrong[0]])
    raise FileFormatError(path, f"{shown} is not a number", line=line, column=labels[wrong[0]])


def count(path: str | os.PathLike[str], what: str, text: str, line: int) -> int:
    """A count from a header."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise FileFormatError(path, f"{what} is {shorten(text)}, not a count", line=line)
    return int(text)


def shorten(text: str, longest: int = 40) -> str:
    """A cell as it is quoted in a message."""
    return repr(text if len(text) <= longest else text[: longest - 1] + "…")


def some(names: Sequence[str], most: int = 12) -> str:
    """The first few of many names."""
    if not names:
        return "none"
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def check_time(
    path: str | os.PathLike[str],
    time: Float[np.ndarray, " rows"],
    lines: Sequence[int],
    column: str = "time",
) -> None:
    """Times must be finite and increase; `lines` are those of the rows."""
    bad = ~np.isfinite(time)
    if np.any(bad):
        row = int(np.argmax(bad))
        problem = f"time is not finite ({time[row]:g})"
        raise FileFormatError(path, problem, line=lines[row], column=column)
    stuck = np.diff(time) <= 0
    if np.any(stuck):
        row = int(np.argmax(stuck)) + 1
        raise FileFormatError(
            path,
            f"time does not increase: {time[row]:g} s in row {row + 1} follows "
            f"{time[row - 1]:g} s; sort the rows or remove the repeated ones",
            line=lines[row],
            column=column,
        )


def show(value: float) -> str:
    """A number with the digits that give it back."""
    return "NaN" if math.isnan(value) else f"{value:.17g}"
