"""`empbody fit --suggest`: which poses to measure, before there are data."""

import itertools
import math

import numpy as np

from ..fitting import choose_poses
from ._errors import CommandError
from ._fit_report import finish_fit, pose, pose_line
from ._fit_task import Task, plain
from ._progress import Progress

_STEPS = (5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 90.0)
"""deg, between poses that may be suggested"""
_MOST = 400


def suggest(task: Task, progress: Progress) -> int:
    arguments, file = task.arguments, task.file
    if file is None or file.prior is None:
        raise CommandError("--suggest needs --prior: the population says what is worth measuring")
    if arguments.data is not None:
        raise CommandError(
            "--suggest is for the time before there are data; to pick rows of a table, use "
            "--calibrate N"
        )
    for option in ("out", "figure", "test", "calibrate", "subject", "trial"):
        if getattr(arguments, option) is not None:
            raise CommandError(f"--suggest prints poses and fits nothing: leave out --{option}")
    if file.ranges is None:
        raise CommandError(f"{arguments.prior} has no ranges of its inputs to choose poses from")
    candidates = _candidates(task, file.ranges)
    if arguments.suggest > len(candidates):
        raise CommandError(f"--suggest {arguments.suggest}: there are {len(candidates)} poses")
    rows = choose_poses(candidates, arguments.suggest, file.prior)
    poses = [pose(task, candidates[row].tolist()) for row in rows]
    names = plain(task.inputs)
    ranges = np.degrees(np.asarray(file.ranges)).tolist()
    summary = {
        "inputs": list(task.inputs),
        "targets": list(task.targets),
        "family": task.family,
        "poses": poses,
        "ranges_deg": dict(zip(names, ranges, strict=True)),
        "notes": [],
    }
    lines = [
        f"poses to measure (deg), chosen for {task.family} with the prior:",
        *map(pose_line, poses),
        f"then: empbody fit NEW.csv --prior {arguments.prior} --out mine.json",
    ]
    return finish_fit(task, progress, summary, lines)


def _candidates(task: Task, ranges: tuple[tuple[float, float], ...]) -> np.ndarray:
    """Poses over the ranges of the prior's data: its own planes, else round numbers."""
    assert task.file is not None
    known, axes = task.file.fit.get("levels", {}), []
    for step in _STEPS:
        axes = []
        for name, column, (low, high) in zip(plain(task.inputs), task.inputs, ranges, strict=True):
            given = known.get(name) or sorted(task.maps.get(column, {}).values())
            inside = [x for x in given if low - 1e-9 <= x <= high + 1e-9]
            axes.append(inside or _round_numbers(low, high, step))
        if math.prod(map(len, axes)) <= _MOST:
            break
    return np.array(list(itertools.product(*axes)))


def _round_numbers(low: float, high: float, step: float) -> list[float]:
    first, last = (math.degrees(x) / step for x in (low, high))
    found = [math.radians(step * k) for k in range(math.ceil(first), math.floor(last) + 1)]
    return found if len(found) > 1 else [low, high]
