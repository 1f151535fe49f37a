"""Options of `empbody ik`."""

import argparse
from typing import Any

from ._common import add_model_parser, assignment, later

DESCRIPTION = """\
Inverse kinematics: the poses whose markers are nearest to those measured, by weighted least
squares in every frame. Coupled coordinates follow exactly; missing markers are left out of
their frames. Coordinates stay in the ranges that the file clamps.
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = add_model_parser(
        commands, common, "ik", "inverse kinematics: poses from markers", DESCRIPTION
    )
    parser.set_defaults(command=later("_ik"))
    add = parser.add_argument
    add("markers", metavar="MARKERS", help="measured markers (.trc, .c3d or .sto)")
    add("--weight", action="append", default=[], metavar="MARKER=W", type=assignment,
        help="weight of a marker (default: 1); 0 leaves it out")  # fmt: skip
    add("--at", action="append", default=[], metavar="NAME=VALUE", type=assignment,
        help="a pose to start from, instead of the file's default")  # fmt: skip
    add("--up", choices=("x", "y", "z"), default="y",
        help="vertical axis of the marker file (default: y, as in OpenSim)")  # fmt: skip
    add("--zeros-are-missing", action="store_true",
        help="a marker at exactly 0, 0, 0 is one that was not seen")  # fmt: skip
    add("--no-limits", action="store_true", help="let coordinates leave their ranges")
    add("--errors", metavar="FILE.csv", help="write each marker's error (m) as well")
    add("--out", required=True, metavar="FILE.mot", help="motion to write")
