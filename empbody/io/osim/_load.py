"""A model from an .osim file."""

import hashlib
import math
import os
from collections.abc import Collection, Mapping
from typing import Literal

import jax
import numpy as np

from ...model import Model
from .._errors import FileFormatError
from ._build import build_skeleton
from ._closing import close_loops
from ._context import Context
from ._coordinates import ranges_of, resolve_coordinates
from ._forces import read_forces
from ._read import read_root
from ._report import Notes
from ._source import Source
from ._spec import ModelSpec
from ._unread import note_unread
from ._xml import parse_bytes, read_bytes

_FINITE = (
    "axis",
    "translation",
    "rotation",
    "body_translation",
    "body_rotation",
    "mass",
    "com",
    "inertia",
    "gravity",
    "rhythm",
    "default_q",
    "marker_positions",
)


def load(
    path: str | os.PathLike[str],
    *,
    lock: Mapping[str, float] | None = None,
    free: Collection[str] = (),
    wrapping: bool = True,
    unsupported: Literal["raise", "skip"] = "raise",
) -> Model:
    """The model that an OpenSim file (.osim, versions 10902 to 40600) describes.

    Coordinate couplers are substituted: they become part of the rhythm, and only the
    coordinates that are left, in the file's order, are the model's. Joint variables are
    named by joint and axis. `model.report` tells what became of everything in the file.

    **Arguments:**

    - `lock`: coordinates to fix, with their values (rad or m). Those that the file locks
      are fixed at their default values.
    - `free`: coordinates to set free although the file locks, prescribes or couples them.
    - `wrapping`: whether muscles slide over the file's surfaces.
    - `unsupported`: "raise" for mechanics that cannot be honoured, or "skip" to leave them
      out and say so in the report.

    **Raises:** `FileFormatError`, naming element and line, for a file that makes no sense;
    its subclass `UnsupportedElementError` for what cannot be honoured; `OSError` where the
    file cannot be read; `ValueError` for options that do not fit.
    """
    if unsupported not in ("raise", "skip"):
        raise ValueError(f'unsupported = {unsupported!r}; "raise" or "skip" is expected')
    if isinstance(free, str):
        raise ValueError(f"free is the string {free!r}; give [{free!r}]")
    file = os.fspath(path)
    content = read_bytes(file)
    locked = {str(name): float(value) for name, value in (lock or {}).items()}
    freed = tuple(dict.fromkeys(str(name) for name in free))
    for name, value in locked.items():
        if not math.isfinite(value):
            raise ValueError(f"lock: {name!r} is {value}; a finite number is expected")
    # Absurd numbers overflow; what comes of them is looked at in the end.
    with np.errstate(all="ignore"):
        model = load_bytes(content, file, locked, freed, wrapping, unsupported)
    _check_numbers(model, file)
    return model


def load_bytes(
    content: bytes,
    file: str,
    locked: dict[str, float],
    freed: tuple[str, ...],
    wrapping: bool,
    unsupported: Literal["raise", "skip"],
) -> Model:
    """The model of a document in memory."""
    skip = unsupported == "skip"
    notes = Notes()
    spec, frames = read_root(parse_bytes(content, file), notes, skip)
    names, values = resolve_coordinates(spec, locked, freed, notes, skip)
    names, values, defaults, reach = close_loops(spec, frames, names, values, freed, notes, skip)
    if not names:
        spec.model.fail("no coordinate is free to move; free some with free=[...]")
    context = Context(spec, frames, names, values, notes, unsupported, wrapping)
    skeleton = build_skeleton(spec, names, values, notes)
    units, surfaces, forces = read_forces(context)
    note_unread(spec, notes)
    source = Source(
        content=hashlib.sha256(content).hexdigest(),
        options=(tuple(sorted(locked.items())), tuple(sorted(freed)), wrapping, skip),
        spec=spec,
        context=context,
        variables=skeleton.variables,
        report=notes.report(file, spec.version, _meshes(spec)),
        document=content,
    )
    try:
        model = Model.build(
            coordinates=names,
            bodies=skeleton.bodies,
            rhythm=skeleton.rhythm,
            gravity=spec.gravity,
            forces=forces,
            ranges=ranges_of(spec, names) | reach,
            muscles=units,
            surfaces=surfaces,
            default_q=defaults,
            markers=skeleton.markers,
            source=source,
        )
    except ValueError as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(file, f"the file describes no model: {error}") from error
    source.pristine["model"] = model
    return model


def _meshes(spec: ModelSpec) -> list[tuple[str, str]]:
    pairs = [("ground", mesh) for mesh in spec.ground_meshes]
    return pairs + [(body.name, mesh) for body in spec.bodies.values() for mesh in body.meshes]


def _check_numbers(model: Model, file: str) -> None:
    """Refuse a model with NaN, or with bodies or joints at infinity."""
    for where, leaf in jax.tree_util.tree_leaves_with_path(model):
        values = np.asarray(leaf)
        if not np.issubdtype(values.dtype, np.floating):
            continue
        name = str(getattr(where[0], "name", ""))
        if np.isnan(values).any() or (name in _FINITE and np.isinf(values).any()):
            raise FileFormatError(
                file, f"its numbers are too large or too small: {name} of the model is not finite"
            )
