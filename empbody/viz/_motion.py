"""Coordinates over time: prescribed (Figs. 4, 8) and simulated (Fig. 18)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from ._style import GREY, PALETTE, error_axis, label_ends, new_figure, positive, share_time, styled

Times = Float[np.ndarray, " rows"]
Series = Float[np.ndarray, " _"]


@styled
def coordinates_over_time(
    time: Times,
    q: Float[np.ndarray, "rows nq"],
    *,
    names: Sequence[str],
    unit: str,
    knots: tuple[Float[np.ndarray, " knots"], Float[np.ndarray, "knots nq"]] | None = None,
    title: str = "Desired trajectory: piecewise cubic Hermite, dots at its knots",
) -> Figure:
    """Coordinates over time, as those that a mechanism is told to follow (Ehsani 2016,
    Figs. 4 and 8)."""
    figure = new_figure()
    ax = figure.subplots()
    for k in range(q.shape[1]):
        ax.plot(time, q[:, k], color=PALETTE[k])
        if knots is not None:
            ax.plot(knots[0], knots[1][:, k], "o", color=PALETTE[k], ms=4.5, clip_on=False)
    share_time([ax], time)
    ax.margins(y=0.08)
    several = q.shape[1] > 1
    ax.set_ylabel(f"generalised coordinate{'s' if several else ''} ({unit})")
    ax.set_title(title)
    if several:
        label_ends(ax, float(time[-1]), q[-1].tolist(), names)
    return figure


@styled
def forward_dynamics(
    time: Times,
    q: Times,
    qd: Times,
    *,
    others: Mapping[str, tuple[Series, Series, Series]],
    differences: Mapping[str, tuple[Series, Series]],
    title: str,
    q_unit: str = "rad",
) -> Figure:
    """Coordinate and speed of a simulation (Ehsani 2016, Fig. 18), and how far others are.

    `others` maps a name to (time, q, q̇), drawn as markers on the curves; `differences`
    maps a name to (time, |Δq|), drawn below on a logarithmic axis: as a line if there are
    many rows, and as markers if there are few.
    """
    figure = new_figure()
    grid = figure.add_gridspec(2, 2, height_ratios=(2.1, 1))
    top = [figure.add_subplot(grid[0, k]) for k in range(2)]
    below = figure.add_subplot(grid[1, :])
    labels = (f"$q$ ({q_unit})", rf"$\dot q$ ({q_unit}/s)")
    for k, (ax, values, label) in enumerate(zip(top, (q, qd), labels, strict=True)):
        ax.plot(time, values, color=PALETTE[0], label="ODE")
        for j, (name, series) in enumerate(others.items()):
            ax.plot(
                series[0], series[1 + k], "ox"[j % 2], color=PALETTE[1 + j],
                ms=4, mfc="none", mew=1.0, ls="none", label=name,
            )  # fmt: skip
        share_time([ax], time)
        ax.set_ylabel(label)
    top[0].legend(loc="upper left", handlelength=1.2)
    for j, (name, (when, values)) in enumerate(differences.items()):
        look: dict[str, Any] = (
            {"ls": "-", "lw": 0.9} if when.size > 100 else {"ls": "none", "marker": "o"}
        )
        below.plot(
            when, positive(values), color=PALETTE[1 + j], ms=3.5, zorder=3 - j, label=name, **look
        )
    error_axis(below, rf"$|\Delta q|$ ({q_unit})")
    share_time([below], time)
    if differences:
        below.legend(
            loc="lower left", bbox_to_anchor=(0.0, 0.98), ncols=len(differences), handlelength=1.2,
            borderaxespad=0.0,
        )  # fmt: skip
    else:
        below.text(0.5, 0.5, "nothing to compare with", color=GREY, transform=below.transAxes)
    figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    return figure
