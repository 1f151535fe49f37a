"""Options of `empbody bench`."""

import argparse
from typing import Any

from ._common import later


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "bench",
        parents=[common],
        help="speed, as ratios against peers that are installed",
        description="Measure speed, as ratios against peers that are installed. Peers that are "
        "missing leave their figures null, with a reason. Values are medians, spreads are "
        "interquartile ranges.",
    )
    parser.set_defaults(command=later("_bench"))
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the figures to FILE, or to standard output without one",
    )
    parser.add_argument(
        "--only",
        metavar="GROUP[,GROUP]",
        help="measure these groups alone; an unknown name lists those that there are",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help="repeat every measurement N times (each has its own number otherwise)",
    )
