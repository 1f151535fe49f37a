"""What a force element must offer so that a model can hold it."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float


class AbstractForce(eqx.Module):
    """A spring, damper, torque or external force that belongs to a model.

    Concrete elements live in `empbody.forces`; a model only stores them, with names
    already turned into indices by `bind`.
    """

    @abc.abstractmethod
    def bind(self, model: Any) -> "AbstractForce":
        """The same element with its body and joint names checked against `model`."""

    @abc.abstractmethod
    def generalised_force(self, motion: Any, t: Float[Array, ""]) -> Float[Array, " nq"]:
        """Generalised force on the coordinates, given the links' motion, at time t (s)."""

    @abc.abstractmethod
    def potential_energy(self, motion: Any) -> Float[Array, ""]:
        """Stored energy in joules; zero for elements that store none."""
