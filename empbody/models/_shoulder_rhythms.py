"""What can be given as the shoulder's rhythm, and what becomes of it."""

import os
import pathlib
from collections.abc import Callable, Sequence

from ..io import load_rhythm
from ..rhythms import AbstractRhythm, Named
from ._angle_choice import chosen_angles
from ._de_groot import DeGroot
from ._girdle import Girdle
from ._shoulder_couplers import couplers

RHYTHMS: dict[str, Callable[[Sequence[str]], AbstractRhythm]] = {
    "de_groot": lambda _: Girdle(DeGroot(), (0, 1)),
    "de_groot_elevation": lambda _: Girdle(DeGroot(plane=False), (0, 1)),
    "holzbaur": couplers,
}


def shoulder_rhythm(
    rhythm: str | os.PathLike[str] | AbstractRhythm, variables: Sequence[str]
) -> AbstractRhythm:
    """A rhythm of all the chain's joint variables, from what a user names or gives."""
    if isinstance(rhythm, str) and rhythm in RHYTHMS:
        return RHYTHMS[rhythm](variables)
    if isinstance(rhythm, str | os.PathLike):
        if not pathlib.Path(rhythm).is_file():
            raise ValueError(
                f"no shoulder rhythm {os.fspath(rhythm)!r}: it is neither one of "
                f"{', '.join(RHYTHMS)} nor a rhythm file that is there"
            )
        rhythm = load_rhythm(rhythm)
    if isinstance(rhythm, Named):
        return Girdle(*chosen_angles(rhythm))
    if not isinstance(rhythm, AbstractRhythm):
        raise TypeError(
            f"rhythm is a {type(rhythm).__name__}; give one of {', '.join(RHYTHMS)}, the path of "
            "a rhythm file, or a rhythm"
        )
    return rhythm
