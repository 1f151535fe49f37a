"""Rhythms: joint variables f(q) as smooth functions of a few coordinates."""

from empbody.rhythms._affine import Affine
from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._compose import Compose
from empbody.rhythms._fourier import Fourier
from empbody.rhythms._fourier_tensor import FourierTensor
from empbody.rhythms._identity import Identity
from empbody.rhythms._implicit import Implicit, LoopStatus
from empbody.rhythms._molecule import Molecule
from empbody.rhythms._named import ANATOMICAL_ANGLES, Named, anatomical_name
from empbody.rhythms._neural import Neural
from empbody.rhythms._one_input import AbstractCurve
from empbody.rhythms._polynomial import Polynomial
from empbody.rhythms._report import FitReport, fit_report
from empbody.rhythms._sampled import PremodelReport, premodel
from empbody.rhythms._simm_spline import SimmSpline
from empbody.rhythms._spline import Spline
from empbody.rhythms._stack import Stack
from empbody.rhythms._tensor_spline import TensorSpline

__all__ = [
    "ANATOMICAL_ANGLES",
    "AbstractCurve",
    "AbstractRhythm",
    "Affine",
    "Compose",
    "FitReport",
    "Fourier",
    "FourierTensor",
    "Identity",
    "Implicit",
    "Jet",
    "LoopStatus",
    "Molecule",
    "Named",
    "Neural",
    "Polynomial",
    "PremodelReport",
    "SimmSpline",
    "Spline",
    "Stack",
    "TensorSpline",
    "anatomical_name",
    "fit_report",
    "premodel",
]
