"""How well a rhythm meets its data."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm
from empbody.rhythms._samples import Numbers, as_samples


class FitReport(NamedTuple):
    """Residuals of a rhythm against samples, for each joint variable, in its units."""

    rms: Float[Array, " nj"]
    """root of the mean square of f(x) - y"""
    max: Float[Array, " nj"]
    """largest |f(x) - y|"""
    samples: int

    def __str__(self) -> str:
        rows = [f"{self.samples} samples", "joint        rms        max"]
        for j, (rms, worst) in enumerate(zip(self.rms, self.max, strict=True)):
            rows.append(f"{j:5d}  {float(rms):9.3e}  {float(worst):9.3e}")
        return "\n".join(rows)


def fit_report(rhythm: AbstractRhythm, x: Numbers, y: Numbers) -> FitReport:
    """Residual of a rhythm at samples x (n, nq), y (n, nj); one-dimensional: one column.

    A spline goes through its own samples, so give it others than those of the fit.
    """
    xs, ys = as_samples(x, y, n_in=rhythm.n_in)
    nj = xs.shape[1] if rhythm.n_out is None else rhythm.n_out
    if ys.shape[1] != nj:
        raise ValueError(f"{ys.shape[1]} columns of y for {nj} joint variables")
    residual = jax.vmap(rhythm)(jnp.asarray(xs, dtype=float)) - jnp.asarray(ys, dtype=float)
    rms = jnp.sqrt(jnp.mean(residual**2, axis=0))
    return FitReport(rms, jnp.max(jnp.abs(residual), axis=0), len(xs))
