"""Diffrax solvers of our own: the two methods that the manuscript's examples were solved with."""

from ._chord import StageChord
from ._rkf45 import RKF45
from ._trbdf2 import TRBDF2

__all__ = ["RKF45", "TRBDF2", "StageChord"]
