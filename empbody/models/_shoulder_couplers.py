"""The rhythm of Holzbaur et al. (2005): splines of one coordinate each."""

from collections.abc import Sequence

import numpy as np

from ..rhythms import AbstractRhythm, Affine, Identity, SimmSpline, Stack
from ._shoulder_figures import COORDINATES, figures


def couplers(variables: Sequence[str]) -> Stack:
    """Joint variables by name: coordinates themselves, splines of one, or zero.

    The published rhythm turns clavicle and scapula with elevation alone; the clavicle's
    axial rotation is not in it and stays zero.
    """
    given = figures()["couplers"]
    parts: list[tuple[AbstractRhythm, tuple[int, ...]]] = []
    outputs: list[str] = []
    for i, name in enumerate(COORDINATES):
        parts.append((Identity(), (i,)))
        outputs.append(name)
    together: dict[tuple[str, tuple[float, ...]], dict[str, list[float]]] = {}
    still = [name for name in variables if name not in COORDINATES and name not in given]
    for name in variables:
        if name not in COORDINATES and name not in still:
            driver, x, y = given[name]
            together.setdefault((driver, tuple(x)), {})[name] = y
    for (driver, x), columns in together.items():
        values = np.column_stack(list(columns.values()))
        parts.append((SimmSpline(x, values), (COORDINATES.index(driver),)))
        outputs += columns
    if still:
        parts.append((Affine(np.zeros((len(still), 1))), (0,)))
        outputs += still
    order = [outputs.index(name) for name in variables]
    return Stack(parts, n_in=len(COORDINATES), order=order)
