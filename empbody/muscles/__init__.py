"""Hill-type muscles: curves, activation, fibre and tendon."""

from ._activation import (
    AbstractActivation as AbstractActivation,
    SmoothActivation as SmoothActivation,
    SwitchedActivation as SwitchedActivation,
)
from ._check import check_muscles as check_muscles
from ._curves import AbstractCurves as AbstractCurves
from ._de_groote_fregly import DeGrooteFregly as DeGrooteFregly
from ._fibre import Equilibrium as Equilibrium, equilibrium as equilibrium
from ._forces import (
    initial_muscle_state as initial_muscle_state,
    muscle_forces as muscle_forces,
    muscle_outputs as muscle_outputs,
    muscle_torques as muscle_torques,
)
from ._hill import (
    HillMuscles as HillMuscles,
    HillState as HillState,
    MuscleState as MuscleState,
)
from ._millard import Millard as Millard
from ._mixed import MixedCurves as MixedCurves
from ._mixed_activation import MixedActivation as MixedActivation
from ._muscle import Muscle as Muscle
from ._parameters import HillParameters as HillParameters
from ._tabulated import Tabulated as Tabulated
from ._thelen import Thelen as Thelen
from ._zajac import ZajacActivation as ZajacActivation
