"""Outcomes of force sharing, as codes that survive jit and vmap."""

from typing import Any

import equinox as eqx
import numpy as np


class SharingStatus(eqx.Enumeration):
    """Outcome of one sample; each item carries its meaning in words."""

    balanced = "muscles, with reserves if there are any, give the torques asked for"
    needs_reserves = "the torques are given, but muscles alone could not give them"
    infeasible = (
        "no activations within bounds give the torques asked for; the residual is the smallest "
        "reserve that would"
    )
    unsolved = "the solver ran out of steps; the residual says what is missing"
    bad_input = (
        "an input is NaN or infinite, a weight is not positive, a capacity or reserve is "
        "negative, or a lower bound lies above its upper bound"
    )


_NAMES = ("balanced", "needs_reserves", "infeasible", "unsolved", "bad_input")


def outcomes(status: Any) -> dict[str, int]:
    """How many samples of a batch came out how; outcomes that did not occur are left out."""
    found = {name: int(np.sum(status == getattr(SharingStatus, name))) for name in _NAMES}
    return {name: count for name, count in found.items() if count}
