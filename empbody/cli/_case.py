"""What every mechanism of `empbody run` takes and gives."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from ..io import Table
from ..model import Model
from ..simulation._loops import why_open
from ._errors import CommandError


@dataclasses.dataclass(frozen=True)
class Options:
    """The command line of `empbody run`, in SI units and radians."""

    rhythm: str
    solver: str
    rtol: float
    atol: float
    max_steps: int
    q0: tuple[float, ...] | None
    duration: float | None
    rows: int | None
    changes: Mapping[str, float]
    """`--set`: other lengths and figures, by name"""
    branch: str
    mode: str
    order: int
    dae: bool
    motion: str | None = None
    """file of a motion that the shoulder is to follow"""
    model: str | None = None
    """.osim file to take instead of the shoulder"""
    gains: tuple[float, ...] | None = None
    load: bool = False
    """whether the shoulder carries forearm and hand"""
    wrapping: bool = True
    """whether its muscles slide over surfaces"""
    figures: bool = True
    align: bool | tuple[float, ...] = False
    """pose (rad) in which a rhythm file is to agree with the published rhythm, or whether"""


@dataclasses.dataclass(frozen=True)
class Result:
    """What a mechanism's run leaves behind."""

    tables: Mapping[str, Table]
    """by file name"""
    figures: Mapping[str, Callable[[], Figure]]
    """by file name; drawn when asked for"""
    summary: dict[str, Any]
    lines: tuple[str, ...]
    """the summary in words"""


def start(
    model: Model, q0: tuple[float, ...] | None, default: tuple[float, ...]
) -> Float[np.ndarray, " nq"]:
    """Coordinates at the start, checked against the model's ranges."""
    values = default if q0 is None else q0
    lower, upper = np.asarray(model.lower), np.asarray(model.upper)
    for k, name in enumerate(model.coordinate_names):
        if not lower[k] <= values[k] <= upper[k]:
            raise CommandError(
                f"--q0 gives {name} = {values[k]:.6g}, outside its range {lower[k]:.6g} to "
                f"{upper[k]:.6g}"
            )
    return np.array(values, dtype=float)


def check_changes(changes: Mapping[str, float], known: tuple[str, ...]) -> dict[str, float]:
    """`--set` with names that the mechanism has."""
    for name, value in changes.items():
        if name not in known:
            raise CommandError(f"--set {name}: there is no such figure; known: {', '.join(known)}")
        if not np.isfinite(value):
            raise CommandError(f"--set {name}={value}: a finite number is needed")
    return dict(changes)


def why_not_closed(
    model: Model, q: Float[np.ndarray, "rows nq"], joints: Float[np.ndarray, "rows nj"]
) -> str:
    """Why the first row without joint variables has none."""
    row = int(np.argmax(~np.all(np.isfinite(joints), axis=1)))
    reason = why_open(model, q[row]) or "the rhythm has no value there"
    place = ", ".join(f"{x:.6g}" for x in q[row])
    return f"the mechanism does not close at q = {place}: {reason}"


def times(options: Options, duration: float, rows: int) -> Float[np.ndarray, " rows"]:
    """Rows from 0 to the end (s)."""
    end = duration if options.duration is None else options.duration
    return np.linspace(0.0, end, rows if options.rows is None else options.rows)
