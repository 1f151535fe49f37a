"""`empbody id`: inverse dynamics of a motion."""

import argparse

import numpy as np

from ..pipeline import inverse_dynamics_along
from ._models import finish, load_model, save_table, writable
from ._motions import end_notes, load_motion
from ._progress import Progress


def run(arguments: argparse.Namespace) -> int:
    out = writable(arguments.out, ".sto", ".mot", ".csv")
    progress = Progress(quiet=arguments.quiet)
    model = load_model(arguments, progress)
    motion, notes = load_motion(model, arguments, progress)
    with progress.counting("inverse dynamics") as count:
        found = inverse_dynamics_along(
            model,
            motion,
            lowpass=arguments.lowpass,
            spline=arguments.spline,
            elements=arguments.elements,
            progress=count,
        )
    notes += end_notes(found)
    save_table(out, found.table())
    largest = np.max(np.abs(found.tau), axis=0)
    peaks = dict(zip(found.labels, largest.tolist(), strict=True))
    summary = {
        "out": str(out),
        "rows": found.time.size,
        "time_s": [float(found.time[0]), float(found.time[-1])],
        "lowpass_hz": arguments.lowpass,
        "spline_hz": arguments.spline,
        "doubtful_rows_at_each_end": found.end_rows,
        "largest": peaks,
        "notes": notes,
    }
    width = max(map(len, peaks))
    lines = ["largest moment or force (N m, N)"]
    lines += [f"  {label:<{width}}  {value:12.6g}" for label, value in peaks.items()]
    lines += [f"note: {note}" for note in notes]
    lines += [f"{found.time.size} rows in {out}"]
    return finish(arguments, "id", progress, summary, lines)
