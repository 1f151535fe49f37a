"""Rhythms and other parameters of a model, fitted to measurements."""

from ._coefficients import Coefficients
from ._families import FAMILIES, make_family
from ._fit import fit_rhythm
from ._frames import frame_weights
from ._measurements import (
    AbstractMeasurement,
    MeasuredLengths,
    MeasuredMomentArms,
    MeasuredMotion,
    MeasuredMuscleTorques,
    MeasuredTorques,
)
from ._parameters import ParameterFit, fit_parameters
from ._population import LeftOut, PopulationFit, fit_population
from ._poses import choose_poses
from ._posterior import Posterior, sample_posterior
from ._prior import Prior
from ._result import Band, FitSummary, RhythmFit
from ._rotations import euler_matrix, geodesic_distance, rotation_vector
from ._stretches import blocks
from ._targets import AbstractTargets, Angles, MarkerPositions, Orientations, Residuals
from ._transforms import (
    TRANSFORMS,
    AbstractTransform,
    Bounded,
    Free,
    Inertia,
    Positive,
    PositiveDefinite,
    UnitVector,
)
from ._validation import Choice, Validation, choose_family, cross_validate

__all__ = [
    "FAMILIES",
    "TRANSFORMS",
    "AbstractMeasurement",
    "AbstractTargets",
    "AbstractTransform",
    "Angles",
    "Band",
    "Bounded",
    "Choice",
    "Coefficients",
    "FitSummary",
    "Free",
    "Inertia",
    "LeftOut",
    "MarkerPositions",
    "MeasuredLengths",
    "MeasuredMomentArms",
    "MeasuredMotion",
    "MeasuredMuscleTorques",
    "MeasuredTorques",
    "Orientations",
    "ParameterFit",
    "PopulationFit",
    "Positive",
    "PositiveDefinite",
    "Posterior",
    "Prior",
    "Residuals",
    "RhythmFit",
    "UnitVector",
    "Validation",
    "blocks",
    "choose_family",
    "choose_poses",
    "cross_validate",
    "euler_matrix",
    "fit_parameters",
    "fit_population",
    "fit_rhythm",
    "frame_weights",
    "geodesic_distance",
    "make_family",
    "rotation_vector",
    "sample_posterior",
]
