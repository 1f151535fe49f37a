"""Options of `empbody moment-arms`."""

import argparse
import math
from typing import Any

from ._common import add_model_parser, assignment, later

DESCRIPTION = """\
Lengths and moment arms of muscles while one coordinate is swept through its range. Other
coordinates stand at the file's default values unless --at says otherwise.

Columns of the file: coordinate_deg (or coordinate_m), length_<muscle> (m) and
ma_<coordinate>_<muscle>: moment arms about every coordinate, -dL/dq (m, that is m/rad).
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = add_model_parser(
        commands, common, "moment-arms", "lengths and moment arms over a coordinate's range",
        DESCRIPTION, wraps=True,
    )  # fmt: skip
    parser.set_defaults(command=later("_moment_arms"))
    add = parser.add_argument
    add("--sweep", required=True, metavar="NAME=FROM:TO:STEP", type=_sweep,
        help="the coordinate to sweep, e.g. shoulder_elv=0:180:1")  # fmt: skip
    add("--at", action="append", default=[], metavar="NAME=VALUE", type=assignment,
        help="where another coordinate stands")  # fmt: skip
    add("--muscles", metavar="A,B", help="these only (default: all)")
    add("--convention", choices=("derivative", "opensim"), default="derivative",
        help="derivative: -dL/dq; opensim: as OpenSim defines it, for comparison")  # fmt: skip
    add("--out", required=True, metavar="FILE.csv", help="table to write")


def _sweep(text: str) -> tuple[str, float, float, float]:
    name, found, rest = text.partition("=")
    try:
        start, stop, step = (float(x) for x in rest.split(":"))
        if not (found and name.strip() and all(map(math.isfinite, (start, stop, step)))):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=FROM:TO:STEP, such as elbow=0:130:1"
        ) from None
    if step <= 0 or stop < start:
        raise argparse.ArgumentTypeError(f"{text!r} must go upwards with a positive step")
    return name.strip(), start, stop, step
