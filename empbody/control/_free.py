"""What an optimiser may vary to make a model follow a reference, and the simulation it gives."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..dynamics import inverse_dynamics
from ..model import Model
from ..muscles._forces import hill_muscles
from ..simulation import Solution, simulate
from ._reference import AbstractReference, Desired
from ._torque import ComputedTorque

_LEAST = 1e-4


class Knots(eqx.Module):
    """Values at times, straight lines between; a torque or excitation for `eb.simulate`."""

    times: Float[Array, " nk"]
    values: Float[Array, "nk n"]

    def __call__(self, t: Any, q: Any = None, qd: Any = None) -> Float[Array, " n"]:
        return jax.vmap(lambda column: jnp.interp(t, self.times, column), 1)(self.values)


class AbstractFree(eqx.Module):
    """Plain numbers z of order 1 for the optimiser, and what they stand for."""

    @abc.abstractmethod
    def values(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """In the user's units."""

    @abc.abstractmethod
    def numbers(self, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Inverse of `values`."""

    @abc.abstractmethod
    def run(
        self, z: Array, reference: AbstractReference, start: Any, ts: Array, options: dict[str, Any]
    ) -> Solution:
        """The motion that they give."""

    @abc.abstractmethod
    def effort(self, z: Array) -> Float[Array, ""]:
        """Mean square of what is spent, over its unit."""


class FreeGains(AbstractFree):
    """K of computed torque (1/s), positive."""

    model: Model
    plant: Model

    def values(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.exp(z)

    def numbers(self, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.log(values)

    def run(
        self, z: Array, reference: AbstractReference, start: Any, ts: Array, options: dict[str, Any]
    ) -> Solution:
        law = ComputedTorque(self.model, reference, self.values(z))
        return simulate(self.plant, start[0], start[1], ts, tau=law, **options)

    def effort(self, z: Array) -> Float[Array, ""]:
        return jnp.mean(self.values(z) ** 2)


class FreeTorques(AbstractFree):
    """Generalised forces at knots (N m or N)."""

    plant: Model
    knots: Float[Array, " nk"]
    unit: Float[Array, " nq"]

    def values(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return z * self.unit[None]

    def numbers(self, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return values / self.unit[None]

    def run(
        self, z: Array, reference: AbstractReference, start: Any, ts: Array, options: dict[str, Any]
    ) -> Solution:
        drive = Knots(self.knots, z * self.unit[None])
        return simulate(self.plant, start[0], start[1], ts, tau=drive, **options)

    def effort(self, z: Array) -> Float[Array, ""]:
        return jnp.mean(z**2)


class FreeExcitations(AbstractFree):
    """Excitations of the muscles at knots, between 0 and 1."""

    plant: Model
    knots: Float[Array, " nk"]

    def values(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jax.nn.sigmoid(z)

    def numbers(self, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        inside = jnp.clip(values, _LEAST, 1.0 - _LEAST)
        return jnp.log(inside) - jnp.log1p(-inside)

    def run(
        self, z: Array, reference: AbstractReference, start: Any, ts: Array, options: dict[str, Any]
    ) -> Solution:
        drive = Knots(self.knots, self.values(z))
        return simulate(self.plant, start[0], start[1], ts, excitation=drive, **options)

    def effort(self, z: Array) -> Float[Array, ""]:
        return jnp.mean(self.values(z) ** 2)


def as_free(
    free: str,
    model: Model,
    plant: Model,
    knots: Float[Array, " nk"],
    desired: Desired,
) -> tuple[AbstractFree, Float[Array, "..."]]:
    """What is free, and where its values begin if nobody says."""
    if free == "gains":
        return FreeGains(model, plant), jnp.full(model.nq, 10.0)
    if free == "torques":
        need = jax.jit(jax.vmap(lambda q, v, a: inverse_dynamics(model, q, v, a)))(*desired)
        unit = jnp.maximum(jnp.max(jnp.abs(need), axis=0), 1e-3 * (1.0 + jnp.max(jnp.abs(need))))
        return FreeTorques(plant, knots, unit), need
    if free == "excitations":
        hill_muscles(plant)
        return FreeExcitations(plant, knots), jnp.full((knots.shape[0], plant.nm), 0.1)
    raise ValueError(f"free is {free!r}; choose 'gains', 'torques' or 'excitations'")
