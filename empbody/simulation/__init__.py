"""Motion in time: the equations of motion on Diffrax's solvers."""

from ._errors import SimulationError
from ._events import AbstractEvent, CoordinateLimit, Crossing
from ._loops import failing_softly
from ._simulate import simulate
from ._solution import Solution
from ._status import SimulationStatus

__all__ = [
    "AbstractEvent",
    "CoordinateLimit",
    "Crossing",
    "SimulationError",
    "SimulationStatus",
    "Solution",
    "failing_softly",
    "simulate",
]
