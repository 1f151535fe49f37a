"""Equations of motion: the fast path."""

from ._terms import (
    applied_forces as applied_forces,
    bias as bias,
    coriolis as coriolis,
    forward_dynamics as forward_dynamics,
    gravity as gravity,
    inverse_dynamics as inverse_dynamics,
    kinetic_energy as kinetic_energy,
    mass_matrix as mass_matrix,
    mechanical_energy as mechanical_energy,
    potential_energy as potential_energy,
)
