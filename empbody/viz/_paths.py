"""A model in a pose: bodies, wrapping surfaces and the paths of its muscles, in space."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..kinematics import body_transforms
from ..model import Model
from ..paths import path_polylines
from ._style import GREY, PALETTE, new_figure, styled

_BONE = "#b5b5b5"
_SURFACE = "#8fa3ad"
_DASHES = ("-", (0, (3, 1)), (0, (1, 1)))
_AXES = ("#a83232", "#2e7d32", "#2f4f9e")


@styled
def muscle_paths(
    model: Model,
    q: Float[Array, " nq"] | Float[np.ndarray, " nq"],
    *,
    muscles: Sequence[str] | None = None,
    surfaces: bool = True,
    frames: bool = True,
    view: tuple[float, float] = (18.0, 25.0),
    title: str = "",
) -> Figure:
    """Paths at pose q in the ground frame (m), over wire frames of the surfaces that are in use.

    Grey lines join each body's origin to its parent's and to its centre of mass (dot); `frames`
    draws the bodies' own axes (x red, y green, z blue). `muscles` picks some units by name. The
    picture is as large as the paths, their surfaces and the bodies that carry them; what lies
    outside is left out.
    `view` is elevation and azimuth in degrees about the axis along which gravity acts; (0, 0)
    looks against z at a model that stands along y.
    """
    chosen = model.muscle_names if muscles is None else tuple(muscles)
    units = [model.muscle_index(name) for name in chosen]
    figure = new_figure((6.5, 5.2))
    ax: Any = figure.add_subplot(projection="3d")
    ax.computed_zorder = False  # paths in front of the surfaces that they lie on
    lines = path_polylines(model, q)
    poses = np.asarray(body_transforms(model, jnp.asarray(q, dtype=float)))
    drawn = [lines[name] for name in chosen]
    if surfaces:
        used = {wrap.surface for wrap in model.paths.layout.wraps if wrap.unit in units}
        faint = 0.7 if len(used) < 4 else 0.3
        drawn += [_surface(ax, model, poses, number, drawn, faint) for number in sorted(used)]
    for k, name in enumerate(chosen):
        again, color = divmod(k, len(PALETTE))
        how = {"color": PALETTE[color], "ls": _DASHES[again % len(_DASHES)]}
        ax.plot(*lines[name].T, **how, lw=2.0, label=name, zorder=5)
    layout = model.paths.layout
    carriers = {
        layout.bodies[point]
        for point in range(layout.n_points)
        if layout.unit_of(point) in units and layout.bodies[point] >= 0
    }
    shown = sorted(carriers) if units else list(range(len(poses)))
    massive = [body for body in shown if body in model.topology.massive]
    places = np.concatenate([poses[shown, :3, 3], _centres(model, poses)[massive]])
    box = _frame(ax, model, np.concatenate([*drawn, places]), view)
    _bodies(ax, model, poses, frames, box)
    if chosen:
        columns = min(len(chosen), 5)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=columns)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    return figure


def _bodies(ax: Any, model: Model, poses: np.ndarray, frames: bool, box: np.ndarray) -> None:
    """Each body's origin joined to that of the body that carries it, its centre of mass, and
    its axes, where they lie within a box (corners)."""
    origins, centres = poses[:, :3, 3], _centres(model, poses)
    reach = 0.05 * float(np.max(np.ptp(box, axis=0)))

    def line(start: np.ndarray, end: np.ndarray, **how: Any) -> None:
        ends = np.stack([start, end])
        if np.all((ends >= box[0]) & (ends <= box[1])):
            ax.plot(*ends.T, **how)

    bone: dict[str, Any] = {"color": _BONE, "lw": 3.0, "zorder": 1}
    for body, pose in enumerate(poses):
        above = _carrier(model, body)
        line(np.zeros(3) if above < 0 else origins[above], origins[body], **bone)
        if body in model.topology.massive:
            line(origins[body], centres[body], **bone)
            line(centres[body], centres[body], color=_BONE, marker="o", ms=5, zorder=1)
        for k in range(3 * frames):
            tip = origins[body] + reach * pose[:3, k]
            line(origins[body], tip, color=_AXES[k], lw=1.0, zorder=2)


def _centres(model: Model, poses: np.ndarray) -> np.ndarray:
    """Centres of mass, body by body."""
    turned = np.einsum("bij,bj->bi", poses[:, :3, :3], np.asarray(model.com))
    return turned + poses[:, :3, 3]


def _carrier(model: Model, body: int) -> int:
    """The body that carries this one; -1 is the ground."""
    topology = model.topology
    link = topology.body_links[body]
    if not topology.welded[body] and link >= 0:
        link = topology.parents[link]
    while link >= 0:
        for other, own in enumerate(topology.body_links):
            if own == link and not topology.welded[other]:
                return other
        link = topology.parents[link]
    return -1


def _surface(
    ax: Any, model: Model, poses: np.ndarray, number: int, lines: list[np.ndarray], alpha: float
) -> np.ndarray:
    """A wire frame; returns its points. A cylinder without ends is drawn as long as the paths
    reach along it."""
    paths, slot = model.paths, model.paths.layout.surfaces[number]
    pose = np.eye(4) if slot.body < 0 else poses[slot.body]
    turned = pose[:3, :3] @ np.asarray(paths.surface_rotation[number])
    centre = pose[:3, :3] @ np.asarray(paths.surface_translation[number]) + pose[:3, 3]
    size = np.asarray(paths.surface_size[number])
    if slot.kind == "cylinder" and not np.isfinite(size[1]):
        height = np.abs((np.concatenate(lines) - centre) @ turned[:, 2]).max()
        size = np.array([size[0], 2.0 * min(height + size[0], 4.0 * size[0]), 0.0])
    x, y, z = np.moveaxis(wire_frame(slot.kind, size) @ turned.T + centre, -1, 0)
    ax.plot_wireframe(x, y, z, color=_SURFACE, lw=0.5, alpha=alpha, rcount=24, ccount=24)
    return np.stack([x, y, z], axis=-1).reshape(-1, 3)


def wire_frame(kind: str, size: np.ndarray) -> np.ndarray:
    """Points (rows, columns, 3) of a surface in its own frame, for `PathSet.surface_size`."""
    turn = np.linspace(0.0, 2.0 * np.pi, 25)[:, None]
    if kind == "cylinder":
        height = np.linspace(-0.5, 0.5, 7)[None] * size[1]
        parts = size[0] * np.cos(turn), size[0] * np.sin(turn), height
    elif kind == "torus":
        tube = np.linspace(0.0, 2.0 * np.pi, 13)[None]
        out = size[1] + size[0] * np.cos(tube)
        parts = out * np.cos(turn), out * np.sin(turn), size[0] * np.sin(tube)
    else:
        size = np.repeat(size[0], 3) if kind == "sphere" else size
        tilt = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 13)[None]
        flat = np.cos(tilt)
        parts = flat * np.cos(turn) * size[0], flat * np.sin(turn) * size[1], size[2] * np.sin(tilt)
    return np.stack(np.broadcast_arrays(*parts), axis=-1)


def _frame(ax: Any, model: Model, points: np.ndarray, view: tuple[float, float]) -> np.ndarray:
    """Equal scales, the vertical as gravity has it, and quiet panes; returns the corners."""
    fall = np.abs(np.asarray(model.gravity))
    up = int(np.argmax(fall)) if np.any(fall) else 1
    ax.view_init(elev=view[0], azim=view[1], vertical_axis="xyz"[up])
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    half = 0.55 * np.maximum(np.ptp(points, axis=0), 0.4 * np.ptp(points, axis=0).max())
    for axis, name, centre, reach in zip(
        (ax.xaxis, ax.yaxis, ax.zaxis), "xyz", middle, half, strict=True
    ):
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        getattr(ax, f"set_{name}lim")(centre - reach, centre + reach)
        getattr(ax, f"set_{name}label")(f"{name} (m)", color=GREY)
        axis.set_major_locator(MaxNLocator(4))
    ax.set_box_aspect(tuple(half), zoom=0.95)  # it would write into an array
    ax.tick_params(labelsize=7, pad=0)
    return np.stack([middle - half, middle + half])
