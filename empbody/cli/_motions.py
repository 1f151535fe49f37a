"""Motions that commands read: options, filters, gaps."""

import argparse
import dataclasses
import warnings

import numpy as np

from ..io import Motion, read_motion
from ..io._motion import Remedies
from ..model import Model
from ..pipeline import MotionDynamics
from ._errors import CommandError
from ._models import in_si, readable
from ._progress import Progress

_HEADER = {
    "degrees": "set inDegrees=yes in the file's header",
    "radians": "set inDegrees=no in the file's header",
    "coupled": "write them in radians",
}
FILE_ONLY = Remedies(
    missing="add columns for them",
    gaps="fill the gaps in the file first, or cut those rows off",
    **_HEADER,
)
"""Remedies of commands without options about the motion: correct the file."""
_OPTIONS = Remedies(
    missing="say where each of them stands with --at NAME=VALUE",
    gaps="--fill-gaps bridges gaps between rows",
    **_HEADER,
)


def load_motion(
    model: Model, arguments: argparse.Namespace, progress: Progress
) -> tuple[Motion, list[str]]:
    """The motion, and what a user should know about it."""
    path = readable(arguments.motion)
    held = in_si(model, arguments, "--at", arguments.at)
    with progress.stage(f"reading {path.name}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        motion = read_motion(
            path,
            model,
            missing="default" if held else "raise",
            gaps="interpolate" if arguments.fill_gaps else "raise",
            remedies=_OPTIONS,
        )
    for name in motion.filled:
        if name not in held:
            raise CommandError(
                f"{path} has no column for {name}; say where it stands with --at {name}=VALUE"
            )
    for name in held:
        if name not in motion.filled:
            raise CommandError(f"--at gives {name}, but {path} has a column for it")
    q = motion.q.copy()
    for name, value in held.items():
        q[:, model.coordinate_index(name)] = value
    notes = list(motion.warnings)
    if motion.extra:
        shown = ", ".join(motion.extra[:6]) + (" ..." if len(motion.extra) > 6 else "")
        notes.append(f"{len(motion.extra)} columns are no free coordinates of the model: {shown}")
    notes += _beyond(model, q)
    return _cut(dataclasses.replace(motion, q=q), arguments), notes


def end_notes(found: MotionDynamics) -> list[str]:
    """Which rows at both ends a low-pass filter has made up in part."""
    n, t = found.end_rows, found.time
    if not n:
        return []
    if 2 * n >= t.size:
        return [
            f"--lowpass: all {t.size} rows lean on what the filter guesses beyond the ends (it "
            f"takes {n} rows at each): filter a longer stretch"
        ]
    return [
        f"--lowpass: the first and the last {n} rows (up to {t[n - 1]:g} s, from {t[-n]:g} s) lean "
        "on what the filter guesses beyond the ends: take them as doubtful"
    ]


def _beyond(model: Model, q: np.ndarray) -> list[str]:
    """Coordinates that leave their range."""
    low, high = np.asarray(model.lower)[None], np.asarray(model.upper)[None]
    beyond = np.sum((q < low - 1e-6) | (q > high + 1e-6), axis=0)
    return [
        f"{name} leaves its range in {count} rows"
        for name, count in zip(model.coordinate_names, beyond.tolist(), strict=True)
        if count
    ]


def _cut(motion: Motion, arguments: argparse.Namespace) -> Motion:
    keep = np.ones(motion.time.size, dtype=bool)
    if arguments.start is not None:
        keep &= motion.time >= arguments.start - 1e-12
    if arguments.stop is not None:
        keep &= motion.time <= arguments.stop + 1e-12
    if not keep.any():
        raise CommandError(
            f"no row is between --from and --to: the motion goes from {motion.time[0]:g} to "
            f"{motion.time[-1]:g} s"
        )
    qd = None if motion.qd is None else motion.qd[keep]
    return dataclasses.replace(motion, time=motion.time[keep], q=motion.q[keep], qd=qd)
