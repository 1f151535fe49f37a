"""The interface of every rhythm: joint variables as a smooth function of the coordinates."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Float


class Jet(NamedTuple):
    """What the equations of motion need of a rhythm at one (q, q̇).

    The second derivative enters the dynamics only along q̇, so the full Hessian is
    never formed here.
    """

    value: Float[Array, " nj"]
    """f(q)"""
    jacobian: Float[Array, "nj nq"]
    """∂f/∂q"""
    curvature: Float[Array, " nj"]
    """f''[q̇, q̇] = q̇ᵀ H_i q̇ for each joint i"""


class AbstractRhythm(eqx.Module):
    """Joint variables f(q), shape (nj,), as a smooth function of coordinates q, shape (nq,).

    A subclass gives `__call__` and the two sizes. The derivatives below are written
    once, by autodiff; a family overrides them where it knows a closed form. All of a
    rhythm's numbers are array leaves, so it can be differentiated, batched and fitted.
    """

    @property
    @abc.abstractmethod
    def n_in(self) -> int | None:
        """Number of coordinates; None means any (the identity)."""

    @property
    @abc.abstractmethod
    def n_out(self) -> int | None:
        """Number of joint variables; None means any (the identity)."""

    @abc.abstractmethod
    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        """Joint variables at q."""

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        """∂f/∂q: row i is ∇f_i."""
        return jax.jacfwd(self.__call__)(q)

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        """H_i for every joint i."""
        return jax.jacfwd(self.jacobian)(q)

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        """Value, Jacobian and second derivative along q̇, with shared work."""

        def velocity(x: Float[Array, " nq"]) -> Float[Array, " nj"]:
            return jax.jvp(self.__call__, (x,), (qd,))[1]

        curvature = jax.jvp(velocity, (q,), (qd,))[1]
        return Jet(self(q), self.jacobian(q), curvature)

    def check_coordinates(self, q: Array) -> None:
        """Raise ValueError, with the counts, when q has not this rhythm's size."""
        name = type(self).__name__
        if q.ndim != 1:
            raise ValueError(
                f"{name} takes one sample of shape (nq,), got {q.shape}; use jax.vmap to batch"
            )
        if self.n_in is not None and q.shape[0] != self.n_in:
            raise ValueError(f"{q.shape[0]} coordinates for a {name} rhythm of {self.n_in}")
