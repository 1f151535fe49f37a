"""Machine code for functions of one sample: many branches and loops, little arithmetic each."""

from ._call import SWITCH, Program

__all__ = ["SWITCH", "Program"]
