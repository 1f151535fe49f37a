"""Machine code for functions of one sample: many branches and loops, little arithmetic each."""

from ._call import SWITCH, Program
from ._side_by_side import refilled, side_by_side

__all__ = ["SWITCH", "Program", "refilled", "side_by_side"]
