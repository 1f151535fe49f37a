"""`empbody bench`: ratios against peers that are installed."""

import argparse
import importlib
import json
import pathlib
import sys
from typing import Any

from ..io import replacing
from ._errors import FAILURE, CommandError
from ._progress import Progress


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "bench",
        parents=[common],
        help="speed, as ratios against peers that are installed",
        description="Measure speed, as ratios against peers that are installed. Peers that are "
        "missing leave their figures null, with a reason.",
    )
    parser.set_defaults(command=run)
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the figures to FILE, or to standard output without one",
    )


def run(arguments: argparse.Namespace) -> int:
    """Calls `empbody.bench.run(progress)`, which returns the figures by key."""
    try:
        bench = importlib.import_module("empbody.bench")
    except ModuleNotFoundError as error:
        if error.name != "empbody.bench":
            raise
        raise CommandError("this installation has no benchmarks", FAILURE) from error
    target = arguments.json
    if target not in (None, "-") and not pathlib.Path(target).absolute().parent.is_dir():
        raise CommandError(f"cannot write to {target}: there is no such folder")
    figures = bench.run(Progress(quiet=arguments.quiet))
    text = json.dumps(figures, indent=2) + "\n"
    if target not in (None, "-"):
        with replacing(target) as part:
            part.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0
