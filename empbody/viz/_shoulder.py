"""Figures of the shoulder: moment arms beside stored ones, and what a rhythm changes."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from ..models._shoulder_comparison import RhythmDifference
from ._style import GREY, PALETTE, error_axis, label_ends, new_figure, positive, styled

Arms = Float[np.ndarray, "n m"]
_NAMES = {
    "elv_angle": "plane of elevation",
    "shoulder_elv": "elevation",
    "shoulder_rot": "axial rotation",
}


@styled
def moment_arm_sweep(
    degrees: Float[np.ndarray, " n"],
    ours: Arms | Sequence[Arms],
    reference: Arms | Sequence[Arms],
    muscles: Sequence[str],
    *,
    sweep: str,
    about: str,
    titles: Sequence[str] = (),
    reference_name: str = "OpenSim",
    floor: float = 1e-18,
) -> Figure:
    """Moment arms (m) over a swept coordinate (deg), ours and a reference, with differences.

    `ours` and `reference` are one (n, m) array each, or several for panels side by side,
    which `titles` name. Moment arms are drawn in mm; lines are ours, dashes the reference,
    below is the size of the difference. Differences under `floor` (m) are not drawn.
    """
    pairs = list(zip(_panels(ours), _panels(reference), strict=True))
    figure = new_figure((6.5 if len(pairs) == 1 else 5.0 * len(pairs), 4.8))
    grid = figure.add_gridspec(2, len(pairs), height_ratios=(3, 1.25))
    upper: list[Axes] = []
    for k, (own, known) in enumerate(pairs):
        top = figure.add_subplot(grid[0, k], sharey=upper[0] if upper else None)
        low = figure.add_subplot(grid[1, k], sharex=top)
        upper.append(top)
        for m in range(len(muscles)):
            colour = PALETTE[m % len(PALETTE)]
            top.plot(degrees, 1e3 * own[:, m], color=colour, lw=2.4, alpha=0.75)
            top.plot(degrees, 1e3 * known[:, m], "--", color="#202020", lw=0.9, dashes=(4, 3))
            gap = np.abs(own[:, m] - known[:, m])
            low.plot(degrees, 1e3 * positive(np.where(gap < floor, 0.0, gap)), color=colour, lw=1.0)
        error_axis(low, "difference (mm)" if k == 0 else "")
        top.set_xlim(float(degrees[0]), float(degrees[-1]))
        top.xaxis.set_major_locator(MultipleLocator(30))
        top.tick_params(labelbottom=False)
        top.axhline(0.0, color=GREY, lw=0.6, zorder=0)
        low.set_xlabel(f"{_NAMES.get(sweep, sweep)} (°)")
        top.set_title(titles[k] if k < len(titles) else "")
    upper[0].set_ylabel(f"moment arm about {_NAMES.get(about, about)} (mm)")
    for top, (own, _) in zip(upper, pairs, strict=True):
        label_ends(top, float(degrees[-1]), list(1e3 * own[-1]), list(muscles))
    handles = [
        upper[0].plot([], [], color=GREY, lw=2.4, alpha=0.75, label="empbody")[0],
        upper[0].plot([], [], "--", color="#202020", lw=0.9, label=reference_name)[0],
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    return figure


def _panels(arms: Arms | Sequence[Arms]) -> list[Arms]:
    return [arms] if isinstance(arms, np.ndarray) else [np.asarray(each) for each in arms]


@styled
def rhythm_difference(
    difference: RhythmDifference,
    muscles: Sequence[str] = ("DELT2", "SUPSP", "SUBSC", "PECM3"),
    *,
    about: str = "shoulder_elv",
    title: str = "",
) -> Figure:
    """Maps over plane and elevation of what another rhythm changes.

    Left: the angle between the scapula's two orientations (deg). Then, for each muscle,
    differences of length (above) and of moment arm about a coordinate (below), in mm.
    """
    figure = new_figure((3.9 + 1.75 * len(muscles), 4.3))
    grid = figure.add_gridspec(2, 1 + len(muscles), width_ratios=(1.9, *(1,) * len(muscles)))
    planes, elevations = difference.planes, difference.elevations
    left = figure.add_subplot(grid[:, 0])
    levels = MaxNLocator(12, min_n_ticks=6).tick_values(0.0, float(difference.orientation.max()))
    filled = left.contourf(planes, elevations, difference.orientation.T, levels, cmap="viridis")
    lines = left.contour(
        planes, elevations, difference.orientation.T, levels[::2], colors="white", linewidths=0.6
    )
    left.clabel(lines, fmt="%g°", fontsize=8)
    left.set_title("scapula: angle between orientations (°)")
    left.set_xlabel("plane of elevation (°)")
    left.set_ylabel("elevation (°)")
    left.xaxis.set_major_locator(MultipleLocator(45))
    left.yaxis.set_major_locator(MultipleLocator(30))
    left.grid(visible=False)
    units = [difference.muscle_names.index(name) for name in muscles]
    coordinate = difference.coordinate_names.index(about)
    rows = (
        ("length (mm)", difference.lengths[:, :, units]),
        (
            f"moment arm, {_NAMES.get(about, about)} (mm)",
            difference.arms[:, :, coordinate][:, :, units],
        ),
    )
    panels: list[Axes] = []
    for r, (what, values) in enumerate(rows):
        size = float(np.max(np.abs(values)))
        steps = MaxNLocator(16, symmetric=True).tick_values(-size, size)
        panels = []
        for k, name in enumerate(muscles):
            ax = figure.add_subplot(grid[r, 1 + k])
            filled = ax.contourf(planes, elevations, values[:, :, k].T, steps, cmap="RdBu_r")
            most = f"≤ {np.max(np.abs(values[:, :, k])):.1f} mm"
            ax.set_title(f"{name}: {most}")
            ax.xaxis.set_major_locator(MultipleLocator(90))
            ax.yaxis.set_major_locator(MultipleLocator(60))
            ax.tick_params(labelbottom=r == 1, labelleft=k == 0)
            ax.grid(visible=False)
            panels.append(ax)
        bar = figure.colorbar(filled, ax=panels, pad=0.01, aspect=18, label=f"Δ {what}")
        bar.locator = MaxNLocator(5, symmetric=True)
        bar.update_ticks()
    for ax in panels:
        ax.set_xlabel("plane (°)")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    return figure
