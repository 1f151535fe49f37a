"""A model file in the place of our shoulder: `empbody run shoulder --model FILE.osim`."""

import warnings
from typing import Any

from ..io import load, read_motion
from ..model import Model
from ._case import Options
from ._errors import CommandError
from ._models import readable
from ._motions import FILE_ONLY

COORDINATES = ("elv_angle", "shoulder_elv", "shoulder_rot")
"""What our own motion moves."""


def model_of_file(options: Options) -> Model:
    """The file's model; coordinates that the motion does not move stand at their defaults."""
    path = readable(str(options.model))
    if path.suffix.lower() != ".osim":
        raise CommandError(f"{path} is not a model file: its name must end in .osim")
    if options.load:
        raise CommandError("--load is for the shoulder of ours: --model brings its own bodies")
    model = load(path, wrapping=options.wrapping)
    moved = _columns(options.motion, model) if options.motion else COORDINATES
    held = [name for name in model.coordinate_names if name not in moved]
    absent = [name for name in moved if name not in model.coordinate_names]
    if absent:
        there = ", ".join(model.coordinate_names)
        raise CommandError(
            f"{path} has no coordinate {', '.join(absent)}, which the motion moves; give "
            f"one of its own with --motion (there are {there})"
        )
    if not held:
        return model
    index = [model.coordinate_index(name) for name in held]
    lock = {n: float(model.default_q[i]) for n, i in zip(held, index, strict=True)}
    return load(path, lock=lock, wrapping=options.wrapping)


def _columns(motion: str, model: Model) -> tuple[str, ...]:
    """Coordinates that a motion file moves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_motion(readable(motion), model, missing="default", remedies=FILE_ONLY)
    return tuple(name for name in found.coordinates if name not in found.filled)


def followers(model: Model) -> dict[str, list[str]]:
    """Coordinates of the file that couplers or closed loops move, each with the free
    coordinates that it follows."""
    names = model.coordinate_names
    found = {}
    for name, value in model.source.context.values.items():
        inputs = value.inputs()
        if name not in names and inputs:
            found[name] = [each for each in names if each in inputs]
    return found


def rhythm_of_file(model: Model) -> dict[str, Any]:
    """The file's own rhythm for the summary: in words, and who follows whom."""
    moved = followers(model)
    count = len(moved)
    plural = "s" if count > 1 else ""
    words = f"{count} coupled coordinate{plural}" if moved else "no coupled coordinates"
    return {"rhythm": f"the file's own, {words}", "followers": moved}


def rhythm_line(moved: dict[str, list[str]]) -> str | None:
    """Who follows whom, in one line."""
    by_leader: dict[str, list[str]] = {}
    for name, leaders in moved.items():
        by_leader.setdefault(" and ".join(leaders), []).append(name)
    parts = [f"{', '.join(names)} with {leader}" for leader, names in by_leader.items()]
    return f"rhythm  of the file: {'; '.join(parts)}" if parts else None
