"""`empbody id`: inverse dynamics of a motion."""

import argparse
from typing import Any

import numpy as np

from ..pipeline import inverse_dynamics_along
from ._models import add_model_parser, finish, load_model, save_table, writable
from ._motions import add_motion_arguments, end_notes, load_motion
from ._progress import Progress

DESCRIPTION = """\
Inverse dynamics: the joint moments (N m) and forces (N) that a measured motion of the skeleton
needs, under OpenSim's labels (elbow_flexion_moment, pelvis_tx_force). Muscles take no part.
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = add_model_parser(
        commands, common, "id", "inverse dynamics: joint moments of a motion", DESCRIPTION
    )
    parser.set_defaults(command=run)
    add_motion_arguments(parser)
    parser.add_argument(
        "--elements", action="store_true",
        help="take off what springs, dampers and limit forces of the model give",
    )  # fmt: skip
    parser.add_argument("--out", required=True, metavar="FILE.sto", help="table to write")


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
