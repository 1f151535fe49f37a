"""Binary files of motion laboratories (.c3d), through ezc3d."""

import os
import pathlib
from typing import Any

import numpy as np

from ._errors import FileFormatError
from ._marker_data import Markers
from ._trc import METRES


def read_c3d(path: str | os.PathLike[str]) -> Markers:
    """Read the markers of a .c3d file; positions in metres.

    Needs the package ezc3d. Times are those of the trial's clock: the file's first frame
    need not be at zero.

    **Raises:** `FileFormatError`; `ImportError` where ezc3d is not installed.
    """
    path = pathlib.Path(path)
    ezc3d = _ezc3d()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        file = ezc3d.c3d(str(path))
    except Exception as error:  # a C++ library: it raises what its wrapper makes of it
        raise FileFormatError(path, f"ezc3d cannot read it: {error}") from error
    point = file["parameters"]["POINT"]
    names = _names(point)
    raw = np.asarray(file["data"]["points"], dtype=float)[:3]
    rows = raw.shape[2]
    if raw.shape[1] != len(names):
        problem = f"{len(names)} labels for {raw.shape[1]} markers"
        raise FileFormatError(path, problem)
    repeated = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if repeated is not None:
        raise FileFormatError(path, f"two markers are called {repeated!r}")
    units = _first(point, "UNITS", "mm")
    if units.lower() not in METRES:
        raise FileFormatError(path, f"POINT:UNITS is {units!r}; known are mm, cm and m")
    rate = float(_first(point, "RATE", 0.0))
    if not rate > 0:
        raise FileFormatError(path, f"POINT:RATE is {rate:g}, not a positive number")
    first = int(file["header"]["points"]["first_frame"])  # ezc3d counts from 0
    frames = first + np.arange(rows)
    positions = raw.transpose(2, 1, 0) * METRES[units.lower()]
    seen = np.isfinite(positions).all(axis=-1, keepdims=True)
    positions = np.where(seen, positions, np.nan)
    return Markers(frames / rate, names, positions, rate, frames + 1)


def _names(point: Any) -> tuple[str, ...]:
    """Labels; beyond 255 they go on in LABELS2, LABELS3, ..."""
    used = int(_first(point, "USED", 0))
    keys = ["LABELS"] + [f"LABELS{i}" for i in range(2, 100) if f"LABELS{i}" in point]
    names = [str(n).strip() for key in keys if key in point for n in point[key]["value"]]
    return tuple(names[:used] if used else names)


def _first(group: Any, key: str, default: Any) -> Any:
    values = list(group[key]["value"]) if key in group else []
    return values[0] if values else default


def _ezc3d() -> Any:
    try:
        import ezc3d
    except ImportError:
        raise ImportError(
            'reading .c3d files needs the package ezc3d: pip install "empbody[c3d]", or '
            "pip install ezc3d; or export the trial as .trc"
        ) from None
    return ezc3d
