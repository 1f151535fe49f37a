"""What `empbody fit` looks for in its files before it believes the errors."""

import hashlib
import math
import pathlib
from collections.abc import Sequence

import numpy as np

from ..io import Observations
from ..io._observations import _cells, _column
from ._fit_task import Task, plain

_MANY = 8


def fingerprint(path: pathlib.Path) -> str:
    """SHA-256 of a file: whether a prior was made from it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def subject_column(task: Task, path: pathlib.Path) -> str | None:
    """The column of subjects that the prior was made with, if this table has it too."""
    column = None if task.file is None else task.file.provenance.get("subject_column")
    return column if column in _cells(path)[0] else None


def known_subjects(task: Task, names: Sequence[str]) -> list[str]:
    """Those of the names that the prior's subjects have."""
    held = [] if task.file is None else task.file.fit.get("subjects", [])
    return [name for name in dict.fromkeys(names) if name in held]


def leakage(task: Task, path: pathlib.Path, names: Sequence[str]) -> list[str]:
    """A note where the prior has seen what it is tested on."""
    if task.file is None:
        return []
    remedy = "For new subjects, see --subject without --prior: it leaves out each in turn"
    if task.file.provenance.get("data_sha256") == fingerprint(path):
        return [
            f"the prior was made from this table: the error is not that of new subjects. {remedy}"
        ]
    known = known_subjects(task, names)
    if not known:
        return []
    shown = ", ".join(known[:_MANY]) + (" ..." if len(known) > _MANY else "")
    return [
        f"the prior holds subjects of the same names ({shown}): unless those are other people, "
        f"the error is not that of new subjects. {remedy}"
    ]


def seeming_radians(task: Task, path: pathlib.Path, data: Observations) -> list[str]:
    """A note for columns of degrees whose numbers look like radians."""
    header, notes = _cells(path)[0], []
    columns = np.concatenate([data.inputs, data.targets], axis=1).T
    for name, column in zip((*task.inputs, *task.targets), columns, strict=True):
        at, factor = _column(path, header, name)
        if factor == 1.0 or name in data.maps:
            continue
        most = float(np.abs(column).max()) / factor  # as it stands in the file
        # Joint angles of a few degrees are common, inputs of a few degrees are not.
        limit = 2 * math.pi if name in task.inputs else math.pi / 2
        if most < limit:
            notes.append(
                f"{header[at]} is taken for degrees, but no value is beyond {most:.2g}; if they "
                f"are radians, call the column {plain((name,))[0]}_rad"
            )
    return notes


def levels(names: Sequence[str], inputs: np.ndarray) -> dict[str, list[float]]:
    """Values (rad) of inputs that have few, such as planes of elevation."""
    found = {n: np.unique(np.round(c, 9)) for n, c in zip(names, inputs.T, strict=True)}
    return {name: values.tolist() for name, values in found.items() if len(values) <= _MANY}
