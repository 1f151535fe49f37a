"""Differentiable multibody and musculoskeletal dynamics with coupled joints as a plain ODE.

Angles in radians, SI units. Functions take one sample; batch with `jax.vmap`.
"""

from . import (
    autodiff as autodiff,
    batch as batch,
    calculus as calculus,
    control as control,
    dae as dae,
    environments as environments,
    fitting as fitting,
    forces as forces,
    io as io,
    kronecker as kronecker,
    models as models,
    muscles as muscles,
    paths as paths,
    pipeline as pipeline,
    rhythms as rhythms,
    sharing as sharing,
    signals as signals,
    solvers as solvers,
    viz as viz,
)
from .batch import (
    Batch as Batch,
    load_batch as load_batch,
    map_batch as map_batch,
    simulate_batch as simulate_batch,
    stack_models as stack_models,
    unstack_models as unstack_models,
)
from .control import (
    OptimisedTracking as OptimisedTracking,
    Tracking as Tracking,
    optimise_tracking as optimise_tracking,
    track as track,
)
from .dynamics import (
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
from .fitting import (
    Prior as Prior,
    fit_parameters as fit_parameters,
    fit_population as fit_population,
    fit_rhythm as fit_rhythm,
)
from .io import (
    Markers as Markers,
    Motion as Motion,
    load as load,
    load_rhythm as load_rhythm,
    read_markers as read_markers,
    read_motion as read_motion,
    save as save,
    save_rhythm as save_rhythm,
    write_markers as write_markers,
    write_motion as write_motion,
)
from .kinematics import (
    body_transforms as body_transforms,
    body_velocities as body_velocities,
    joint_hessians as joint_hessians,
    joint_jacobian as joint_jacobian,
    joint_variables as joint_variables,
    point_acceleration as point_acceleration,
    point_jacobian as point_jacobian,
    point_position as point_position,
    point_velocity as point_velocity,
    transform_derivatives as transform_derivatives,
    transform_second_derivatives as transform_second_derivatives,
)
from .model import (
    Ball as Ball,
    Body as Body,
    ConditionalPoint as ConditionalPoint,
    Cylindrical as Cylindrical,
    Free as Free,
    Marker as Marker,
    Model as Model,
    MovingPoint as MovingPoint,
    Path as Path,
    PathPoint as PathPoint,
    Planar as Planar,
    Prismatic as Prismatic,
    Revolute as Revolute,
    Universal as Universal,
    Weld as Weld,
    Wrap as Wrap,
    WrapCylinder as WrapCylinder,
    WrapEllipsoid as WrapEllipsoid,
    WrapSphere as WrapSphere,
    WrapTorus as WrapTorus,
)
from .muscles import (
    HillState as HillState,
    Muscle as Muscle,
    MuscleState as MuscleState,
    check_muscles as check_muscles,
    initial_muscle_state as initial_muscle_state,
    muscle_forces as muscle_forces,
    muscle_outputs as muscle_outputs,
    muscle_torques as muscle_torques,
)
from .paths import (
    check_paths as check_paths,
    lengthening_speeds as lengthening_speeds,
    moment_arms as moment_arms,
    path_lengths as path_lengths,
    path_polylines as path_polylines,
    tabulate_paths as tabulate_paths,
)
from .pipeline import (
    InverseKinematics as InverseKinematics,
    MotionDynamics as MotionDynamics,
    inverse_dynamics_along as inverse_dynamics_along,
    inverse_kinematics as inverse_kinematics,
)
from .sharing import (
    Sharing as Sharing,
    TrajectorySharing as TrajectorySharing,
    share_forces as share_forces,
    share_trajectory as share_trajectory,
)
from .simulation import (
    CoordinateLimit as CoordinateLimit,
    SimulationError as SimulationError,
    Solution as Solution,
    failing_softly as failing_softly,
    simulate as simulate,
)

__version__: str
