"""Positions of markers over time."""

import dataclasses
import os
import pathlib

import numpy as np
from jaxtyping import Float, Int

from ._c3d import read_c3d
from ._errors import FileFormatError
from ._marker_data import Markers
from ._storage import read_storage
from ._trc import read_trc, write_trc

# Rotation of the file's axes into axes with y up; never a mirror.
_TO_Y_UP = {
    "x": ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    "y": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "z": ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)),
}


def read_markers(
    path: str | os.PathLike[str], *, up: str = "y", zeros_are_missing: bool = False
) -> Markers:
    """Read markers from a .trc, .c3d or .sto file (the last with `DataType=Vec3`, metres).

    **Arguments:**

    - `path`: the file. A .c3d needs the package ezc3d (`pip install "empbody[c3d]"`).
    - `up`: the file's vertical axis. With "z", (x, y, z) becomes (x, z, -y) and with "x",
      (-y, x, z), so that y points up as in OpenSim's models. "y" changes nothing.
    - `zeros_are_missing`: a marker at exactly (0, 0, 0) is taken as missing, which is how
      some laboratories' software writes it.

    **Raises:** `FileFormatError`, naming file, line and column.
    """
    if up not in _TO_Y_UP:
        raise ValueError(f"up is {up!r}; the vertical axis is one of 'x', 'y', 'z'")
    readers = {".trc": read_trc, ".c3d": read_c3d, ".sto": _from_storage}
    suffix = pathlib.Path(path).suffix.lower()
    if suffix not in readers:
        raise FileFormatError(path, f"markers are read from .trc, .c3d and .sto, not {suffix!r}")
    markers = readers[suffix](path)
    positions = markers.positions
    if zeros_are_missing:
        nowhere = np.all(positions == 0.0, axis=-1, keepdims=True)
        positions = np.where(nowhere, np.nan, positions)
    if up != "y":
        positions = positions @ np.array(_TO_Y_UP[up]).T
    return dataclasses.replace(markers, positions=positions)


def write_markers(path: str | os.PathLike[str], markers: Markers, *, units: str = "mm") -> None:
    """Write a .trc file with lengths in `units`: "mm", "cm" or "m"."""
    suffix = pathlib.Path(path).suffix.lower()
    if suffix != ".trc":
        raise ValueError(f"{os.fspath(path)}: markers are written to .trc files, not {suffix!r}")
    write_trc(path, markers, units)


def _from_storage(path: str | os.PathLike[str]) -> Markers:
    table = read_storage(path)
    if table.components != 3:
        problem = "no positions of markers: the header lacks DataType=Vec3"
        raise FileFormatError(path, problem)
    names = tuple(label.removesuffix("_1") for label in table.labels[::3])
    frames: Int[np.ndarray, " rows"] = np.arange(1, table.time.size + 1)
    positions: Float[np.ndarray, "rows n 3"] = table.data.reshape(table.time.size, len(names), 3)
    step = float(np.median(np.diff(table.time))) if table.time.size > 1 else 1.0
    repeated = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if repeated is not None:
        raise FileFormatError(path, f"two markers are called {repeated!r}")
    return Markers(table.time, names, _whole(positions), 1.0 / step, frames)


def _whole(positions: np.ndarray) -> np.ndarray:
    """A marker with one coordinate missing is missing."""
    return np.where(np.isfinite(positions).all(axis=-1, keepdims=True), positions, np.nan)
