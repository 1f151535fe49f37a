"""The paper's equations as they stand there, corrected: a reference to read and test with.

Built from Kronecker products on purpose. Fine for a dozen bodies and a few coordinates;
`empbody.kinematics` and `empbody.dynamics` give the same numbers fast.
"""

from ._coriolis import bias, body_coriolis, coriolis
from ._equations_of_motion import forward_dynamics, inverse_dynamics
from ._first_derivatives import transform_derivatives
from ._gravity import body_gravity, gravity
from ._inertia import pseudo_inertia, pseudo_inertias
from ._joints import (
    joint_hessians,
    joint_jacobian,
    joint_matrices,
    joint_transforms,
    joint_variables,
)
from ._lines_of_action import attachment_sequence
from ._mass_matrix import body_mass_matrix, mass_matrix
from ._moment_arms import betas, gammas, joint_kinds, moment_arms
from ._points import point_acceleration, point_position, point_velocity
from ._projection import Projected, closure_gamma, projection_gradients, projection_hessians
from ._second_derivatives import transform_second_derivatives
from ._transforms import Links, body_transforms, links
from ._weights import first_weight, second_weight

__all__ = [
    "Links",
    "Projected",
    "attachment_sequence",
    "betas",
    "bias",
    "body_coriolis",
    "body_gravity",
    "body_mass_matrix",
    "body_transforms",
    "closure_gamma",
    "coriolis",
    "first_weight",
    "forward_dynamics",
    "gammas",
    "gravity",
    "inverse_dynamics",
    "joint_hessians",
    "joint_jacobian",
    "joint_kinds",
    "joint_matrices",
    "joint_transforms",
    "joint_variables",
    "links",
    "mass_matrix",
    "moment_arms",
    "point_acceleration",
    "point_position",
    "point_velocity",
    "projection_gradients",
    "projection_hessians",
    "pseudo_inertia",
    "pseudo_inertias",
    "second_weight",
    "transform_derivatives",
    "transform_second_derivatives",
]
