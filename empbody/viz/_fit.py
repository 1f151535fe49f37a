"""Fitted rhythms: data, curves and bands."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from ..fitting import RhythmFit
from ._style import PALETTE, new_figure, styled

_MOST = 6
_FEW = 60
"""Rows of one colour that are drawn as circles; more are small dots."""


@styled
def fitted_rhythm(
    fit: RhythmFit,
    inputs: Float[np.ndarray, "n nq"],
    targets: Float[np.ndarray, "n nj"],
    *,
    used: np.ndarray | None = None,
    level: float = 0.95,
    along: int = -1,
    levels: Sequence[str] | None = None,
    title: str = "",
) -> Figure:
    """Targets (deg) over one input: data, fitted curves, bands of confidence.

    Data are circles where they are few, small dots where they are many.
    One panel for each target, one colour for each value of the first other input (at most
    six). `used` marks rows that were fitted, which are drawn as rings; without it all were.
    `levels` names the colours.
    """
    xs, ys = np.asarray(inputs, dtype=float), np.asarray(targets, dtype=float)
    ins = fit.input_names or tuple(f"q{i}" for i in range(xs.shape[1]))
    outs = fit.target_names or tuple(f"f{i}" for i in range(ys.shape[1]))
    along = along % xs.shape[1]
    other = next((i for i in range(xs.shape[1]) if i != along), None)
    group = np.zeros(len(xs), dtype=int)
    centres = np.zeros(1)
    if other is not None:
        centres = np.unique(np.round(xs[:, other], 6))
        if len(centres) > _MOST:
            centres = np.quantile(xs[:, other], (np.arange(_MOST) + 0.5) / _MOST)
        group = np.argmin(np.abs(xs[:, other][:, None] - centres[None, :]), axis=1)
    figure = new_figure((2.35 * max(len(outs), 2) + 0.4, 3.2))
    axes = figure.subplots(1, len(outs), squeeze=False)[0]
    for g, centre in enumerate(centres):
        rows = np.flatnonzero(group == g)
        if not len(rows):
            continue
        colour = PALETTE[g % len(PALETTE)]
        line = np.median(xs[rows], axis=0)[None, :].repeat(80, axis=0)
        line[:, along] = np.linspace(xs[rows, along].min(), xs[rows, along].max(), 80)
        if other is not None:
            line[:, other] = centre
        band = fit.band(jnp.asarray(line), level)
        x = np.degrees(line[:, along])
        name = "" if other is None else f"{ins[other]} {np.degrees(centre):.0f}°"
        if levels is not None and g < len(levels):
            name = levels[g]
        for k, ax in enumerate(axes):
            few = len(rows) <= _FEW
            ax.plot(np.degrees(xs[rows, along]), np.degrees(ys[rows, k]), "o" if few else ".",
                    ms=3.5 if few else 4.0, mew=0, color=colour,
                    alpha=0.7 if few else 0.45)  # fmt: skip
            ax.fill_between(x, np.degrees(band.lower[:, k]), np.degrees(band.upper[:, k]),
                            color=colour, alpha=0.2, lw=0)  # fmt: skip
            # Thin over many data, which would else be hidden where the fit is good.
            width = {} if few else {"lw": 1.0}
            ax.plot(x, np.degrees(band.value[:, k]), color=colour, label=name or "fit", **width)
            if used is not None:
                ring = rows[np.asarray(used)[rows]]
                ax.plot(np.degrees(xs[ring, along]), np.degrees(ys[ring, k]), "o", ms=7.0,
                        mfc="none", color=colour)  # fmt: skip
    for k, ax in enumerate(axes):
        ax.set_title(outs[k])
        ax.set_xlabel(f"{ins[along]} (deg)")
    axes[0].set_ylabel("angle (deg)")
    handles, names = axes[0].get_legend_handles_labels()
    # Below the panels, where no curve can lie.
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4),
                  handlelength=1.2)  # fmt: skip
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    return figure
