"""What can be given as the shoulder's rhythm, and what becomes of it."""

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..io import read_rhythm_file
from ..rhythms import AbstractRhythm, Named, anatomical_name
from ._angle_choice import chosen_angles
from ._de_groot import DeGroot
from ._girdle import Girdle
from ._girdle_alignment import aligned
from ._shoulder_couplers import couplers
from ._shoulder_figures import COORDINATES

RHYTHMS: dict[str, Callable[[Sequence[str]], AbstractRhythm]] = {
    "de_groot": lambda _: Girdle(DeGroot(), (0, 1)),
    "de_groot_elevation": lambda _: Girdle(DeGroot(plane=False), (0, 1)),
    "holzbaur": couplers,
}


Ranges = dict[str, tuple[float, float]]
"""Least and largest value of inputs in a rhythm's data (rad)."""


def shoulder_rhythm(
    rhythm: str | os.PathLike[str] | AbstractRhythm, variables: Sequence[str], align: Any = False
) -> AbstractRhythm:
    """A rhythm of all the chain's joint variables, from what a user names or gives."""
    found, ranges = _found(rhythm, variables)
    if align is False:
        return found
    if not isinstance(found, Girdle):
        raise ValueError(
            "align is for rhythms of anatomical angles: a Named rhythm or a rhythm file"
        )
    return aligned(found, _pose(align, ranges))


def _found(
    rhythm: str | os.PathLike[str] | AbstractRhythm, variables: Sequence[str]
) -> tuple[AbstractRhythm, Ranges]:
    if isinstance(rhythm, str) and rhythm in RHYTHMS:
        return RHYTHMS[rhythm](variables), {}
    ranges: Ranges = {}
    if isinstance(rhythm, str | os.PathLike):
        if not pathlib.Path(rhythm).is_file():
            raise ValueError(
                f"no shoulder rhythm {os.fspath(rhythm)!r}: it is neither one of "
                f"{', '.join(RHYTHMS)} nor a rhythm file that is there"
            )
        file = read_rhythm_file(rhythm)
        rhythm = file.rhythm
        names = [anatomical_name(name)[0] for name in rhythm.inputs]
        ranges = dict(zip(names, file.ranges or (), strict=False))
    if isinstance(rhythm, Named):
        return Girdle(*chosen_angles(rhythm)), ranges
    if not isinstance(rhythm, AbstractRhythm):
        raise TypeError(
            f"rhythm is a {type(rhythm).__name__}; give one of {', '.join(RHYTHMS)}, the path of "
            "a rhythm file, or a rhythm"
        )
    return rhythm, ranges


def _pose(align: Any, ranges: Ranges) -> Float[Array, " nq"]:
    """Where to align (rad): as given, or within a file's data, nearest to a hanging arm."""
    if align is True:
        if not ranges:
            raise ValueError(
                "align=True needs the range of the rhythm's data, which only a rhythm file keeps: "
                "give align=(plane, elevation) in radians"
            )
        low, high = ranges.get("elevation", (0.0, 0.0))
        plane = 0.5 * sum(ranges.get("plane", (0.0, 0.0)))
        turn = float(np.clip(0.0, *ranges.get("shoulder_rot", (0.0, 0.0))))
        return jnp.asarray([plane, float(np.clip(0.0, low, high)), turn])
    given = np.asarray(align, dtype=float)
    if given.ndim != 1 or given.size not in (2, 3) or not np.all(np.isfinite(given)):
        raise ValueError(
            f"align is {align!r}: True, or plane of elevation, elevation and perhaps axial "
            "rotation in radians"
        )
    return jnp.asarray(np.pad(given, (0, len(COORDINATES) - given.size)))
