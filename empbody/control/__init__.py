"""Control: models made to follow a motion."""

from ._dae import DAETracking as DAETracking, as_dae as as_dae, track_dae as track_dae
from ._free import Knots as Knots
from ._manuscript import (
    MANUSCRIPT_GAINS as MANUSCRIPT_GAINS,
    RaiseAndLower as RaiseAndLower,
    manuscript_reference as manuscript_reference,
)
from ._optimise import (
    OptimisedTracking as OptimisedTracking,
    optimise_tracking as optimise_tracking,
)
from ._reference import (
    AbstractReference as AbstractReference,
    CurveReference as CurveReference,
    Desired as Desired,
    FunctionReference as FunctionReference,
    as_reference as as_reference,
)
from ._torque import ComputedLoop as ComputedLoop, ComputedTorque as ComputedTorque
from ._track import track as track
from ._tracking import Tracking as Tracking
