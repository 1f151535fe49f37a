"""Options of `empbody fit`."""

import argparse
import math
from typing import Any

from ._common import UNITS, later
from ._names import FAMILIES

DESCRIPTION = f"""\
Fit a rhythm: joint angles as smooth functions of a few coordinates.

A column is named without its unit: elevation stands for elevation_deg (degrees) or for
elevation (radians). Columns of words become angles through --map.

Families: {FAMILIES}; auto chooses among
linear, poly:2 to poly:4 and (one subject without a prior) spline:8 by the error on data left
out. Splines are made as smooth as is best for that error (--smoothness).

One subject:      empbody fit DATA.csv --inputs plane,elevation --targets a,b,c --rhythm poly:3
                  --map plane=frontal:0,scapular:40,sagittal:90 --out rhythm.json
A population:     the same with --subject COLUMN; the file written serves as a prior.
The next subject: empbody fit NEW.csv --prior population.json --calibrate 5 --out mine.json
                  (inputs, targets, maps and family are then those of the prior)
Which poses first: empbody fit --prior population.json --suggest 5
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "fit",
        parents=[common],
        help="fit a rhythm to measured angles",
        description=DESCRIPTION,
        epilog=UNITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=later("_fit"))
    add = parser.add_argument
    add("data", metavar="DATA", nargs="?", help="table of measurements (.csv)")
    add("--inputs", type=_names, metavar="A,B", help="columns that drive the rhythm")
    add("--targets", type=_names, metavar="A,B,C", help="columns of joint angles")
    add("--rhythm", metavar="FAMILY", help="family of the rhythm (default: auto)")
    add("--map", action="append", default=[], type=_map, metavar="COLUMN=WORD:VALUE,...",
        help="angles that words in a column stand for")  # fmt: skip
    add("--where", action="append", default=[], type=_where, metavar="COLUMN=WORD",
        help="only the rows that have this word in this column")  # fmt: skip
    add(
        "--subject",
        metavar="COLUMN",
        help="fit all subjects at once and write a population; with "
        "--prior, fit each from few poses and compare",
    )
    add("--prior", metavar="FILE", help="rhythm file of a population, for few poses")
    add("--calibrate", type=_count, metavar="N",
        help="fit N poses that are spread over the inputs and test on the rest; with --subject, "
        "do so for every subject in turn with the others as prior; with --subject and --prior, "
        "for every subject with that prior, which should not hold the same subjects")  # fmt: skip
    add("--suggest", type=_count, metavar="N",
        help="no DATA: N poses that are worth measuring, by the --prior")  # fmt: skip
    add("--test", metavar="FILE", help="another table to test on")
    add("--trial", metavar="COLUMN", help="leave one trial out after the other to test")
    add("--orientation", metavar="SEQUENCE",
        help="targets are Euler angles of bones in this sequence, such as YXZ: fit the "
        "orientations and not the angles")  # fmt: skip
    add("--loss", choices=("square", "huber", "soft_l1"), default="square",
        help="robust losses bear outliers (default: square)")  # fmt: skip
    add("--frames", type=float, metavar="W",
        help="rows are frames of a recording: those within about 2.5 W degrees count as one pose "
        "(0: every row counts; default: 10 degrees with a --prior, which a recording would "
        "outvote, else 0)")  # fmt: skip
    add("--smoothness", type=_smoothness, metavar="W",
        help="weight of curvature, or auto: by the error on rows left out (default: auto for "
        "splines without a prior, else 0)")  # fmt: skip
    add("--solver", default="auto", metavar="NAME",
        help="exact, lm, or an Optax optimiser such as adam or lbfgs (default: auto)")  # fmt: skip
    add("--restarts", type=_count, default=1, metavar="N", help="random starts of networks")
    add("--radians", action="store_true", help="values of --map are in radians, not degrees")
    add("--out", metavar="FILE.json", help="rhythm file to write")
    add("--figure", metavar="FILE.png", help="data, fitted curves and 95 %% bands")
    add("--json", action="store_true",
        help="a machine-readable summary on standard output, and nothing else there")  # fmt: skip


def _names(text: str) -> tuple[str, ...]:
    names = tuple(word.strip() for word in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names, each once: A,B,C")
    return names


def _map(text: str) -> tuple[str, dict[str, float]]:
    column, found, rest = text.partition("=")
    words: dict[str, float] = {}
    try:
        for pair in rest.split(","):
            word, colon, value = pair.rpartition(":")
            if not (found and colon and word.strip()) or not math.isfinite(float(value)):
                raise ValueError
            words[word.strip()] = float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=WORD:VALUE,WORD:VALUE") from None
    return column.strip(), words


def _where(text: str) -> tuple[str, str]:
    column, found, word = text.partition("=")
    if not (found and column.strip() and word.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=WORD")
    return column.strip(), word.strip()


def _smoothness(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        weight = float(text)
        if not 0.0 <= weight < math.inf:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither auto nor a number of at least 0"
        ) from None
    return weight


def _count(text: str) -> int:
    try:
        count = int(text)
        if count < 1:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1") from None
    return count
