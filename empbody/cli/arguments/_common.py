"""What the command line offers for several commands. Nothing here imports JAX: help and
mistakes in the options come at once."""

import argparse
import importlib
import math
from collections.abc import Callable
from typing import Any

UNITS = """\
Angles on the command line are in degrees, or with --radians in radians; lengths in metres.

Compiled functions are kept in the user's cache folder, which makes the second run faster;
EMPBODY_CACHE_DIR names another folder, or none when it is empty.
"""


def later(module: str) -> Callable[[argparse.Namespace], int]:
    """`run` of a module of the command line, imported when it is called."""

    def run(arguments: argparse.Namespace) -> int:
        return importlib.import_module(f"empbody.cli.{module}").run(arguments)

    return run


def add_model_parser(
    commands: Any,
    common: argparse.ArgumentParser,
    name: str,
    words: str,
    description: str,
    wraps: bool = False,
) -> Any:
    """A sub-command about a model, with the options that all of them have."""
    parser = commands.add_parser(
        name,
        parents=[common],
        help=words,
        description=description,
        epilog=UNITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="model file (.osim)")
    add("--json", action="store_true",
        help="a machine-readable summary on standard output, and nothing else there")  # fmt: skip
    add("--lock", action="append", default=[], metavar="NAME=VALUE", type=assignment,
        help="hold a coordinate at a value")  # fmt: skip
    add("--free", action="append", default=[], metavar="NAME",
        help="let a coordinate move that the file locks")  # fmt: skip
    add("--skip-unsupported", action="store_true",
        help="leave out what cannot be honoured, instead of refusing the file")  # fmt: skip
    add("--radians", action="store_true", help="angles here are in radians, not degrees")
    if wraps:
        add("--no-wrap", action="store_true", help="leave out all wrapping")
    return parser


def assignment(text: str) -> tuple[str, float]:
    """NAME=VALUE with a finite number."""
    name, found, value = text.partition("=")
    try:
        number = float(value)
        if not (found and name.strip() and math.isfinite(number)):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a number") from None
    return name.strip(), number


def add_motion_arguments(parser: Any) -> None:
    add = parser.add_argument
    add("motion", metavar="MOTION", help="coordinates over time (.mot, .sto or .csv)")
    add("--at", action="append", default=[], metavar="NAME=VALUE", type=assignment,
        help="where a coordinate stands that the motion has not")  # fmt: skip
    add("--fill-gaps", action="store_true", help="bridge gaps (NaN) between rows by splines")
    add("--lowpass", type=_frequency, metavar="HZ",
        help="filter the motion first: Butterworth, fourth order, without lag")  # fmt: skip
    add("--spline", type=_spline, metavar="HZ",
        help="cutoff of the smoothing splines, or 'auto' (default: splines go through every "
        "point)")  # fmt: skip
    add("--from", dest="start", type=float, metavar="S", help="leave out earlier rows")
    add("--to", dest="stop", type=float, metavar="S", help="leave out later rows")


def _frequency(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a frequency in Hz")
    return value


def _spline(text: str) -> float | str:
    return "auto" if text == "auto" else _frequency(text)
