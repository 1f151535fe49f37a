"""Joint variables that are affine in the coordinates."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._samples import Numbers, as_samples, least_squares


class Affine(AbstractRhythm):
    """f(q) = matrix q + offset, valid for every q (it continues itself outside its data).

    Regressions of measured shoulder angles on plane and angle of elevation have this form.
    Row i of `matrix` is in units of joint variable i per unit of each coordinate.
    """

    matrix: Float[Array, "nj nq"]
    offset: Float[Array, " nj"]

    def __init__(self, matrix: Numbers, offset: Numbers | None = None):
        self.matrix = jnp.asarray(matrix, dtype=float)
        if self.matrix.ndim != 2:
            raise ValueError(f"matrix must have shape (nj, nq), got {self.matrix.shape}")
        nj = self.matrix.shape[0]
        self.offset = jnp.zeros(nj) if offset is None else jnp.asarray(offset, dtype=float)
        if self.offset.shape != (nj,):
            raise ValueError(f"offset of shape {self.offset.shape} for {nj} rows of matrix")

    @classmethod
    def fit(cls, x: Numbers, y: Numbers) -> "Affine":
        """Least squares through samples x (n, nq), y (n, nj)."""
        xs, ys = as_samples(x, y)
        design = np.column_stack([np.ones(len(xs)), xs])
        solution = least_squares(design, ys, f"an affine map of {xs.shape[1]} coordinates")
        return cls(solution[1:].T, solution[0])

    @property
    def n_in(self) -> int:
        return self.matrix.shape[1]

    @property
    def n_out(self) -> int:
        return self.offset.shape[0]

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        return self.matrix @ q + self.offset

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        self.check_coordinates(q)
        return self.matrix

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        self.check_coordinates(q)
        nj, nq = self.matrix.shape
        return jnp.zeros((nj, nq, nq), dtype=self.matrix.dtype)

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        return Jet(self(q), self.jacobian(q), jnp.zeros_like(self.offset))
