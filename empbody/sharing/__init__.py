"""Muscle force sharing: which activations give a torque at least cost."""

from ._descent import share_by_descent as share_by_descent
from ._model import (
    capacities as capacities,
    share_forces as share_forces,
    share_frames as share_frames,
)
from ._share import Sharing as Sharing, share as share
from ._status import SharingStatus as SharingStatus, outcomes as outcomes
from ._trajectory import (
    TrajectorySharing as TrajectorySharing,
    share_trajectory as share_trajectory,
)
