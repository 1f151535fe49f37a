"""One style for all figures, without touching Matplotlib's global settings."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

P = ParamSpec("P")

# Okabe and Ito (2008): told apart with every common kind of colour vision. Their yellow is
# left out: it is too pale for a line on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "#6b6b6b"
SIZE = (6.5, 4.0)
DPI = 160

_RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.titlepad": 6.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.edgecolor": "#404040",
    "xtick.color": "#404040",
    "ytick.color": "#404040",
    "xtick.direction": "out",
    "ytick.direction": "out",
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "axes.prop_cycle": mpl.cycler(color=PALETTE),  # pyright: ignore[reportAttributeAccessIssue]
    "axes.formatter.use_mathtext": True,
    "axes.formatter.limits": (-4, 5),
    "axes.unicode_minus": True,
    "savefig.facecolor": "white",
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Matplotlib's settings of this project, for the length of a block."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """A function that draws in this style."""

    @functools.wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with style():
            return draw(*args, **kwargs)

    return wrapped


def new_figure(size: tuple[float, float] = SIZE) -> Figure:
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG; equal figures give equal files."""
    with style():  # text is laid out only now
        figure.savefig(path, dpi=DPI, format="png", metadata={"Software": None})


def label_ends(
    ax: Axes,
    x: float,
    heights: Sequence[float],
    labels: Sequence[str],
    colours: Sequence[str] = PALETTE,
) -> None:
    """Name curves at their right ends, moved apart where they would overlap.

    Call it when the axes' limits are final.
    """
    low, high = ax.get_ylim()
    gap = 0.062 * (high - low)
    order = np.argsort(heights, kind="stable")
    places = np.asarray(heights, dtype=float)[order]
    for _ in range(200):  # push neighbours apart until none overlap
        close = np.flatnonzero(np.diff(places) < gap * 0.999)
        if close.size == 0:
            break
        for i in close:
            middle = 0.5 * (places[i] + places[i + 1])
            places[i], places[i + 1] = middle - 0.5 * gap, middle + 0.5 * gap
    for place, i in zip(places, order, strict=True):
        ax.annotate(
            labels[int(i)],
            (x, float(place)),
            xytext=(5, 0),
            textcoords="offset points",
            color=colours[i % len(colours)],
            va="center",
            annotation_clip=False,
        )


def share_time(axes: Sequence[Axes], time: np.ndarray, label: str = "time (s)") -> None:
    """One time axis for panels that stand above each other; the lowest carries the label."""
    for ax in axes:
        ax.set_xlim(float(time[0]), float(time[-1]))
        ax.tick_params(labelbottom=False)
    axes[-1].tick_params(labelbottom=True)
    axes[-1].set_xlabel(label)


def error_axis(ax: Axes, label: str) -> None:
    """A logarithmic panel for differences; exact zeros are not drawn."""
    ax.set_yscale("log")
    ax.set_ylabel(label)
    ax.yaxis.set_major_locator(LogLocator(numticks=4))
    ax.yaxis.set_minor_locator(NullLocator())


def positive(values: np.ndarray) -> np.ndarray:
    """Values for a logarithmic axis: zeros become gaps."""
    return np.where(values > 0, values, np.nan)
