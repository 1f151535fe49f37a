"""Figures. Every function returns a `matplotlib.figure.Figure`; nothing is shown or saved
until `save` is called, and Matplotlib's global settings stay as they are."""

from ._comparison import gradients, point_motion
from ._fit import fitted_rhythm
from ._joints import joint_manifold, joint_variables
from ._motion import coordinates_over_time, forward_dynamics
from ._paths import muscle_paths
from ._shoulder import moment_arm_sweep, rhythm_difference
from ._style import PALETTE, new_figure, save, style
from ._tracking import muscle_forces, torques, tracking

__all__ = [
    "PALETTE",
    "coordinates_over_time",
    "fitted_rhythm",
    "forward_dynamics",
    "gradients",
    "joint_manifold",
    "joint_variables",
    "moment_arm_sweep",
    "muscle_forces",
    "muscle_paths",
    "new_figure",
    "point_motion",
    "rhythm_difference",
    "save",
    "style",
    "torques",
    "tracking",
]
