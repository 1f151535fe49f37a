"""Figures. Every function returns a `matplotlib.figure.Figure`; nothing is shown or saved
until `save` is called, and Matplotlib's global settings stay as they are."""

from ._comparison import gradients, point_motion
from ._joints import joint_manifold, joint_variables
from ._motion import coordinates_over_time, forward_dynamics
from ._paths import muscle_paths
from ._style import PALETTE, new_figure, save, style

__all__ = [
    "PALETTE",
    "coordinates_over_time",
    "forward_dynamics",
    "gradients",
    "joint_manifold",
    "joint_variables",
    "muscle_paths",
    "new_figure",
    "point_motion",
    "save",
    "style",
]
