"""Options of `empbody id`."""

import argparse
from typing import Any

from ._common import add_model_parser, add_motion_arguments, later

DESCRIPTION = """\
Inverse dynamics: the joint moments (N m) and forces (N) that a measured motion of the skeleton
needs, under OpenSim's labels (elbow_flexion_moment, pelvis_tx_force). Muscles take no part.
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = add_model_parser(
        commands, common, "id", "inverse dynamics: joint moments of a motion", DESCRIPTION
    )
    parser.set_defaults(command=later("_id"))
    add_motion_arguments(parser)
    parser.add_argument(
        "--elements", action="store_true",
        help="take off what springs, dampers and limit forces of the model give",
    )  # fmt: skip
    parser.add_argument("--out", required=True, metavar="FILE.sto", help="table to write")
