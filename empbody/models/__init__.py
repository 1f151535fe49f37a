"""Ready-made mechanisms: functions that return a `Model`."""

from ._de_groot import REGRESSED as REGRESSED, DeGroot as DeGroot
from ._five_bar import five_bar as five_bar
from ._four_bar import four_bar as four_bar
from ._loops import (
    FiveBarLoop as FiveBarLoop,
    FourBarLoop as FourBarLoop,
    SqueezerLoop as SqueezerLoop,
)
from ._opensim_moment_arms import (
    LEADERS as LEADERS,
    MOMENT_ARMS_ABOUT as MOMENT_ARMS_ABOUT,
    opensim_moment_arms as opensim_moment_arms,
    sweep_moment_arms as sweep_moment_arms,
)
from ._pendulum_chain import pendulum_chain as pendulum_chain
from ._routes import ROUTES as ROUTES
from ._shoulder import shoulder as shoulder
from ._shoulder_angles import shoulder_angles as shoulder_angles
from ._shoulder_comparison import (
    RhythmDifference as RhythmDifference,
    rhythm_difference as rhythm_difference,
)
from ._squeezer import squeezer as squeezer
from ._squeezer_data import (
    Q0_MANUSCRIPT as Q0_MANUSCRIPT,
    Q0_TEST_SET as Q0_TEST_SET,
    SqueezerData as SqueezerData,
)
from ._synthetic_population import (
    SyntheticPopulation as SyntheticPopulation,
    synthetic_population as synthetic_population,
)
