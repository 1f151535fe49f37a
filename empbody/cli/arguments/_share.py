"""Options of `empbody share`."""

import argparse
from typing import Any

from ._common import add_model_parser, add_motion_arguments, later

COSTS = ("activation_squared", "activation_cubed", "force_squared")

DESCRIPTION = """\
Share the joint moments that a motion needs among the muscles, so that the cost is least:
activations and forces, with tendons taken as rigid. Where the muscles cannot give what is
needed, reserve moments (--reserve) fill in, at a price.

Labels of the file: <muscle>_activation, <muscle>_force (N), <coordinate>_reserve (N m or N).
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = add_model_parser(
        commands, common, "share", "muscle forces of a motion, at least cost", DESCRIPTION,
        wraps=True,
    )  # fmt: skip
    parser.set_defaults(command=later("_share"))
    add_motion_arguments(parser)
    add = parser.add_argument
    add("--cost", choices=COSTS, default=COSTS[0], help="default: %(default)s")
    add("--reserve", type=float, default=1.0, metavar="X",
        help="optimal moment or force of the reserves (N m or N): the smaller the dearer; 0 "
        "means none (default: %(default)g)")  # fmt: skip
    add("--no-passive", action="store_true", help="leave out passive forces of the muscles")
    add("--elements", action="store_true",
        help="take off what springs, dampers and limit forces of the model give")  # fmt: skip
    add("--out", required=True, metavar="FILE.sto", help="table to write")
