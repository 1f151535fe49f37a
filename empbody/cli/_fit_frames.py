"""How much the rows of a recording count in `empbody fit`."""

import functools
import math
from collections.abc import Callable

import numpy as np

from ..fitting import frame_weights
from ._errors import CommandError
from ._fit_task import Task

_WIDTH = math.radians(10.0)
_CROWDED = 0.5

Weigh = Callable[[np.ndarray], np.ndarray]


def frames_of(task: Task, xs: np.ndarray) -> tuple[Weigh | None, list[str]]:
    """What weighs the rows, if anything does, and a note where nobody asked for it.

    Without --frames, rows that crowd are weighed where there is a prior: hundreds of frames
    of one raise would leave it no say, and beyond the raise it knows more than they do.
    """
    given = task.arguments.frames
    if given is not None:
        if not 0.0 <= given < math.inf:
            raise CommandError(f"--frames {given:g}: an angle of at least 0 is needed")
        turn = 1.0 if task.arguments.radians else math.pi / 180
        return (functools.partial(frame_weights, width=turn * given) if given else None), []
    if task.prior is None:
        return None, []
    count = float(frame_weights(xs, _WIDTH).sum())
    if count > _CROWDED * len(xs):
        return None, []
    note = (
        f"{len(xs)} rows are taken for frames of a recording and count as {count:.0f} poses "
        "against the prior (--frames 0 counts each row)"
    )
    return functools.partial(frame_weights, width=_WIDTH), [note]
