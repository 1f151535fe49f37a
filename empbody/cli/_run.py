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
from ._case import Options, Result
from ._errors import FAILURE, CommandError
from ._five_bar import run_five_bar
from ._four_bar import run_four_bar
from ._progress import Progress
from ._settings import cache_in_use
from ._shoulder import run_shoulder
from ._squeezer import run_squeezer
from .arguments._names import ROUTES, SHOULDER_RHYTHMS

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
