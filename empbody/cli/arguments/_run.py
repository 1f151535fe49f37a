"""Options of `empbody run`."""

import argparse
from typing import Any

from ._common import later
from ._names import MECHANISMS, ROUTES, SHOULDER_RHYTHMS, SOLVERS

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
    parser.set_defaults(command=later("_run"))
    add = parser.add_argument
    add("--json", action="store_true",
        help="a machine-readable summary on standard output, and nothing else there")  # fmt: skip
    add("mechanism", metavar="MECHANISM", help=", ".join(MECHANISMS))
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


def _assignment(text: str) -> tuple[str, float]:
    name, found, value = text.partition("=")
    try:
        if not found:
            raise ValueError
        return name.strip(), float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a number") from None
