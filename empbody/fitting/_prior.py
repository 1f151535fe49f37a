"""What is known of a rhythm's coefficients before a subject is measured."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm
from ._coefficients import Coefficients


class Prior(eqx.Module):
    """Coefficients are normal about those of `rhythm`; targets scatter by `noise` about it.

    The noise (units of the targets) holds what measurement and family leave unexplained in
    one pose: it says how far one measurement is to be trusted against the prior.
    """

    rhythm: AbstractRhythm
    covariance: Float[Array, "p p"]
    noise: Float[Array, " k"]

    def __init__(self, rhythm: AbstractRhythm, covariance: Any, noise: Any):
        size = Coefficients(rhythm).size
        self.rhythm = rhythm
        self.covariance = jnp.asarray(covariance, dtype=float)
        self.noise = jnp.atleast_1d(jnp.asarray(noise, dtype=float))
        if self.covariance.shape != (size, size):
            raise ValueError(f"covariance of shape {self.covariance.shape} for {size} coefficients")
        if not (bool(jnp.isfinite(self.covariance).all()) and bool((self.noise > 0).all())):
            raise ValueError("a prior needs a finite covariance and noise above 0")

    @classmethod
    def around(cls, rhythm: AbstractRhythm, spread: Any, noise: Any) -> "Prior":
        """Independent coefficients about those of a known rhythm, such as de Groot's, with
        standard deviation `spread` (one number, or one for each coefficient)."""
        size = Coefficients(rhythm).size
        deviations = np.broadcast_to(np.asarray(spread, dtype=float), (size,))
        if not (deviations >= 0).all():
            raise ValueError("spread must be at least 0")
        noise = np.broadcast_to(np.asarray(noise, dtype=float), (rhythm.n_out or 1,))
        return cls(rhythm, np.diag(deviations**2), noise)

    @property
    def mean(self) -> Float[Array, " p"]:
        return Coefficients(self.rhythm).vector()

    @property
    def spread(self) -> Float[Array, " p"]:
        """Standard deviation of every coefficient."""
        return jnp.sqrt(jnp.maximum(jnp.diagonal(self.covariance), 0.0))

    def factor(self) -> Float[np.ndarray, "p r"]:
        """L with L Lᵀ = covariance, without directions that do not vary."""
        matrix = np.asarray(self.covariance, dtype=np.float64)
        scale = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
        unit = np.where(scale > 0, scale, 1.0)
        values, vectors = np.linalg.eigh(matrix / np.outer(unit, unit))
        if values.size and values.min() < -1e-6 * max(values.max(), 1e-300):
            raise ValueError("the covariance of this prior is not positive semi-definite")
        kept = values > 1e-13 * values.max(initial=0.0)
        return unit[:, None] * vectors[:, kept] * np.sqrt(values[kept])[None, :]
