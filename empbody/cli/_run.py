"""`empbody run`: simulate a mechanism, write its trajectory, summary and figures."""

import argparse
import json
import math
import pathlib
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from .. import viz
from ..io import replacing, replacing_files, write_storage
from ..models import ROUTES
from ..solvers import SOLVERS
from ._case import Options, Result
from ._errors import FAILURE, CommandError
from ._five_bar import run_five_bar
from ._four_bar import run_four_bar
from ._progress import Progress
from ._settings import cache_in_use
from ._shoulder import run_shoulder
from ._squeezer import run_squeezer

SHOULDER_RHYTHMS = ("de_groot", "de_groot_elevation", "holzbaur")

CASES: dict[str, Callable[[Options, Progress], Result]] = {
    "four-bar": run_four_bar,
    "five-bar": run_five_bar,
    "squeezer": run_squeezer,
    "shoulder": run_shoulder,
}
COORDINATES = {
    "four-bar": ("q",),
    "five-bar": ("q1", "q2"),
    "squeezer": ("q",),
    "shoulder": ("elv_angle", "shoulder_elv", "shoulder_rot"),
}
# A method of order 2 would need millions of steps at the usual tolerance.
_LOW_ORDER = {"trbdf2": 1e-7}
# Coordinates that are angles are given in degrees unless --radians.
_ANGLES = ("five-bar", "squeezer", "shoulder")
_ONLY_SHOULDER = ("motion", "model", "gains", "load", "no_wrap", "align")
_NOT_SHOULDER = ("order", "branch", "mode")

DESCRIPTION = """\
Simulate one of the manuscript's mechanisms and write its trajectory (.sto, radians),
a summary and the figures.

  shoulder   a motion tracked by computed torque, the torques, the muscle forces that give
             them at least cost, moment arms (Figs. 14, 15, 19-21)
  four-bar   point p along a desired trajectory (Figs. 4-6), then a release on a spring
  five-bar   the same with two coordinates (Figs. 8-11), then a fall under gravity
  squeezer   forward dynamics of seven bodies, 0.05 s from rest (Figs. 17, 18)
"""
UNITS = """\
units: --q0 is where the forward simulation starts, at rest. For the five-bar, the squeezer
and the shoulder it holds angles, in degrees or with --radians in radians (the squeezer starts
at -0.0620 rad, that is -3.5523 degrees, if --q0 is absent; the shoulder where the motion
does, and with its speed). For the four-bar it is a height in metres, with or without
--radians. Files are in SI units and radians.

Compiled functions are kept in the user's cache folder, which makes the second run faster;
EMPBODY_CACHE_DIR names another folder, or none when it is empty.
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "run",
        parents=[common],
        help="simulate a mechanism: trajectory, summary, figures",
        description=DESCRIPTION,
        epilog=UNITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("--json", action="store_true",
        help="a machine-readable summary on standard output, and nothing else there")  # fmt: skip
    add("mechanism", metavar="MECHANISM", help=", ".join(CASES))
    add("--out", metavar="DIR", help="folder for the results (default: out/MECHANISM)")
    add("--rhythm", metavar="NAME",
        help=f"how joint variables are made from coordinates: {', '.join(ROUTES)} (default: "
        f"implicit); for the shoulder {', '.join(SHOULDER_RHYTHMS)} (default: de_groot) or a "
        "rhythm file (.json)")  # fmt: skip
    add("--align", type=float, nargs="*", metavar="X",
        help="of a rhythm file: where plane and elevation are these (degrees), bones stand as by "
        "de_groot, and the rhythm turns them from there; without numbers in the middle plane and "
        "at the least elevation of the file's data")  # fmt: skip
    add("--motion", metavar="FILE", help="motion that the shoulder follows (.mot, .sto, .csv)")
    add("--model", metavar="FILE.osim", help="model to take instead of the shoulder of ours")
    add("--gains", type=float, nargs="+", metavar="K",
        help="of the shoulder's controller (1/s), one or one per coordinate (default: 100 100 "
        "1000)")  # fmt: skip
    add("--load", action="store_true", default=None,
        help="the shoulder carries forearm and hand, elbow straight")  # fmt: skip
    add("--no-wrap", action="store_true", default=None,
        help="muscles of the shoulder go straight from point to point")  # fmt: skip
    add("--order", type=int, metavar="N",
        help="harmonics of the Fourier rhythm (default: 14, five-bar: 16)")  # fmt: skip
    add("--solver", choices=tuple(SOLVERS), metavar="NAME",
        help=f"{', '.join(SOLVERS)} (default: dopri8, shoulder: rkf45)")  # fmt: skip
    add("--rtol", type=float, metavar="X", help="default: 1e-10, or 1e-7 for trbdf2")
    add("--atol", type=float, metavar="X", help="default: the same as --rtol")
    add("--max-steps", type=int, default=100_000, metavar="N", help="default: %(default)d")
    add("--q0", type=float, nargs="+", metavar="X", help="coordinates at the start; see units")
    add("--radians", action="store_true",
        help="angles of --q0 and --align are in radians, not degrees")  # fmt: skip
    add(
        "--duration",
        type=float,
        metavar="S",
        help="of the forward simulation, or of the shoulder's motion: shorter is faster (s)",
    )
    add("--rows", type=int, metavar="N", help="rows of the forward simulation")
    add("--set", action="append", default=[], metavar="NAME=VALUE", type=_assignment,
        help="change a length or another figure (SI units), e.g. l0=5.2")  # fmt: skip
    add("--branch", choices=("A", "B"), help="of the four-bar (default: A)")
    add("--mode", choices=("neg", "pos"),
        help="of the five-bar, the sign of joint 4 (default: neg)")  # fmt: skip
    add("--no-dae", action="store_true", help="leave out the comparison with the DAE")
    add("--no-figures", action="store_true", help="write no PNG files")


def run(arguments: argparse.Namespace) -> int:
    """The command; returns the exit status."""
    name = arguments.mechanism.lower().replace("_", "-")
    if name not in CASES:
        raise CommandError(
            f"there is no mechanism {arguments.mechanism!r}; choose one of {', '.join(CASES)}"
        )
    options = _options(arguments, name)
    out = pathlib.Path(arguments.out or pathlib.Path("out") / name)
    progress = Progress(quiet=arguments.quiet)
    try:
        with replacing_files(out) as stage:
            result = CASES[name](options, progress)
            summary = _write(stage, name, result, options, arguments, progress)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandError(f"cannot write to {out}: {reason}", FAILURE) from error
    if arguments.json:
        json.dump(summary, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        rhythm = "its own" if options.model else options.rhythm
        lines = (f"{options.model or name}, {rhythm} rhythm, {options.solver}", *result.lines)
        files = ", ".join(summary["files"])
        print(*lines, f"files   {files}", f"        in {out}", sep="\n")
    return 0


def _write(
    stage: pathlib.Path,
    name: str,
    result: Result,
    options: Options,
    arguments: argparse.Namespace,
    progress: Progress,
) -> dict[str, Any]:
    for file, table in result.tables.items():
        write_storage(stage / file, table)
    files = list(result.tables)
    if not arguments.no_figures:
        with progress.stage("drawing the figures"):
            for file, draw in result.figures.items():
                viz.save(draw(), stage / file)
                files.append(file)
    summary = {
        "command": "run",
        "mechanism": name,
        "version": version("empbody"),
        "rhythm": options.rhythm,
        "solver": options.solver,
        "rtol": options.rtol,
        "atol": options.atol,
        "set": dict(options.changes),
        **result.summary,
        "compilation_cache": cache_in_use(),
        "total_wall_time_s": progress.elapsed(),
        "files": [*files, "summary.json"],
    }
    with replacing(stage / "summary.json") as part:
        part.write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return summary


def _options(arguments: argparse.Namespace, name: str) -> Options:
    _check_numbers(arguments)
    _check_applies(arguments, name)
    q0 = arguments.q0
    if q0 is not None and arguments.model is None:
        _check_start(q0, COORDINATES[name])
    if q0 is not None and name in _ANGLES and not arguments.radians:
        q0 = [math.radians(x) for x in q0]
    order = {"five-bar": 16}.get(name, 14) if arguments.order is None else arguments.order
    solver = arguments.solver or ("rkf45" if name == "shoulder" else "dopri8")
    rtol = _LOW_ORDER.get(solver, 1e-10) if arguments.rtol is None else arguments.rtol
    return Options(
        rhythm=_rhythm(arguments, name),
        solver=solver,
        rtol=rtol,
        atol=rtol if arguments.atol is None else arguments.atol,
        max_steps=arguments.max_steps,
        q0=None if q0 is None else tuple(q0),
        duration=arguments.duration,
        rows=arguments.rows,
        changes=dict(arguments.set),
        branch=arguments.branch or "A",
        mode=arguments.mode or "neg",
        order=order,
        dae=not arguments.no_dae,
        motion=arguments.motion,
        model=arguments.model,
        gains=None if arguments.gains is None else tuple(arguments.gains),
        load=bool(arguments.load),
        wrapping=not arguments.no_wrap,
        figures=not arguments.no_figures,
        align=_alignment(arguments),
    )


def _rhythm(arguments: argparse.Namespace, name: str) -> str:
    """Its name, or for the shoulder a file."""
    if name == "shoulder":
        rhythm = arguments.rhythm or SHOULDER_RHYTHMS[0]
        if arguments.model is not None and arguments.rhythm is not None:
            raise CommandError("--rhythm is for the shoulder of ours: --model brings its own")
        if rhythm in SHOULDER_RHYTHMS or arguments.model is not None:
            return rhythm
        if not pathlib.Path(rhythm).is_file():
            raise CommandError(
                f"--rhythm {rhythm}: the shoulder has {', '.join(SHOULDER_RHYTHMS)}, and there is "
                "no file of this name"
            )
        return rhythm
    rhythm = arguments.rhythm or ROUTES[0]
    if rhythm not in ROUTES:
        raise CommandError(
            f"argument --rhythm: invalid choice: {rhythm!r} (choose from {', '.join(ROUTES)})"
        )
    return rhythm


def _alignment(arguments: argparse.Namespace) -> bool | tuple[float, ...]:
    """Pose (rad) in which a rhythm file is to agree with the published rhythm; True: its own."""
    if arguments.align is None:
        return False
    if arguments.model is not None or not (arguments.rhythm or "").lower().endswith(".json"):
        raise CommandError("--align is for a rhythm file: give one with --rhythm FILE.json")
    if len(arguments.align) not in (0, 2):
        raise CommandError(
            f"--align needs no number or two (plane, elevation), got {len(arguments.align)}"
        )
    if not all(math.isfinite(x) for x in arguments.align):
        raise CommandError("--align needs finite numbers")
    angles = arguments.align if arguments.radians else map(math.radians, arguments.align)
    return tuple(angles) or True


def _check_numbers(arguments: argparse.Namespace) -> None:
    for name, least in (("max_steps", 1), ("rows", 2), ("order", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            flag = name.replace("_", "-")
            raise CommandError(f"--{flag} {value}: at least {least} is needed")
    for name in ("rtol", "atol", "duration"):
        value = getattr(arguments, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise CommandError(f"--{name} {value:g}: a positive number is needed")


def _check_applies(arguments: argparse.Namespace, name: str) -> None:
    """Refuse options that would have no effect."""
    for option, mechanism in (("branch", "four-bar"), ("mode", "five-bar")):
        if getattr(arguments, option) is not None and name != mechanism:
            raise CommandError(f"--{option} is for the {mechanism} only, not the {name}")
    for option in _ONLY_SHOULDER if name != "shoulder" else _NOT_SHOULDER:
        if getattr(arguments, option) is not None:
            flag = option.replace("_", "-")
            raise CommandError(f"--{flag} has no meaning for the {name}")
    if name == "shoulder" and arguments.set:
        raise CommandError("--set is for the linkages; edit the shoulder in Python")
    if arguments.order is not None and arguments.rhythm != "fourier":
        raise CommandError(f"--order is for --rhythm fourier only, not {arguments.rhythm}")


def _check_start(q0: list[float], names: tuple[str, ...]) -> None:
    if len(q0) != len(names):
        raise CommandError(f"--q0 needs {len(names)} numbers ({', '.join(names)}), got {len(q0)}")
    for name, value in zip(names, q0, strict=True):
        if not math.isfinite(value):
            raise CommandError(f"--q0 gives {name} = {value}, which is not a finite number")


def _assignment(text: str) -> tuple[str, float]:
    name, found, value = text.partition("=")
    try:
        if not found:
            raise ValueError
        return name.strip(), float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a number") from None
