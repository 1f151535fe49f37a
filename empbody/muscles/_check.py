"""What is doubtful about muscles at a pose: numbers that do not fit their paths."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..paths import path_lengths
from ._fibre import fibre_of_projection
from ._forces import hill_muscles
from ._parameters import HillParameters

_WORKS = 0.4, 1.8
"""Fibre lengths, in optimal ones, outside which there is next to no active force."""


def check_muscles(model: Model, q: Float[Array, " nq"]) -> tuple[str, ...]:
    """What is doubtful about the muscles at a pose, a sentence for each: a tendon that is longer
    than the whole path, so that the muscle hangs slack whatever its activation; a fibre that is
    far from its optimal length while the tendon has its slack length, so that it can do next to
    nothing; and numbers that were edited to something impossible. Most often a length is not in
    metres. `check_paths` does the same for the paths.

    **Raises:** `ValueError` for a model without muscles, and where `path_lengths` does.
    """
    parameters = hill_muscles(model).parameters
    try:
        _rebuilt(parameters)
    except ValueError as reason:
        return (str(reason),)
    length = path_lengths(model, jnp.asarray(q, dtype=float))
    tendon = parameters.tendon_slack_length
    along = (length - tendon) / parameters.optimal_fibre_length
    fibre = np.asarray(fibre_of_projection(parameters, along).length)
    found = []
    for k, name in enumerate(parameters.names):
        whole, own = float(length[k]), float(tendon[k])
        if whole <= own:
            found.append(
                f"{name!r} is {whole:.4g} m long here and its tendon alone {own:.4g} m: it hangs "
                "slack and gives no force; are both in metres?"
            )
        elif not _WORKS[0] <= fibre[k] <= _WORKS[1]:
            found.append(
                f"the fibre of {name!r} has {fibre[k]:.3g} times its optimal length here, with "
                f"its tendon at slack length ({whole:.4g} m of path, {own:.4g} m of tendon, "
                f"{float(parameters.optimal_fibre_length[k]):.4g} m of fibre), and next to no "
                "active force; do these lengths belong together?"
            )
    return tuple(found)


def _rebuilt(parameters: HillParameters) -> HillParameters:
    """With all checks again, which edits of single numbers go round."""
    fields = {x.name: getattr(parameters, x.name) for x in dataclasses.fields(parameters)}
    return HillParameters.of(fields.pop("names"), **fields)
