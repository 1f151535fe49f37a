"""The constrained formulation, kept as the comparison: index 1, stabilised.

The same mechanisms in joint variables with algebraic constraints (Ehsani 2016, section
4-4 B), on the same Diffrax solvers as the plain ODE.
"""

from ._constrained import (
    Acceleration as Acceleration,
    Constrained as Constrained,
    Servo as Servo,
    constrained as constrained,
)
from ._constraints import Loop as Loop, RhythmLoop as RhythmLoop
from ._projecting import Projecting as Projecting
from ._simulate import (
    DAESolution as DAESolution,
    simulate_dae as simulate_dae,
    vector_field as vector_field,
)
