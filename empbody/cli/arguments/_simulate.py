"""Options of `empbody simulate`."""

import argparse
from typing import Any

from ._common import add_model_parser, assignment, later
from ._names import SOLVERS

DESCRIPTION = """\
Forward simulation from a pose. Muscles act where excitations are given (--excite,
--excitations); without any, the skeleton falls under gravity and the model's springs and
dampers alone. The simulation stops where a coordinate reaches the end of its range, unless
--no-limits.

Muscles start in balance at their least activation, or with the activations and fibre lengths
that --states has. Fibres on elastic tendons settle within microseconds at low activation, which
takes many short steps: --tendons rigid needs few.

Labels of the file: OpenSim's names of states (/jointset/<joint>/<coordinate>/value and
/speed, /forceset/<muscle>/activation and /fiber_length); angles in radians.
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = add_model_parser(
        commands, common, "simulate", "forward simulation of a model", DESCRIPTION, wraps=True
    )
    parser.set_defaults(command=later("_simulate"))
    add = parser.add_argument
    add("--duration", type=float, default=1.0, metavar="S", help="default: %(default)g s")
    add("--rate", type=float, default=100.0, metavar="HZ",
        help="rows per second of the result (default: %(default)g)")  # fmt: skip
    add("--at", action="append", default=[], metavar="NAME=VALUE", type=assignment,
        help="where a coordinate starts (default: the file's)")  # fmt: skip
    add("--speed", action="append", default=[], metavar="NAME=VALUE", type=assignment,
        help="how fast it starts, per second (default: at rest)")  # fmt: skip
    add("--states", metavar="FILE", help="start from a row of a motion or states file")
    add("--time", type=float, metavar="S", help="the row of --states (default: the first)")
    add("--excite", action="append", default=[], metavar="MUSCLE=U", type=assignment,
        help="constant excitation, 0 to 1; 'all' means all muscles")  # fmt: skip
    add("--excitations", metavar="FILE.sto",
        help="excitations over time, a column for each muscle")  # fmt: skip
    add("--tendons", default="file", choices=("file", "rigid"),
        help="as the file says, or all rigid (default: %(default)s)")  # fmt: skip
    add("--no-limits", action="store_true", help="let coordinates leave their ranges")
    add("--solver", default="tsit5", choices=tuple(SOLVERS), metavar="NAME",
        help=f"{', '.join(SOLVERS)} (default: %(default)s)")  # fmt: skip
    add("--rtol", type=float, default=1e-6, metavar="X", help="default: %(default)g")
    add("--max-steps", type=int, default=200_000, metavar="N", help="default: %(default)d")
    add("--out", required=True, metavar="FILE.sto", help="states to write")
