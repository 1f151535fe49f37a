"""Environments for learning: pure functions of a state and an action, and a Gymnasium wrapper."""

from ._gymnasium import register as register, to_gymnasium as to_gymnasium
from ._reach import Outcome as Outcome, Reach as Reach, ReachState as ReachState
from ._shoulder import shoulder_reach as shoulder_reach
