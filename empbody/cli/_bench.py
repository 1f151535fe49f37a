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


def run(arguments: argparse.Namespace) -> int:
    """Calls `empbody.bench.run`, which returns the figures by key."""
    try:
        bench = importlib.import_module("empbody.bench")
    except ModuleNotFoundError as error:
        if error.name != "empbody.bench":
            raise
        raise CommandError("this installation has no benchmarks", FAILURE) from error
    target = arguments.json
    if target not in (None, "-") and not pathlib.Path(target).absolute().parent.is_dir():
        raise CommandError(f"cannot write to {target}: there is no such folder")
    if arguments.repeats is not None and arguments.repeats < 1:
        raise CommandError(f"--repeats is {arguments.repeats}; at least 1 is needed")
    only = _groups(arguments.only, tuple(bench.GROUPS))
    # A long run that is interrupted has left what it measured.
    keep = None if target in (None, "-") else lambda found: _write(target, found)
    try:
        figures = bench.run(Progress(quiet=arguments.quiet), only, arguments.repeats, keep)
    except KeyboardInterrupt:
        if keep is None:
            raise
        sys.stderr.write(f"\nempbody: interrupted; groups that were finished are in {target}\n")
        return 130
    if keep is None:
        sys.stdout.write(_text(figures))
    failed = [f"{name} ({g['error']})" for name, g in figures["groups"].items() if "error" in g]
    if failed:
        raise CommandError(f"not all groups could be measured: {'; '.join(failed)}", FAILURE)
    return 0


def _text(figures: dict[str, Any]) -> str:
    return json.dumps(figures, indent=2) + "\n"


def _write(target: str, figures: dict[str, Any]) -> None:
    with replacing(target) as part:
        part.write_text(_text(figures), encoding="utf-8")


def _groups(asked: str | None, known: tuple[str, ...]) -> list[str] | None:
    """Names of the groups to measure; None for all."""
    if asked is None:
        return None
    names = [name for name in asked.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = f"there is no group {', '.join(unknown)}" if unknown else "--only names no group"
        raise CommandError(f"{what}; choose from {', '.join(known)}")
    return names
