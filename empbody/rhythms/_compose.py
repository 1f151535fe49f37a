"""One rhythm after another."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet


class Compose(AbstractRhythm):
    """f(q) = outer(inner(q)), with derivatives by the chain rule from those of the two.

    For example an affine map of joint angles after a loop closure.
    """

    outer: AbstractRhythm
    inner: AbstractRhythm

    def __init__(self, outer: AbstractRhythm, inner: AbstractRhythm):
        made, taken = inner.n_out, outer.n_in
        if made is not None and taken is not None and made != taken:
            raise ValueError(
                f"inner {type(inner).__name__} gives {made} variables, "
                f"outer {type(outer).__name__} takes {taken}"
            )
        self.outer = outer
        self.inner = inner

    @property
    def n_in(self) -> int | None:
        # A rhythm of any size keeps the size, so the other one decides.
        return self.outer.n_in if self.inner.n_in is None else self.inner.n_in

    @property
    def n_out(self) -> int | None:
        return self.inner.n_out if self.outer.n_out is None else self.outer.n_out

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        return self.outer(self.inner(q))

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        self.check_coordinates(q)
        return self.outer.jacobian(self.inner(q)) @ self.inner.jacobian(q)

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        self.check_coordinates(q)
        middle, slope = self.inner(q), self.inner.jacobian(q)
        bend = jnp.einsum("ikl,ka,lb->iab", self.outer.hessian(middle), slope, slope)
        return bend + jnp.einsum("ik,kab->iab", self.outer.jacobian(middle), self.inner.hessian(q))

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        self.check_coordinates(q)
        inner = self.inner.jet(q, qd)
        outer = self.outer.jet(inner.value, inner.jacobian @ qd)
        return Jet(
            outer.value,
            outer.jacobian @ inner.jacobian,
            outer.curvature + outer.jacobian @ inner.curvature,
        )
