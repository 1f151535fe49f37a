"""Excitations that the command line gives: constants, or a table over time."""

import argparse
import pathlib
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..io import Table, read_table
from ..model import Model
from ..muscles import HillMuscles
from ._errors import CommandError
from ._models import pairs, readable, unknown

_SLIPS = (-1.0, 2.0)
"""Recorded excitations within are clipped to 0 and 1; beyond, they are something else."""
_SLACK = 1e-6


class OverTime(eqx.Module):
    """Excitations by straight lines between the rows of a table, held at its ends."""

    time: Float[Array, " rows"]
    values: Float[Array, "rows nm"]

    def __call__(self, t: Any, q: Any, qd: Any) -> Float[Array, " nm"]:
        row = jnp.clip(jnp.searchsorted(self.time, t) - 1, 0, self.time.shape[0] - 2)
        left, right = self.time[row], self.time[row + 1]
        share = jnp.clip((t - left) / (right - left), 0.0, 1.0)
        return self.values[row] * (1.0 - share) + self.values[row + 1] * share


def given_excitation(model: Model, arguments: argparse.Namespace) -> tuple[Any, list[str]]:
    """What excites the muscles (None: nothing does), and notes on what was clipped."""
    if not arguments.excite and arguments.excitations is None:
        return None, []
    if not isinstance(model.muscles, HillMuscles):
        raise CommandError(f"{arguments.model} has no muscles that could be excited")
    values = np.zeros(model.nm)
    for name, value in pairs("--excite", arguments.excite):
        if not 0.0 <= value <= 1.0:
            raise CommandError(f"--excite {name}={value:g}: a number from 0 to 1 is needed")
        if name == "all":
            values[:] = value
    for name, value in arguments.excite:
        if name == "all":
            continue
        if name not in model.muscle_names:
            raise CommandError(f"--excite {name}: {unknown('muscle', name, model.muscle_names)}")
        values[model.muscle_index(name)] = value
    if arguments.excitations is None:
        return values, []
    path = readable(arguments.excitations)
    return from_table(model, path, read_table(path), values)


def from_table(
    model: Model, path: pathlib.Path, table: Table, rest: np.ndarray
) -> tuple[OverTime, list[str]]:
    """Columns by muscle name, bare or as the end of a path; others keep `rest`."""
    values = np.repeat(rest[None], table.time.size, axis=0)
    found, notes = 0, []
    for j, label in enumerate(table.labels):
        name = label.removesuffix("/activation").removesuffix(".excitation").rsplit("/", 1)[-1]
        if name in model.muscle_names:
            column, said = _clipped(path, name, table.time, table.data[:, j])
            values[:, model.muscle_index(name)] = column
            notes += said
            found += 1
    if not found:
        raise CommandError(f"{path} has no column for any muscle of the model")
    time = table.time
    if time.size == 1:
        time, values = np.array([time[0], time[0] + 1.0]), np.repeat(values, 2, axis=0)
    return OverTime(jnp.asarray(time), jnp.asarray(values)), notes


def _clipped(
    path: pathlib.Path, name: str, time: np.ndarray, column: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Excitations of one muscle held in [0, 1], as OpenSim holds controls in their range."""
    wrong = np.flatnonzero(~np.isfinite(column))
    if wrong.size:
        raise CommandError(
            f"{path}: the excitation of {name} is NaN or infinite in {wrong.size} of "
            f"{column.size} rows, first at {time[wrong[0]]:.6g} s; fill the gaps first"
        )
    low, high = float(column.min()), float(column.max())
    if low < _SLIPS[0] or high > _SLIPS[1]:
        raise CommandError(
            f"{path}: the excitation of {name} goes from {low:.6g} to {high:.6g}; numbers from 0 "
            "to 1 are needed. Are these per cent, or a recording that was not normalised?"
        )
    outside = np.flatnonzero((column < -_SLACK) | (column > 1.0 + _SLACK))
    clipped = np.clip(column, 0.0, 1.0)
    if not outside.size:
        return clipped, []
    note = (
        f"{path.name}: the excitation of {name} goes from {low:.4g} to {high:.4g}; "
        f"{outside.size} of {column.size} rows were clipped to 0 and 1"
    )
    return clipped, [note]
