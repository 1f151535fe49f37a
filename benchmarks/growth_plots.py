"""Log-log figures of benchmarks/results/growth.json, one for each axis."""

import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

_LABELS = {
    "batch": "batch size",
    "bodies": "number of bodies",
    "coordinates": "number of coordinates",
    "muscles": "number of muscles",
}
# Slopes that help to read each axis: time per element falls while a fixed cost is shared.
_GUIDES = {"batch": (-1,), "bodies": (1, 2), "coordinates": (1, 2), "muscles": (1,)}
# Colour, marker and line of each work, the same in all figures.
_STYLES = {
    "right-hand side": ("#0072B2", "o", "-"),
    "right-hand side, all joints free": ("#56B4E9", "s", "-"),
    "moment arms": ("#D55E00", "^", "-"),
    "moment arms, wrapping": ("#D55E00", "v", "--"),
    "simulation, per step": ("#009E73", "D", "-"),
    "gradient, per step": ("#CC79A7", "P", "-"),
    "force sharing": ("#A6761D", "X", "-"),
    "fitting": ("#7F7F7F", "h", "-"),
    "fitting, per subject": ("#7F7F7F", "h", "-"),
    "Pinocchio, ABA": ("#222222", "", ":"),
    "MuJoCo, mj_forward": ("#222222", "", "-."),
}
_PANELS = (
    ("us", "time per unit of work (µs)"),
    ("compile_s", "first call: building, compiling (s)"),
    ("peak_rss_mb", "peak memory of the process (MB)"),
)


def draw(growth, folder):
    """A PNG for each axis that was measured; returns their paths."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for axis in _LABELS:
        points = [p for p in growth["points"] if p["axis"] == axis]
        if points:
            figure = _figure(axis, points)
            paths.append(folder / f"growth_{axis}.png")
            figure.savefig(paths[-1], dpi=100)
            plt.close(figure)
    return paths


def _figure(axis, points):
    figure, axes = plt.subplots(1, 3, figsize=(12.0, 4.9), width_ratios=(1.35, 1.0, 1.0))
    curves = [c for c in _STYLES if any(p["curve"] == c for p in points)]
    for panel, (field, label) in zip(axes, _PANELS, strict=True):
        for curve in curves:
            peer = not _STYLES[curve][1]
            if peer and field != "us":
                continue  # nothing to compile, and memory is the whole process's
            rows = sorted((p["size"], p) for p in points if p["curve"] == curve)
            sizes, values = [s for s, _ in rows], [p[field] for _, p in rows]
            colour, marker, line = _STYLES[curve]
            panel.loglog(
                sizes, values, line, marker=marker or None, color=colour, ms=5, lw=1.5, label=curve
            )
            if field == "us":
                low, high = ([p[f] for _, p in rows] for f in ("least_us", "most_us"))
                panel.fill_between(sizes, low, high, color=colour, alpha=0.15, lw=0)
        if field == "us":
            _guides(panel, axis)
        _dress(panel, axis, label, [p["size"] for p in points])
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=min(4, len(names)), frameon=False)
    bottom = 0.02 + 0.045 * -(-len(names) // 4)
    figure.tight_layout(rect=(0.0, bottom, 1.0, 1.0))
    return figure


def _guides(panel, axis):
    """Straight lines of simple powers, through the lower left corner of the data (upper left
    where they fall)."""
    low, high = panel.get_ylim()
    left, right = panel.dataLim.intervalx
    span = np.log10(high / low)
    for slope in _GUIDES[axis]:
        start = low * 10 ** (0.04 * span) if slope > 0 else high / 10 ** (0.04 * span)
        reach = min(np.log10(right / left), 0.86 * span / abs(slope))
        ends = left * 10 ** np.array([0.0, reach])
        values = start * (ends / left) ** slope
        panel.plot(ends, values, color="0.75", lw=1.0, zorder=0)
        power = {-1: "∝ 1/n", 1: "∝ n", 2: "∝ n²"}[slope]
        panel.annotate(
            power,
            (ends[1], values[1]),
            textcoords="offset points",
            xytext=(2, 2 if slope > 0 else 4),
            color="0.5",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        )
    panel.set_ylim(low, high)


def _plain(value, _=None):
    if value >= 1e6:
        return f"{value / 1e6:.0f}M"
    return f"{value / 1e3:.0f}k" if value >= 1e4 else f"{value:g}"


def _dress(panel, axis, label, sizes):
    sizes = sorted(set(sizes))
    panel.set_xlabel(_LABELS[axis])
    panel.set_title(label, fontsize=10, loc="left")
    panel.set_xticks(sizes, [_plain(s) for s in sizes])
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.minorticks_off()
    panel.yaxis.set_major_formatter(FuncFormatter(_plain))
    low, high = panel.get_ylim()
    if high / low < 5:  # small differences are not to look like growth
        middle = np.sqrt(low * high)
        low, high = middle / np.sqrt(5), middle * np.sqrt(5)
        panel.set_ylim(low, high)
    if high / low < 300:  # decades alone would be too few ticks
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    panel.tick_params(labelsize=8)
    panel.margins(x=0.08)
    panel.grid(True, which="major", color="0.92", lw=0.8)
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
