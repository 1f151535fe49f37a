"""Every joint variable is its own coordinate."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet


class Identity(AbstractRhythm):
    """f(q) = q for any number of coordinates: a tree whose joints are all independent."""

    @property
    def n_in(self) -> int | None:
        return None

    @property
    def n_out(self) -> int | None:
        return None

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nq"]:
        self.check_coordinates(q)
        return q

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nq nq"]:
        self.check_coordinates(q)
        return jnp.eye(q.shape[0], dtype=q.dtype)

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nq nq nq"]:
        self.check_coordinates(q)
        return jnp.zeros((q.shape[0],) * 3, dtype=q.dtype)

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        return Jet(self(q), self.jacobian(q), jnp.zeros_like(qd))
