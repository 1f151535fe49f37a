"""A batch in a folder: written chunk by chunk, and taken up again where it was left.

The folder holds `manifest.json` (what the batch is), the trajectories, and for every chunk that
is complete `chunks/<number>.npz` with everything that is not a trajectory. That file is written
last and appears whole or not at all, so a chunk is either done or will be made again.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..io import replacing
from ..model import Model
from ._columns import Column, columns_of
from ._trajectories import FORMATS, AbstractTrajectories

_MANIFEST, _COLUMNS, _CHUNKS = "manifest.json", "columns.json", "chunks"
_KIND, _VERSION = "empbody batch", 1


class BatchFolderError(ValueError):
    """A folder that cannot hold or continue a batch; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a batch is, as its folder remembers it."""

    format: str
    runs: int
    batch_size: int
    inputs: dict[str, str]
    """Hash of everything that the results depend on, by name."""

    @property
    def chunks(self) -> int:
        return -(-self.runs // self.batch_size)

    def span(self, chunk: int) -> tuple[int, int]:
        """First run of a chunk and the first behind it."""
        first = chunk * self.batch_size
        return first, min(first + self.batch_size, self.runs)


class Store:
    """A batch's folder."""

    def __init__(self, folder: str | os.PathLike[str], plan: Plan):
        self.folder, self.plan = pathlib.Path(folder), plan
        kind = FORMATS[plan.format]
        self._rows: AbstractTrajectories = kind(self.folder, plan.runs, plan.batch_size)

    @staticmethod
    def prepare(folder: str | os.PathLike[str], plan: Plan) -> "Store":
        """A new batch's folder, or that of the same batch, begun before.

        **Raises:** `BatchFolderError` where the folder holds something else.
        """
        store, path = Store(folder, plan), pathlib.Path(folder)
        if (path / _MANIFEST).exists():
            _check_same(path, Store.open(folder).plan, plan)
            return store
        # Another process may be writing the same manifest just now.
        if path.exists() and (not path.is_dir() or not all(map(_is_part, path.iterdir()))):
            raise BatchFolderError(
                f"{path} is not empty and holds no batch: give a new or an empty folder"
            )
        path.mkdir(parents=True, exist_ok=True)
        _write_json(path / _MANIFEST, {"kind": _KIND, "version": _VERSION, **vars(plan)})
        return store

    @staticmethod
    def open(folder: str | os.PathLike[str]) -> "Store":
        """A batch's folder as it is."""
        path = pathlib.Path(folder) / _MANIFEST
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise BatchFolderError(f"{folder} holds no batch: there is no {_MANIFEST}") from None
        except ValueError:
            about = None
        if not isinstance(about, dict) or about.get("kind") != _KIND:
            raise BatchFolderError(f"{path} is not the manifest of a batch")
        if about.get("version") != _VERSION:
            raise BatchFolderError(
                f"{path} is of version {about.get('version')}, and {_VERSION} is known here: use "
                "the version of empbody that wrote it"
            )
        names = [field.name for field in dataclasses.fields(Plan)]
        return Store(folder, Plan(**{name: about[name] for name in names}))

    def _chunk(self, chunk: int) -> pathlib.Path:
        return self.folder / _CHUNKS / f"{chunk:06d}.npz"

    def missing(self) -> list[int]:
        """Chunks that are not done, or whose runs' files were taken away."""
        return [chunk for chunk in range(self.plan.chunks) if not self._is_done(chunk)]

    def _is_done(self, chunk: int) -> bool:
        return self._chunk(chunk).exists() and self._rows.holds(*self.plan.span(chunk))

    def write(self, chunk: int, model: Model, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep the results of a chunk; it counts as done when this returns."""
        columns = columns_of(model, arrays)
        if not (self.folder / _COLUMNS).exists():
            _write_json(self.folder / _COLUMNS, [vars(column) for column in columns])
        first, _ = self.plan.span(chunk)
        self._rows.write(first, arrays, columns)
        along = {column.name for column in columns}
        small = {name: array for name, array in arrays.items() if name not in along}
        self._chunk(chunk).parent.mkdir(exist_ok=True)
        with replacing(self._chunk(chunk)) as part, part.open("wb") as file:
            named: Any = {name.replace("/", ":"): array for name, array in small.items()}
            np.savez(file, **named)

    @property
    def columns(self) -> tuple[Column, ...]:
        known = json.loads((self.folder / _COLUMNS).read_text(encoding="utf-8"))
        return tuple(
            Column(c["name"], tuple(c["shape"]), c["dtype"], tuple(c["labels"])) for c in known
        )

    def summary(self) -> dict[str, np.ndarray]:
        """Everything but the trajectories, for all runs."""
        parts = []
        for chunk in range(self.plan.chunks):
            with np.load(self._chunk(chunk)) as file:
                parts.append({name.replace(":", "/"): file[name] for name in file.files})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def trajectories(self, run: int) -> dict[str, np.ndarray]:
        """Quantities along time of one run."""
        return self._rows.read(run, self.columns)

    def trajectory_of_all(self, name: str) -> np.ndarray:
        """One quantity along time, of all runs."""
        for column in self.columns:
            if column.name == name:
                return self._rows.read_all(column)
        known = ", ".join(column.name for column in self.columns)
        raise KeyError(f"{name!r} is not in {self.folder}, which has {known}")


def _check_same(path: pathlib.Path, there: Plan, plan: Plan) -> None:
    names = sorted(there.inputs.keys() | plan.inputs.keys())
    differs = [name for name in names if there.inputs.get(name) != plan.inputs.get(name)]
    sizes = ("runs", "batch_size", "format")
    differs += [name for name in sizes if getattr(there, name) != getattr(plan, name)]
    if differs:
        raise BatchFolderError(
            f"{path} holds a batch with another {', '.join(differs)}: give the same arguments to "
            "continue it, or another folder for a new batch"
        )


def _is_part(path: pathlib.Path) -> bool:
    return path.name.endswith(".part") or path.name == _MANIFEST


def _write_json(path: pathlib.Path, value: object) -> None:
    with replacing(path) as part:
        part.write_text(json.dumps(value, indent=1), encoding="utf-8")
