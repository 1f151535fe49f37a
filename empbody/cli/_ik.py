"""`empbody ik`: poses from markers."""

import argparse

import numpy as np

from ..io import Motion, read_markers, write_motion
from ..pipeline import InverseKinematics, inverse_kinematics, model_markers
from ._errors import FAILURE, CommandError
from ._models import (
    finish,
    load_model,
    pairs,
    pose,
    readable,
    writable,
    write_columns,
)
from ._progress import Progress


def run(arguments: argparse.Namespace) -> int:
    out = writable(arguments.out, ".mot", ".sto", ".csv")
    errors = None if arguments.errors is None else writable(arguments.errors, ".csv")
    file = readable(arguments.markers)
    progress = Progress(quiet=arguments.quiet)
    model = load_model(arguments, progress)
    if not model_markers(model):
        raise CommandError(f"{arguments.model} has no markers")
    with progress.stage(f"reading {file.name}"):
        measured = read_markers(
            file, up=arguments.up, zeros_are_missing=arguments.zeros_are_missing
        )
    with progress.counting("inverse kinematics") as count:
        found = inverse_kinematics(
            model,
            measured,
            dict(pairs("--weight", arguments.weight)),
            pose(model, arguments, arguments.at),
            bounded=not arguments.no_limits,
            progress=count,
        )
    notes = _notes(found, model.coordinate_names, measured.time)
    try:
        motion = Motion.of(model, measured.time, found.q, name="Coordinates")
        write_motion(out, motion, degrees=not arguments.radians)
        if errors is not None:
            columns = [measured.time, found.rms, found.errors]
            write_columns(errors, ("time", "rms", *found.marker_names), np.column_stack(columns))
    except OSError as error:
        raise CommandError(f"cannot write to {out}: {error.strerror or error}", FAILURE) from error
    seen = np.isfinite(found.rms)
    marker, row, distance = found.worst
    mean = {name: float(np.nanmean(column)) if np.isfinite(column).any() else None
            for name, column in zip(found.marker_names, found.errors.T, strict=True)}  # fmt: skip
    summary = {
        "out": str(out),
        "frames": int(seen.size),
        "converged": int(found.converged.sum()),
        "rms_m": {"mean": float(found.rms[seen].mean()), "largest": float(found.rms[seen].max())},
        "worst": {"marker": marker, "time_s": float(measured.time[row]), "error_m": distance},
        "mean_error_m": mean,
        "unused_markers": list(found.unused),
        "notes": notes,
    }
    lines = [
        f"{seen.size} frames, {len(found.marker_names)} markers; error (mm): root mean square "
        f"{1e3 * summary['rms_m']['mean']:.2f} on average, "
        f"{1e3 * summary['rms_m']['largest']:.2f} at most",
        f"largest: {marker} {1e3 * distance:.2f} mm at {measured.time[row]:g} s",
        *(f"note: {note}" for note in notes),
        f"{seen.size} rows in {out}",
    ]
    return finish(arguments, "ik", progress, summary, lines)


def _notes(found: InverseKinematics, coordinates: tuple[str, ...], time: np.ndarray) -> list[str]:
    notes = []
    if found.unused:
        shown = ", ".join(found.unused[:8]) + (" ..." if len(found.unused) > 8 else "")
        notes.append(f"{len(found.unused)} markers of the file are not in the model: {shown}")
    empty = ~np.isfinite(found.rms)
    if empty.any():
        when = float(time[int(np.argmax(empty))])
        notes.append(f"{int(empty.sum())} frames show no marker and are NaN, from {when:g} s on")
    stuck = ~found.converged & ~empty
    if stuck.any():
        when = float(time[int(np.argmax(stuck))])
        notes.append(f"{int(stuck.sum())} frames did not converge, the first at {when:g} s")
    unseen = found.undetermined & ~empty[:, None]
    notes += [
        f"{coordinates[k]} moves no visible marker in {int(unseen[:, k].sum())} frames and is "
        "a guess there"
        for k in np.flatnonzero(unseen.any(axis=0)).tolist()
    ]
    return notes
