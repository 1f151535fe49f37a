"""Joint variables over the coordinates (Figs. 5, 11 and 17)."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from ._style import PALETTE, SIZE, label_ends, new_figure, styled


@styled
def joint_variables(
    q: Float[np.ndarray, " rows"],
    f: Float[np.ndarray, "rows nj"],
    *,
    names: Sequence[str],
    q_label: str,
    title: str,
    in_pi: bool = False,
) -> Figure:
    """Joint variables as smooth functions of one coordinate (Ehsani 2016, Figs. 5, 17)."""
    figure = new_figure()
    ax = figure.subplots()
    for j in range(f.shape[1]):
        ax.plot(q, f[:, j], color=PALETTE[j % len(PALETTE)])
    ax.set_xlim(float(q[0]), float(q[-1]))
    ax.set_ylim(*ax.get_ylim())
    if in_pi:
        in_multiples_of_pi(ax.xaxis)
    ax.set_xlabel(q_label)
    ax.set_ylabel("joint variable (rad)")
    ax.set_title(title)
    label_ends(ax, float(q[-1]), f[-1].tolist(), names)
    return figure


@styled
def joint_manifold(
    q1: Float[np.ndarray, " n1"],
    q2: Float[np.ndarray, " n2"],
    f: Float[np.ndarray, "n1 n2"],
    *,
    name: str,
    path: Float[np.ndarray, "rows 2"] | None = None,
    title: str,
) -> Figure:
    """One joint variable over two coordinates (Ehsani 2016, Fig. 11), `path` drawn on it."""
    figure = new_figure((SIZE[0], 3.5))
    grid = figure.add_gridspec(1, 2, width_ratios=(1.0, 1.15))
    _surface(figure.add_subplot(grid[0], projection="3d"), q1, q2, f, name)
    ax = figure.add_subplot(grid[1])
    levels = np.linspace(float(f.min()), float(f.max()), 25)
    filled = ax.contourf(q1, q2, f.T, levels=levels, cmap="viridis")
    ax.contour(
        q1, q2, f.T, levels=levels[::3], colors="white", linewidths=0.5, alpha=0.6,
        linestyles="solid",
    )  # fmt: skip
    if path is not None:
        ax.plot(path[:, 0], path[:, 1], color="white", lw=3.0)
        ax.plot(path[:, 0], path[:, 1], color=PALETTE[1], lw=1.6, label="desired trajectory")
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2)
    ax.set_aspect("equal")
    ax.grid(False)
    for axis in (ax.xaxis, ax.yaxis):
        in_multiples_of_pi(axis)
    ax.set_xlabel("$q_1$ (rad)")
    ax.set_ylabel("$q_2$ (rad)", labelpad=0)
    figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    bar = figure.colorbar(filled, ax=ax, label=f"{name} (rad)", fraction=0.05)
    bar.ax.grid(False)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.ax.yaxis.set_major_locator(MultipleLocator(0.5))
    return figure


def _surface(ax, q1: np.ndarray, q2: np.ndarray, f: np.ndarray, name: str) -> None:
    x, y = np.meshgrid(q1, q2, indexing="ij")
    ax.plot_surface(x, y, f, cmap="viridis", rcount=60, ccount=60, lw=0, antialiased=False)
    ax.view_init(elev=32, azim=-122)
    for axis in (ax.xaxis, ax.yaxis):
        in_multiples_of_pi(axis)
        axis.set_major_locator(MultipleLocator(np.pi))
    ax.zaxis.set_major_locator(MultipleLocator(0.5))
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
    ax.tick_params(labelsize=7, pad=-2)
    ax.set_xlabel("$q_1$", labelpad=-6)
    ax.set_ylabel("$q_2$", labelpad=-6)
    ax.set_title(f"{name} as a surface", y=0.93)
    ax.set_box_aspect((1.0, 1.0, 0.75), zoom=0.95)


def in_multiples_of_pi(axis) -> None:
    """Ticks every π/2."""
    axis.set_major_locator(MultipleLocator(np.pi / 2))
    axis.set_major_formatter(FuncFormatter(lambda x, _: _as_pi(round(2 * x / np.pi))))


def _as_pi(halves: int) -> str:
    if halves == 0:
        return "0"
    sign, size = ("−" if halves < 0 else ""), abs(halves)
    number = size // 2 if size % 2 == 0 else size
    text = f"{sign}{'' if number == 1 else number}π"
    return text if size % 2 == 0 else text + "/2"
