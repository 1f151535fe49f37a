"""A motion that a controller follows, the torques it takes and the muscles that give them
(Ehsani 2016, Figs. 19-21)."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from ._style import GREY, PALETTE, error_axis, label_ends, new_figure, positive, share_time, styled

Times = Float[np.ndarray, " rows"]
PerCoordinate = Float[np.ndarray, "rows nq"]
PerMuscle = Float[np.ndarray, "rows nm"]

_COLUMNS = 5


@styled
def tracking(
    time: Times,
    desired: PerCoordinate,
    errors: Mapping[str, PerCoordinate],
    *,
    names: Sequence[str],
    turning: Sequence[bool] | None = None,
    title: str = "Desired motion, and how far the controlled model is from it",
) -> Figure:
    """Desired coordinates (rad, drawn in degrees) and the size of tracking errors (rad).

    Coordinates for which `turning` is False are lengths (m, drawn in cm and named so).

    `errors` maps a name to errors per coordinate: each a panel, on a logarithmic axis, which
    says which coordinates are followed exactly and have no curve.
    """
    figure = new_figure((6.5, 3.0 + 1.5 * len(errors)))
    panels = figure.subplots(1 + len(errors), 1, height_ratios=(2.0, *[1.0] * len(errors)))
    panels = list(np.atleast_1d(panels))
    turns = [True] * len(names) if turning is None else list(turning)
    degrees = desired * np.where(turns, np.degrees(1.0), 100.0)
    labels = [n if angle else f"{n} (cm)" for n, angle in zip(names, turns, strict=True)]
    for k in range(desired.shape[1]):
        panels[0].plot(time, degrees[:, k], color=PALETTE[k % len(PALETTE)])
    share_time(panels, time)
    panels[0].margins(y=0.08)
    panels[0].set_ylabel("desired angle (°)")
    panels[0].set_title(title)
    label_ends(panels[0], float(time[-1]), degrees[-1].tolist(), labels)
    for ax, (what, values) in zip(panels[1:], errors.items(), strict=True):
        for k in range(values.shape[1]):
            colour = PALETTE[k % len(PALETTE)]
            ax.plot(time, positive(np.abs(values[:, k])), color=colour, lw=1.0)
        error_axis(ax, what)
        exact = [name for name, column in zip(names, values.T, strict=True) if not column.any()]
        if exact:
            words = f"exact: {', '.join(exact)}"
            ax.text(0.99, 0.04, words, transform=ax.transAxes, ha="right", color=GREY, fontsize=8)
    return figure


@styled
def torques(
    time: Times,
    values: PerCoordinate,
    *,
    names: Sequence[str],
    others: Mapping[str, PerCoordinate] | None = None,
    title: str = "Torques of the controller",
) -> Figure:
    """Generalised forces over time (N m), one line per coordinate (Ehsani 2016, Fig. 20).

    `others` maps a name to the same quantity from elsewhere, drawn as dots.
    """
    figure = new_figure()
    ax = figure.subplots()
    for k in range(values.shape[1]):
        ax.plot(time, values[:, k], color=PALETTE[k % len(PALETTE)])
    some = slice(None, None, max(1, time.size // 25))
    for j, (name, other) in enumerate((others or {}).items()):
        for k in range(values.shape[1]):
            ax.plot(
                time[some], other[some, k], "ox"[j % 2], color=PALETTE[k % len(PALETTE)],
                ms=4, mfc="none", mew=0.9, label=name if k == 0 else None,
            )  # fmt: skip
    ax.axhline(0.0, color=GREY, lw=0.6)
    share_time([ax], time)
    ax.margins(y=0.08)
    ax.set_ylabel("torque (N m)")
    ax.set_title(title)
    label_ends(ax, float(time[-1]), values[-1].tolist(), names)
    if others:
        ax.legend(loc="best", handlelength=1.0, labelcolor=GREY)
    return figure


@styled
def muscle_forces(
    time: Times,
    forces: PerMuscle,
    activations: PerMuscle,
    *,
    names: Sequence[str],
    title: str = "Muscle forces (N, passive ones included) and activations",
    note: str = "",
) -> Figure:
    """One small panel per muscle (Ehsani 2016, Fig. 21): force as a line (N, axes of their
    own), activation as a grey area between 0 and 1 (axis at the right)."""
    count = len(names)
    rows = -(-count // _COLUMNS)
    figure = new_figure((8.4, 0.8 + 1.45 * rows))
    grid = figure.subplots(rows, _COLUMNS, squeeze=False)
    top = float(np.nanmax(forces)) if forces.size else 1.0
    for k, ax in enumerate(grid.ravel()):
        if k >= count:
            ax.set_axis_off()
            continue
        side = ax.twinx()
        side.fill_between(time, activations[:, k], color="#dcdcdc", lw=0)
        side.set_ylim(0.0, 1.0)
        side.set_yticks((0.0, 0.5, 1.0))
        side.grid(False)
        side.spines["right"].set_visible(False)
        last = k % _COLUMNS == _COLUMNS - 1 or k == count - 1
        side.tick_params(right=False, labelright=last, colors=GREY)
        side.set_zorder(0)
        ax.set_zorder(1)
        ax.patch.set_visible(False)
        ax.plot(time, forces[:, k], color=PALETTE[0])
        ax.set_title(names[k], pad=3)
        ax.set_xlim(float(time[0]), float(time[-1]))
        # Muscles that hardly pull are not blown up to the height of those that do.
        ax.set_ylim(0.0, max(1.08 * float(np.nanmax(forces[:, k])), 0.05 * top))
        ax.tick_params(labelbottom=k + _COLUMNS >= count)
    figure.supxlabel("time (s)", fontsize=9)
    figure.supylabel("force (N)", fontsize=9, color=PALETTE[0])
    figure.suptitle(f"{title} (grey, 0 to 1){note}", x=0.01, ha="left", fontsize=9)
    return figure
