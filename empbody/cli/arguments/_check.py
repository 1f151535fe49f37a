"""Options of `empbody check`."""

import argparse
from typing import Any

from ._common import add_model_parser, later

DESCRIPTION = """\
Compare a model with OpenSim at random poses: where bodies are, lengths and moment arms of
muscles, mass matrix and inverse dynamics; the largest difference of each. Needs the Python
package opensim.
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = add_model_parser(
        commands, common, "check", "compare a model with OpenSim, where it is installed",
        DESCRIPTION, wraps=True,
    )  # fmt: skip
    parser.set_defaults(command=later("_check"))
    add = parser.add_argument
    add("--poses", type=int, default=5, metavar="N", help="how many (default: %(default)d)")
    add("--seed", type=int, default=0, metavar="N", help="of the random poses")
    add("--strict", action="store_true", help="exit with status 1 where anything differs")
