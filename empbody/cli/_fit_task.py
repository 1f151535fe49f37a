"""What `empbody fit` is asked for."""

import argparse
import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from ..fitting import Prior
from ..io import Observations, RhythmFile, read_observations, read_rhythm_file
from ._errors import CommandError
from ._models import readable


class Task(NamedTuple):
    """What was asked for, with the prior's own words where nothing was said."""

    arguments: argparse.Namespace
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    family: str
    file: RhythmFile | None
    maps: dict[str, dict[str, float]]

    @property
    def prior(self) -> Prior | None:
        return None if self.file is None else self.file.prior

    def read(
        self, path: pathlib.Path, labels: Sequence[str] = (), where: bool = False
    ) -> Observations:
        """Rows of a table; with `where`, those that --where keeps."""
        kept = dict(self.arguments.where) if where else {}
        return read_observations(path, self.inputs, self.targets, labels, self.maps, kept)


def make_task(arguments: argparse.Namespace) -> Task:
    file = None
    if arguments.prior is not None:
        file = read_rhythm_file(readable(arguments.prior))
        if file.prior is None:
            raise CommandError(
                f"{arguments.prior} holds one subject, not a population; write a prior with "
                "--subject COLUMN"
            )
    inputs = arguments.inputs or (file and file.rhythm.inputs)
    targets = arguments.targets or (file and file.rhythm.targets)
    if not inputs or not targets:
        raise CommandError("--inputs and --targets are needed, or a --prior that names them")
    known = None if file is None else (file.rhythm.inputs, file.rhythm.targets)
    if file is not None and known != (plain(inputs), plain(targets)):
        raise CommandError(
            f"the prior is for inputs {','.join(file.rhythm.inputs)} and targets "
            f"{','.join(file.rhythm.targets)}, in this order"
        )
    family = arguments.rhythm or (file.family if file is not None else "auto")
    if file is not None and family not in (file.family, "auto"):
        raise CommandError(
            f"--rhythm {family}, but the prior is of the family {file.family}: fit the population "
            f"again with --rhythm {family}, or leave --rhythm out"
        )
    turn = 1.0 if arguments.radians else math.pi / 180
    maps = {} if file is None else dict(file.maps)
    for name, words in arguments.map:
        maps[name] = {word: turn * value for word, value in words.items()}
    for name in list(maps):
        if name not in (*inputs, *targets):
            bare = {plain((n,))[0]: n for n in (*inputs, *targets)}
            if name not in bare:
                raise CommandError(
                    f"--map {name}: not among the inputs and targets "
                    f"({', '.join((*inputs, *targets))})"
                )
            maps[bare[name]] = maps.pop(name)
    return Task(arguments, tuple(inputs), tuple(targets), family, file, maps)


def plain(names: Sequence[str]) -> tuple[str, ...]:
    """Names without units: what a rhythm file has."""
    return tuple(n[:-4] if n.lower().endswith(("_deg", "_rad")) else n for n in names)
