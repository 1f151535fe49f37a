"""Poses, velocities, accelerations and Jacobians: the fast path."""

from ._joints import (
    joint_hessians as joint_hessians,
    joint_jacobian as joint_jacobian,
    joint_variables as joint_variables,
)
from ._motion import Motion as Motion
from ._points import (
    body_transforms as body_transforms,
    body_velocities as body_velocities,
    on_link as on_link,
    point_acceleration as point_acceleration,
    point_jacobian as point_jacobian,
    point_position as point_position,
    point_velocity as point_velocity,
)
from ._transforms import (
    transform_derivatives as transform_derivatives,
    transform_second_derivatives as transform_second_derivatives,
)
