"""Figures of the shoulder that do not depend on the motion: moment arms beside OpenSim's
(Ehsani 2016, Figs. 14, 15), and what a rhythm without the plane of elevation costs."""

import functools
from collections.abc import Callable
from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from .. import viz
from ..models import (
    LEADERS,
    MOMENT_ARMS_ABOUT as ABOUT,
    opensim_moment_arms,
    rhythm_difference,
    shoulder,
    sweep_moment_arms,
)
from ._progress import Progress

_SWEEPS: dict[str, Literal["elv_angle", "shoulder_elv"]] = {
    "fig14_moment_arms.png": "elv_angle",
    "fig15_moment_arms.png": "shoulder_elv",
}
_OTHERS = {
    "de_groot": (
        "de_groot_elevation",
        "plane_of_elevation.png",
        "What leaving out the plane of elevation costs: de Groot & Brand's rhythm without it "
        "minus with it",
    ),
    "de_groot_elevation": (None, "", ""),
    "holzbaur": (None, "", ""),
}
"""With which rhythm one is compared, in which file and in which words."""
_SHOWN = ("DELT2", "SUPSP", "SUBSC", "PECM3")


def comparison_figures(
    rhythm: str, align: bool | tuple[float, ...], progress: Progress
) -> tuple[dict[str, Callable[[], Figure]], dict[str, float]]:
    """Figures by file name, and the largest difference from OpenSim's moment arms (m)."""
    with progress.stage("moment arms over the whole range, beside OpenSim's"):
        plain = shoulder("holzbaur", wrapping=False, muscles=LEADERS)
        figures: dict[str, Callable[[], Figure]] = {}
        deviations = {}
        for file, sweep in _SWEEPS.items():
            stored = opensim_moment_arms(sweep)
            ours = sweep_moment_arms(plain, sweep)
            name = f"{ABOUT[sweep]}_over_{sweep}_max_m"
            deviations[name] = float(np.max(np.abs(ours.arms - stored.arms)))
            figures[file] = functools.partial(
                viz.moment_arm_sweep, stored.degrees, ours.arms, stored.arms, LEADERS,
                sweep=sweep, about=ABOUT[sweep],
                titles=("Holzbaur's rhythm, no wrapping, other coordinates zero",),
            )  # fmt: skip
    other, file, words = _OTHERS.get(
        rhythm,
        ("de_groot", "rhythm.png", "Scapula and muscles: this rhythm minus de Groot & Brand's"),
    )
    if other is None:
        return figures, deviations
    with progress.stage("what the rhythm changes over planes and elevations"):
        # The file's own rhythm is seen against the published one, that against its shorter form.
        mine = shoulder(rhythm, wrapping=False, muscles=_SHOWN, align=align)
        published = shoulder(other, wrapping=False, muscles=_SHOWN)
        this, that = (mine, published) if rhythm in _OTHERS else (published, mine)
        figures[file] = functools.partial(
            viz.rhythm_difference, rhythm_difference(this, that), _SHOWN, title=words
        )
    return figures, deviations
