"""What all commands about a model file share: options, loading, poses, results."""

import argparse
import json
import math
import os
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from jaxtyping import Float

from ..io import FileFormatError, Table, load, replacing, write_storage
from ..model import Model
from ..pipeline import turning
from ._errors import FAILURE, CommandError
from ._progress import Progress
from ._settings import cache_in_use

_AS_OPTIONS = {
    'load with unsupported="skip" to leave it out': "--skip-unsupported leaves it out",
    "free some with free=[...]": "--free NAME lets one move",
}
"""Remedies of the loader as they are called here."""


def load_model(arguments: argparse.Namespace, progress: Progress) -> Model:
    """The model that the command line asks for."""
    path = readable(arguments.model)
    if path.suffix.lower() != ".osim":
        raise CommandError(f"{path} is not a model file: its name must end in .osim")
    with progress.stage(f"loading {path.name}"):
        try:
            return _load(path, arguments)
        except FileFormatError as error:
            words = str(error)
            for python, option in _AS_OPTIONS.items():
                words = words.replace(python, option)
            raise CommandError(words) from error


def _load(path: pathlib.Path, arguments: argparse.Namespace) -> Model:
    given = dict(pairs("--lock", arguments.lock))
    options: dict[str, Any] = {
        "free": arguments.free,
        "wrapping": not getattr(arguments, "no_wrap", False),
        "unsupported": "skip" if arguments.skip_unsupported else "raise",
    }
    lock = {name: angle(arguments, value) for name, value in given.items()}
    model = load(path, lock=lock, **options)
    # Only the file knows which coordinates are angles.
    lengths = [n for n in given if model.source.spec.coordinates[n].motion == "translational"]
    if not lengths or arguments.radians:
        return model
    return load(path, lock=lock | {name: given[name] for name in lengths}, **options)


def readable(path: str) -> pathlib.Path:
    """A file that is there, or one sentence."""
    file = pathlib.Path(path)
    if file.is_dir():
        raise CommandError(f"{path} is a folder, not a file")
    if not file.exists():
        raise CommandError(f"there is no file {path}")
    if not os.access(file, os.R_OK):
        raise CommandError(f"{path} cannot be read: permission denied")
    return file


def writable(path: str, *suffixes: str, option: str = "--out") -> pathlib.Path:
    """Where a result may go; told before the work, not after it."""
    file = pathlib.Path(path)
    if file.is_dir():
        raise CommandError(f"{option} {path} is a folder, not a file")
    if not file.absolute().parent.is_dir():
        raise CommandError(f"cannot write to {path}: there is no folder {file.parent}")
    if suffixes and file.suffix.lower() not in suffixes:
        raise CommandError(f"{option} {path}: the name must end in {' or '.join(suffixes)}")
    return file


def pairs(option: str, given: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same, with every name once."""
    given = list(given)
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"{option} gives {name} twice")
    return given


def angle(arguments: argparse.Namespace, value: float) -> float:
    return value if arguments.radians else math.radians(value)


def in_si(
    model: Model, arguments: argparse.Namespace, option: str, given: Iterable[tuple[str, float]]
) -> dict[str, float]:
    """Values of coordinates from the command line, in radians or metres."""
    turns = dict(zip(model.coordinate_names, turning(model), strict=True))
    values = {}
    for name, value in pairs(option, given):
        if name not in turns:
            raise CommandError(f"{option} {name}: {not_free(model, arguments, name)}")
        values[name] = angle(arguments, value) if turns[name] else value
    return values


def not_free(model: Model, arguments: argparse.Namespace, name: str) -> str:
    """Why a name is no coordinate that can be moved."""
    if name in dict(arguments.lock):
        return f"{name} is locked by --lock {name}"
    values = {} if model.source is None else model.source.context.values
    if name in locked(model):
        return f"{name} is locked; --free {name} lets it move"
    if name in values:
        return f"{name} follows other coordinates; --free {name} lets it move alone"
    return unknown("coordinate", name, model.coordinate_names)


def locked(model: Model) -> dict[str, float]:
    """Coordinates of the file that stand still (rad or m)."""
    if model.source is None:
        return {}
    values = model.source.context.values
    return {name: value.offset for name, value in values.items() if value.is_constant}


def shown_locked(model: Model) -> dict[str, float]:
    """The same in the units and with the labels of `shown_pose`."""
    shown = {}
    for name, value in locked(model).items():
        length = model.source.spec.coordinates[name].motion == "translational"
        shown[f"{name}_{'m' if length else 'deg'}"] = value if length else math.degrees(value)
    return shown


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """There is no such thing; these there are."""
    names = list(known)
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return f"there is no {kind} {name!r}; there are {shown or 'none'}"


def default_pose(model: Model) -> Float[np.ndarray, " nq"]:
    """The file's default values."""
    return np.array(model.default_q, dtype=float)


def pose(
    model: Model, arguments: argparse.Namespace, given: Iterable[tuple[str, float]]
) -> Float[np.ndarray, " nq"]:
    """The default pose with what `--at` says."""
    q = default_pose(model)
    for name, value in in_si(model, arguments, "--at", given).items():
        q[model.coordinate_index(name)] = value
    return q


def shown_pose(model: Model, q: Sequence[float] | np.ndarray) -> dict[str, float]:
    """Coordinates in the units of files: degrees or metres."""
    turns = turning(model)
    return {
        f"{name}_{'deg' if turn else 'm'}": math.degrees(value) if turn else float(value)
        for name, value, turn in zip(model.coordinate_names, q, turns, strict=True)
    }


def save_table(path: pathlib.Path, table: Table) -> None:
    """Write a .sto, .mot or .csv file."""
    try:
        if path.suffix.lower() == ".csv":
            write_columns(path, ("time", *table.labels), np.column_stack([table.time, table.data]))
        else:
            write_storage(path, table)
    except OSError as error:
        raise CommandError(f"cannot write to {path}: {error.strerror or error}", FAILURE) from error


def write_columns(path: pathlib.Path, labels: Sequence[str], rows: np.ndarray) -> None:
    """A .csv file with 17 significant digits; it appears whole or not at all."""
    lines = [",".join(labels)]
    lines += [",".join([f"{x:.17g}" for x in row]) for row in rows.tolist()]
    with replacing(path) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")


def finish(
    arguments: argparse.Namespace,
    command: str,
    progress: Progress,
    summary: Mapping[str, Any],
    lines: Iterable[str],
) -> int:
    """Print the summary, for people or machines; the exit status."""
    if not arguments.json:
        print(*lines, sep="\n")
        return 0
    whole = {
        "command": command,
        "model": str(arguments.model),
        "version": version("empbody"),
        **summary,
        "compilation_cache": cache_in_use(),
        "total_wall_time_s": progress.elapsed(),
    }
    json.dump(whole, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")
    return 0
