"""Our kinematics beside an independent computation (Figs. 6, 9 and 10)."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ._style import PALETTE, error_axis, new_figure, positive, share_time, styled

Times = Float[np.ndarray, " rows"]
Pair = tuple[Times, Times]


@styled
def point_motion(
    time: Times,
    speed: Pair,
    acceleration: Pair,
    *,
    names: tuple[str, str],
    length: str,
    title: str,
) -> Figure:
    """|v| and |a| of a point by two methods (Ehsani 2016, Figs. 6 and 9), and their
    relative difference."""
    figure = new_figure()
    labels = (rf"$|v_p|$ ({length}/s)", rf"$|a_p|$ ({length}/s$^2$)")
    _columns(figure, time, (speed, acceleration), labels, names)
    figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    return figure


@styled
def gradients(
    time: Times, pairs: Sequence[Pair], *, labels: Sequence[str], names: tuple[str, str], title: str
) -> Figure:
    """Sizes of joint gradients by two methods (Ehsani 2016, Fig. 10)."""
    figure = new_figure()
    _columns(figure, time, pairs, labels, names)
    figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    return figure


def _columns(
    figure: Figure,
    time: Times,
    pairs: Sequence[Pair],
    labels: Sequence[str],
    names: tuple[str, str],
) -> None:
    """One column for each quantity: both methods above, their relative difference below."""
    grid = figure.add_gridspec(2, len(pairs), height_ratios=(2.4, 1))
    for k, (pair, label) in enumerate(zip(pairs, labels, strict=True)):
        top = figure.add_subplot(grid[0, k])
        _both(top, time, pair, names)
        top.set_ylabel(label)
        below = figure.add_subplot(grid[1, k])
        scale = float(np.max(np.abs(pair[1])))
        apart = positive(np.abs(pair[0] - pair[1]) / scale)
        below.plot(time, apart, ".", color=PALETTE[2], ms=2.5)
        error_axis(below, "rel. difference" if k == 0 else "")
        share_time([top, below], time)
        if k == 0:
            top.legend(loc="best", handlelength=1.4)


def _both(ax: Axes, time: Times, pair: Pair, names: tuple[str, str]) -> None:
    ax.plot(time, pair[0], color=PALETTE[5], lw=3.2, label=names[0])
    ax.plot(time, pair[1], color=PALETTE[6], lw=1.0, ls=(0, (4, 3)), label=names[1])
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
