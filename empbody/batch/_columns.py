"""Columns of trajectories in files: labels, shapes and kinds of number."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..model import Model
from ._arrays import is_along_time


@dataclasses.dataclass(frozen=True)
class Column:
    """A quantity along time."""

    name: str
    shape: tuple[int, ...]
    """Of one row."""
    dtype: str
    labels: tuple[str, ...]
    """One for each number of a row."""

    def restored(self, values: np.ndarray) -> np.ndarray:
        """(rows, labels) as it was."""
        return values.reshape(values.shape[0], *self.shape).astype(self.dtype)


def columns_of(model: Model, arrays: Mapping[str, np.ndarray]) -> tuple[Column, ...]:
    """Everything along time but the times themselves and what was reached."""
    found = []
    for name, array in arrays.items():
        if is_along_time(name) and name not in ("ts", "reached"):
            shape = array.shape[2:]
            labels = _labels(model, name, shape)
            found.append(Column(name, shape, array.dtype.str, labels))
    return tuple(found)


def _labels(model: Model, name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    if name in ("q", "qd"):
        what = "value" if name == "q" else "speed"
        return tuple(f"{coordinate}/{what}" for coordinate in model.coordinate_names)
    if name.startswith("monitors/"):
        if not shape:
            return (name,)
        return tuple(f"{name}/{'/'.join(map(str, index))}" for index in np.ndindex(*shape))
    what = name.rpartition("/")[2]
    return tuple(f"/forceset/{muscle}/{what}" for muscle in model.muscle_names)
