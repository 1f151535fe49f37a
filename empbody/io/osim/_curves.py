"""Piecewise polynomials with pieces of their own outside the first and the last knot."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...rhythms import AbstractCurve


class PiecewisePolynomial(AbstractCurve):
    """nj joint variables of one coordinate, a polynomial between knots and beyond them.

    Piece 0 holds left of the first knot and piece n from the last knot on; piece k is
    Σ_p pieces[k, p] u^p with u = q minus the knot at its left (the first knot for piece 0).
    Covers what files tabulate: broken lines, steps, natural splines of any degree.
    """

    breaks: Float[Array, " nbreaks"]
    pieces: Float[Array, "npieces nterms nj"]

    def __init__(self, breaks: np.ndarray | Array, pieces: np.ndarray | Array):
        self.breaks = jnp.asarray(breaks, dtype=float)
        self.pieces = jnp.asarray(pieces, dtype=float)
        if self.pieces.ndim != 3 or len(self.pieces) != len(self.breaks) + 1:
            raise ValueError(
                f"pieces of shape {self.pieces.shape} for {len(self.breaks)} knots; "
                f"({len(self.breaks) + 1}, terms, outputs) is expected"
            )

    @property
    def n_out(self) -> int:
        return self.pieces.shape[-1]

    def _evaluate(self, q: Float[Array, " nq"]) -> tuple[Array, Array, Array]:
        """f, f', f'', each (nj,), by Horner's rule on the piece that holds q."""
        self.check_coordinates(q)
        t = q[0]
        at = jnp.searchsorted(self.breaks, t, side="right", method="scan_unrolled")
        u = t - self.breaks[jnp.maximum(at - 1, 0)]
        piece = self.pieces[at]
        value = piece[-1]
        first = second = jnp.zeros_like(value)
        for p in range(piece.shape[0] - 2, -1, -1):
            second = second * u + 2.0 * first
            first = first * u + value
            value = value * u + piece[p]
        return value, first, second
