"""From measured motion to poses, moments and muscle forces: whole trials at a time."""

from ._blocks import in_blocks as in_blocks
from ._coordinates import (
    moment_labels as moment_labels,
    rotational as rotational,
    turning as turning,
)
from ._inverse_dynamics import (
    MotionDynamics as MotionDynamics,
    inverse_dynamics_along as inverse_dynamics_along,
    smooth_motion as smooth_motion,
)
from ._inverse_kinematics import (
    InverseKinematics as InverseKinematics,
    inverse_kinematics as inverse_kinematics,
)
from ._markers import (
    MarkerSet as MarkerSet,
    marker_positions as marker_positions,
    model_markers as model_markers,
)
