"""Files of trajectories: one .sto for each run, or one Zarr group for all."""

import abc
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..io import Table, read_storage, write_storage
from ._columns import Column


class AbstractTrajectories(abc.ABC):
    """Where quantities along time are kept."""

    @abc.abstractmethod
    def write(
        self, first: int, arrays: Mapping[str, np.ndarray], columns: tuple[Column, ...]
    ) -> None:
        """Write runs from `first` on; arrays are (runs, nt, ...), "ts" is among them."""

    @abc.abstractmethod
    def holds(self, first: int, end: int) -> bool:
        """Whether files of the runs from `first` to before `end` are still there."""

    @abc.abstractmethod
    def read(self, run: int, columns: tuple[Column, ...]) -> dict[str, np.ndarray]:
        """Quantities of one run, (nt, ...) each."""

    @abc.abstractmethod
    def read_all(self, column: Column) -> np.ndarray:
        """One quantity of all runs, (runs, nt, ...)."""


class StorageFiles(AbstractTrajectories):
    """One .sto file for each run, with 17 digits: reading gives back what was written."""

    def __init__(self, folder: pathlib.Path, runs: int, batch_size: int):
        self._folder, self._runs = folder, runs
        self._digits = len(str(max(runs - 1, 1)))

    def path(self, run: int) -> pathlib.Path:
        return self._folder / f"run_{run:0{self._digits}d}.sto"

    def write(
        self, first: int, arrays: Mapping[str, np.ndarray], columns: tuple[Column, ...]
    ) -> None:
        labels = tuple(label for column in columns for label in column.labels)
        for i, ts in enumerate(arrays["ts"]):
            data = [arrays[column.name][i].reshape(ts.size, -1) for column in columns]
            table = Table(ts, labels, np.hstack(data), name=f"run {first + i}")
            write_storage(self.path(first + i), table)

    def holds(self, first: int, end: int) -> bool:
        return all(self.path(run).exists() for run in range(first, end))

    def read(self, run: int, columns: tuple[Column, ...]) -> dict[str, np.ndarray]:
        table = read_storage(self.path(run))
        ends = np.cumsum([len(column.labels) for column in columns])
        parts = np.split(table.data, ends[:-1], axis=1)
        return {c.name: c.restored(part) for c, part in zip(columns, parts, strict=True)}

    def read_all(self, column: Column) -> np.ndarray:
        tables = (read_storage(self.path(run)) for run in range(self._runs))
        return np.stack(
            [column.restored(np.stack([t.column(x) for x in column.labels], 1)) for t in tables]
        )


class ZarrGroup(AbstractTrajectories):
    """One array for each quantity; a chunk of the batch is a chunk of the array."""

    def __init__(self, folder: pathlib.Path, runs: int, batch_size: int):
        self._folder, self._runs, self._batch_size = folder / "rows.zarr", runs, batch_size
        self._zarr = _zarr()

    def write(
        self, first: int, arrays: Mapping[str, np.ndarray], columns: tuple[Column, ...]
    ) -> None:
        group = self._zarr.open_group(str(self._folder), mode="a")
        for name, labels in (("ts", ("time",)), *((c.name, c.labels) for c in columns)):
            values = arrays[name]
            if name not in group:
                shape = values.shape[1:]
                array = group.create_array(
                    name,
                    shape=(self._runs, *shape),
                    chunks=(self._batch_size, *shape),
                    dtype=values.dtype,
                    fill_value=np.nan,
                )
                array.attrs["labels"] = list(labels)
            group[name][first : first + values.shape[0]] = values

    def holds(self, first: int, end: int) -> bool:
        return self._folder.exists()

    def read(self, run: int, columns: tuple[Column, ...]) -> dict[str, np.ndarray]:
        group = self._zarr.open_group(str(self._folder), mode="r")
        return {name: np.asarray(group[name][run]) for name in (c.name for c in columns)}

    def read_all(self, column: Column) -> np.ndarray:
        group = self._zarr.open_group(str(self._folder), mode="r")
        return np.asarray(group[column.name][:])


FORMATS: dict[str, Any] = {"sto": StorageFiles, "zarr": ZarrGroup}


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise ImportError(
            'format="zarr" needs Zarr: pip install "empbody[zarr]", or choose format="sto"'
        ) from None
    return zarr
