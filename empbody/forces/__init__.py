"""Springs, dampers, torques and external forces that a model can hold."""

from ._body import BodyForce as BodyForce, BodyTorque as BodyTorque, PointSpring as PointSpring
from ._joint import (
    CoordinateForce as CoordinateForce,
    CoordinateSpring as CoordinateSpring,
    JointForce as JointForce,
    JointSpring as JointSpring,
)
