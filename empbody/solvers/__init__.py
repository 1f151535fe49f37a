"""Diffrax solvers of our own: the two methods that the manuscript's examples were solved with."""

from ._chord import StageChord
from ._names import SOLVERS, by_name
from ._rkf45 import RKF45
from ._trbdf2 import TRBDF2

__all__ = ["RKF45", "SOLVERS", "TRBDF2", "StageChord", "by_name"]
