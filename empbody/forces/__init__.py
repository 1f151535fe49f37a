"""Springs, dampers, torques and external forces that a model can hold."""

from ._body import BodyForce as BodyForce, BodyTorque as BodyTorque, PointSpring as PointSpring
from ._bushing import Bushing as Bushing
from ._joint import (
    CoordinateForce as CoordinateForce,
    CoordinateSpring as CoordinateSpring,
    JointForce as JointForce,
    JointSpring as JointSpring,
)
from ._stops import SoftStops as SoftStops, VariableSprings as VariableSprings
