"""Ready-made mechanisms: functions that return a `Model`."""

from ._five_bar import five_bar as five_bar
from ._four_bar import four_bar as four_bar
from ._loops import (
    FiveBarLoop as FiveBarLoop,
    FourBarLoop as FourBarLoop,
    SqueezerLoop as SqueezerLoop,
)
from ._pendulum_chain import pendulum_chain as pendulum_chain
from ._routes import ROUTES as ROUTES
from ._squeezer import squeezer as squeezer
from ._squeezer_data import (
    Q0_MANUSCRIPT as Q0_MANUSCRIPT,
    Q0_TEST_SET as Q0_TEST_SET,
    SqueezerData as SqueezerData,
)
