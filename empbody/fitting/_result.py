"""A fitted rhythm with its report."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm
from ._coefficients import Coefficients
from ._prior import Prior


class Band(NamedTuple):
    """Curves of a fit with their uncertainty, in the units of the targets."""

    value: Float[Array, "n nj"]
    lower: Float[Array, "n nj"]
    upper: Float[Array, "n nj"]


class FitSummary(NamedTuple):
    """How a fit went. Residuals are in the targets' units (rad)."""

    family: str
    solver: str
    rows: int
    parameters: int
    effective: float
    """Parameters that the data determine: fewer than there are with a prior or a penalty."""
    rms: Float[np.ndarray, " k"]
    """Root of the mean square residual of each target."""
    rms_all: float
    """The same over all targets and rows."""
    aic: float
    bic: float
    """Akaike's and the Bayesian criterion for independent normal residuals."""
    converged: bool
    steps: int
    seconds: float
    notes: tuple[str, ...]
    smoothness: float
    """Weight of the penalty on curvature, given or chosen."""


class RhythmFit(eqx.Module):
    """A rhythm fitted to data.

    `coefficients` are labelled by `labels`; `covariance` is theirs, from the Gauss-Newton
    Hessian (with a prior: of the posterior). It takes residuals for independent: neighbouring
    frames of one recording are not, so bands of raw recordings are too narrow.
    """

    rhythm: AbstractRhythm
    coefficients: Float[Array, " p"]
    covariance: Float[Array, "p p"] | None
    noise: Float[np.ndarray, " k"]
    """Standard deviation of one measurement about the rhythm."""
    prior: Prior | None
    report: FitSummary
    labels: tuple[str, ...] = eqx.field(static=True)
    input_names: tuple[str, ...] | None = eqx.field(static=True)
    target_names: tuple[str, ...] | None = eqx.field(static=True)
    ranges: tuple[tuple[float, float], ...] = eqx.field(static=True)
    """Least and largest value of each input in the data."""
    _codec: Coefficients
    _dof: float = eqx.field(static=True)

    @property
    def spread(self) -> Float[Array, " p"]:
        """Standard error of every coefficient."""
        if self.covariance is None:
            raise ValueError("a fit to a user's scalar loss has no covariance")
        return jnp.sqrt(jnp.maximum(jnp.diagonal(self.covariance), 0.0))

    def interval(self, level: float = 0.95) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Lower and upper bounds of every coefficient."""
        half = self._quantile(level) * self.spread
        return self.coefficients - half, self.coefficients + half

    def band(
        self, inputs: Float[Array, "n nq"], level: float = 0.95, *, noise: bool = False
    ) -> Band:
        """The curves at inputs (rad) with bounds at a level of confidence, pointwise.

        With `noise`, where a new measurement falls, and not where the curve is.
        """
        if self.covariance is None:
            raise ValueError("a fit to a user's scalar loss has no covariance")
        value, slope = _curves(self._codec, self.coefficients, jnp.asarray(inputs, dtype=float))
        variance = jnp.einsum("njp,pq,njq->nj", slope, self.covariance, slope)
        if noise:
            if len(self.noise) != value.shape[1]:
                raise ValueError("noise is known of residuals, which are not the targets here")
            variance = variance + jnp.asarray(self.noise**2)[None, :]
        half = self._quantile(level) * jnp.sqrt(jnp.maximum(variance, 0.0))
        return Band(value, value - half, value + half)

    def _quantile(self, level: float) -> float:
        if not 0 < level < 1:
            raise ValueError(f"level = {level}; between 0 and 1 is expected")
        return float(scipy.stats.t.ppf(0.5 + level / 2, max(self._dof, 1.0)))

    def __str__(self) -> str:
        r = self.report
        names = self.target_names or tuple(f"f{i}" for i in range(len(r.rms)))
        lines = [
            f"{r.family}: {r.parameters} parameters ({r.effective:.1f} effective), {r.rows} rows, "
            f"{r.solver}, {r.seconds:.2f} s",
            f"root mean square residual {np.degrees(r.rms_all):.3f} deg",
        ]
        if len(names) == len(r.rms):
            lines += [f"  {n}: {np.degrees(x):.3f} deg" for n, x in zip(names, r.rms, strict=True)]
        return "\n".join([*lines, *(f"note: {n}" for n in r.notes)])


@eqx.filter_jit
def _curves(
    codec: Coefficients, c: Float[Array, " p"], inputs: Float[Array, "n nq"]
) -> tuple[Array, Array]:
    def curve(c: Array) -> Array:
        return jax.vmap(codec.rhythm(c))(inputs)

    return curve(c), jax.jacfwd(curve)(c)
