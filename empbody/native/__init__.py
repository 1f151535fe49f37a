"""Machine code for functions of one sample: many branches and loops, little arithmetic each."""

from ._call import SWITCH, Program
from ._side_by_side import side_by_side

__all__ = ["SWITCH", "Program", "side_by_side"]
