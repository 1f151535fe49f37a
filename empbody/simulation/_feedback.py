"""Torques that know the model they act on."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..model import Model


class AbstractFeedback(eqx.Module):
    """`tau` of `simulate` that knows the accelerations as well, or finds both in one go.

    Only for models whose muscles take no part. The torques are left out where nobody asks
    for them.
    """

    @abc.abstractmethod
    def respond(
        self, model: Model, t: Any, q: Float[Array, " nq"], qd: Float[Array, " nq"]
    ) -> tuple[Float[Array, " nq"], Float[Array, " nq"]]:
        """Accelerations of the model under the torques, and the torques (N m or N)."""
