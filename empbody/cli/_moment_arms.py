"""`empbody moment-arms`: lengths and moment arms over the range of a coordinate."""

import argparse
import math

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ..model import Model
from ..paths import lengths_and_arms, opensim_moment_arms
from ..paths._report import out_of_range
from ..pipeline import in_blocks, turning
from ._errors import FAILURE, CommandError
from ._models import (
    angle,
    finish,
    load_model,
    not_free,
    pose,
    shown_locked,
    shown_pose,
    unknown,
    writable,
    write_columns,
)
from ._progress import Progress

_MOST_ROWS = 1_000_000


def run(arguments: argparse.Namespace) -> int:
    out = writable(arguments.out, ".csv")
    progress = Progress(quiet=arguments.quiet)
    model = load_model(arguments, progress)
    if model.nm == 0:
        raise CommandError(f"{arguments.model} has no muscles")
    name, start, stop, step = arguments.sweep
    if name not in model.coordinate_names:
        raise CommandError(f"--sweep {name}: {not_free(model, arguments, name)}")
    if any(other == name for other, _ in arguments.at):
        raise CommandError(f"--at gives {name}, which --sweep moves")
    swept = model.coordinate_index(name)
    turns = turning(model)[swept]
    chosen = _muscles(model, arguments.muscles)
    count = math.floor((stop - start) / step + 1e-9) + 1
    if count > _MOST_ROWS:
        raise CommandError(f"--sweep asks for {count} rows; {_MOST_ROWS} are the most")
    values = start + step * np.arange(count)
    rest = pose(model, arguments, arguments.at)
    q = np.repeat(rest[None], count, axis=0)
    q[:, swept] = [angle(arguments, v) for v in values] if turns else values
    notes = _outside(model, q, swept)
    with progress.counting("lengths and moment arms") as count_rows:
        lengths, arms = in_blocks(
            lambda rows: _evaluate(model, rows, arguments.convention), q, progress=count_rows
        )
    if not (np.all(np.isfinite(lengths)) and np.all(np.isfinite(arms))):
        row = int(np.argmax(~np.all(np.isfinite(lengths), axis=1)))
        raise CommandError(f"there is no length at {name} = {values[row]:g}", FAILURE)
    unit = "m" if not turns else "rad" if arguments.radians else "deg"
    labels = [f"coordinate_{unit}", *(f"length_{model.muscle_names[m]}" for m in chosen)]
    labels += [f"ma_{c}_{model.muscle_names[m]}" for c in model.coordinate_names for m in chosen]
    columns = [values[:, None], lengths[:, chosen], arms[:, :, chosen].reshape(count, -1)]
    write_columns(out, labels, np.concatenate(columns, axis=1))
    of_swept = arms[:, swept][:, chosen]
    summary = {
        "out": str(out),
        "coordinate": name,
        "unit": unit,
        "rows": count,
        "at": _at(model, rest, name),
        "convention": arguments.convention,
        "moment_arms": {
            model.muscle_names[m]: {"least": float(column.min()), "most": float(column.max())}
            for m, column in zip(chosen, of_swept.T, strict=True)
        },
        "notes": notes,
    }
    width = max(len(model.muscle_names[m]) for m in chosen)
    lines = [f"moment arms about {name} (mm), {start:g} to {values[-1]:g} {unit}"]
    lines += [
        f"  {muscle:<{width}}  {each['least'] * 1e3:8.2f} to {each['most'] * 1e3:8.2f}"
        for muscle, each in summary["moment_arms"].items()
    ]
    lines += [f"note: {note}" for note in notes] + [f"{count} rows in {out}"]
    return finish(arguments, "moment-arms", progress, summary, lines)


def _at(model: Model, rest: np.ndarray, swept: str) -> dict[str, float]:
    """Where all coordinates stand that are not swept, locked ones too."""
    shown = shown_pose(model, rest) | shown_locked(model)
    return {label: x for label, x in shown.items() if label.rpartition("_")[0] != swept}


@eqx.filter_jit
def _evaluate(model: Model, q: Array, convention: str) -> tuple[Array, Array]:
    lengths, arms = jax.vmap(lambda x: lengths_and_arms(model, x))(q)
    if convention == "opensim":
        arms = jax.vmap(lambda x: opensim_moment_arms(model, x))(q)
    return lengths, arms


def _muscles(model: Model, names: str | None) -> list[int]:
    if names is None:
        return list(range(model.nm))
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise CommandError("--muscles names no muscle")
    for name in chosen:
        if name not in model.muscle_names:
            raise CommandError(f"--muscles {name}: {unknown('muscle', name, model.muscle_names)}")
    return [model.muscle_index(name) for name in chosen]


def _outside(model: Model, q: np.ndarray, swept: int) -> list[str]:
    """What to know about rows beyond the ranges of coordinates and moving points."""
    low, high = float(model.lower[swept]), float(model.upper[swept])
    beyond = (q[:, swept] < low - 1e-9) | (q[:, swept] > high + 1e-9)
    name = model.coordinate_names[swept]
    notes = [f"{int(beyond.sum())} rows are outside the range of {name}"] if beyond.any() else []
    return notes + sorted({note for row in (q[0], q[-1]) for note in out_of_range(model, row)})
