"""Columns over time, whatever file they come from."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a table stood, for messages about its contents. Lines count from 1."""

    path: str
    label_line: int
    lines: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns over time, as a .sto, .mot or .csv file holds them.

    `data[i, j]` is column `labels[j]` at `time[i]` (s, strictly increasing). Angles are in
    degrees if `in_degrees`; see `in_radians`. The time column has no entry in `labels`.
    """

    time: Float[np.ndarray, " rows"]
    labels: tuple[str, ...]
    data: Float[np.ndarray, "rows columns"]
    in_degrees: bool = False
    name: str = "table"
    unit_is_stated: bool = dataclasses.field(default=True, compare=False)
    """False where the file did not say and `in_degrees` is the format's default."""
    components: int = dataclasses.field(default=1, compare=False)
    """Columns per quantity: 3 for a file of Vec3, whose columns are `label_1` ... `label_3`."""
    origin: Origin | None = dataclasses.field(default=None, compare=False, repr=False)

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
        that all columns are. `eb.read_motion` asks a model which ones are.
        """
        if not self.in_degrees:
            return self
        chosen = [angles is None or label in angles for label in self.labels]
        data = self.data * np.where(chosen, math.pi / 180, 1.0)[None, :]
        return dataclasses.replace(self, data=data, in_degrees=False)
