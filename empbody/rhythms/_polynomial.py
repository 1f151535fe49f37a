"""Joint variables that are polynomials in several coordinates."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet
from empbody.rhythms._samples import Numbers, as_samples, least_squares


class Polynomial(AbstractRhythm):
    """f_i(q) = Σ_t coefficients[i, t] Π_a x_a^exponents[t][a], with x = (q - centre) / scale.

    Each entry of `exponents` (static) is one monomial. Centre and scale (units of q) bring
    the data to about [-1, 1], which keeps the coefficients of high powers well conditioned.
    Outside its data the polynomial continues itself; it grows fast there.
    """

    coefficients: Float[Array, "nj nterms"]
    centre: Float[Array, " nq"]
    scale: Float[Array, " nq"]
    exponents: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(
        self,
        exponents: Sequence[Sequence[int]],
        coefficients: Numbers,
        centre: Numbers | None = None,
        scale: Numbers | None = None,
    ):
        self.exponents = _checked_exponents(exponents)
        self.coefficients = jnp.asarray(coefficients, dtype=float)
        nterms, nq = len(self.exponents), len(self.exponents[0])
        if self.coefficients.ndim != 2 or self.coefficients.shape[1] != nterms:
            raise ValueError(
                f"coefficients of shape {self.coefficients.shape} for {nterms} exponents; "
                f"(nj, {nterms}) is expected"
            )
        self.centre = jnp.zeros(nq) if centre is None else jnp.asarray(centre, dtype=float)
        self.scale = jnp.ones(nq) if scale is None else jnp.asarray(scale, dtype=float)
        for name, array in (("centre", self.centre), ("scale", self.scale)):
            if array.shape != (nq,):
                raise ValueError(f"{name} of shape {array.shape} for {nq} coordinates")

    @classmethod
    def total_degree(
        cls,
        n_in: int,
        degree: int,
        coefficients: Numbers | None = None,
        *,
        n_out: int = 1,
        centre: Numbers | None = None,
        scale: Numbers | None = None,
    ) -> "Polynomial":
        """All monomials up to a total degree, the constant first, then degree by degree.

        Without coefficients, `n_out` joint variables that are zero, to be fitted.
        """
        exponents = total_degree_exponents(n_in, degree)
        if coefficients is None:
            coefficients = jnp.zeros((n_out, len(exponents)))
        return cls(exponents, coefficients, centre, scale)

    @classmethod
    def fit(cls, x: Numbers, y: Numbers, degree: int) -> "Polynomial":
        """Least squares of total degree `degree` through samples x (n, nq), y (n, nj)."""
        xs, ys = as_samples(x, y)
        low, high = xs.min(axis=0), xs.max(axis=0)
        centre = (low + high) / 2
        scale = np.where(high > low, (high - low) / 2, 1.0)
        exponents = total_degree_exponents(xs.shape[1], degree)
        powers = ((xs - centre) / scale)[:, None, :] ** np.asarray(exponents)
        what = f"a polynomial of degree {degree} in {xs.shape[1]} coordinates"
        solution = least_squares(powers.prod(axis=2), ys, what)
        return cls(exponents, solution.T, centre, scale)

    @property
    def n_in(self) -> int:
        return len(self.exponents[0])

    @property
    def n_out(self) -> int:
        return self.coefficients.shape[0]

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        factors = self._factors(q)
        return self.coefficients @ _product([f.value for f in factors])

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        return self.coefficients @ jnp.stack(_gradient(self._factors(q)), axis=1)

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        factors = self._factors(q)
        rows = []
        for a in range(self.n_in):
            row = []
            for b in range(self.n_in):
                parts = [f.value for f in factors]
                if a == b:
                    parts[a] = factors[a].second
                else:
                    parts[a], parts[b] = factors[a].first, factors[b].first
                row.append(_product(parts))
            rows.append(jnp.stack(row, axis=-1))
        return jnp.einsum("it,tab->iab", self.coefficients, jnp.stack(rows, axis=1))

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        factors = self._factors(q)
        # Second-order Taylor arithmetic along q̇ over the product of the factors.
        value, first, second = factors[0].along(qd[0])
        for a in range(1, self.n_in):
            v, d, dd = factors[a].along(qd[a])
            second = value * dd + 2 * first * d + second * v
            first = value * d + first * v
            value = value * v
        columns = jnp.stack([value, *_gradient(factors), second], axis=1)
        out = self.coefficients @ columns  # one product for all: (nj, 1 + nq + 1)
        f, slope, bend = jax.lax.split(out, (1, self.n_in, 1), axis=1)
        return Jet(f[:, 0], slope, bend[:, 0])

    def _factors(self, q: Float[Array, " nq"]) -> list["_Factor"]:
        """For each coordinate, its power in every term with two derivatives, to q."""
        self.check_coordinates(q)
        x = (q - self.centre) / self.scale
        exponents = np.asarray(self.exponents)
        return [_factor(x[a], exponents[:, a], self.scale[a]) for a in range(self.n_in)]


class _Factor(NamedTuple):
    """x_a^e over all terms, and its derivatives with respect to q_a."""

    value: Float[Array, " nterms"]
    first: Float[Array, " nterms"]
    second: Float[Array, " nterms"]

    def along(self, v: Float[Array, ""]) -> tuple[Array, Array, Array]:
        return self.value, self.first * v, self.second * (v * v)


def _factor(x: Float[Array, ""], e: np.ndarray, scale: Float[Array, ""]) -> _Factor:
    once = jnp.asarray(e, dtype=x.dtype) / scale
    twice = jnp.asarray(e * (e - 1), dtype=x.dtype) / (scale * scale)
    return _Factor(_raised(x, e), once * _raised(x, e - 1), twice * _raised(x, e - 2))


def _raised(x: Float[Array, ""], e: np.ndarray) -> Float[Array, " nterms"]:
    """x^e for all terms by masked multiplication, which fuses with what is around it; gathers
    from a table of powers do not, still less their transposes. Negative exponents count as
    zero, and x^0 has derivative zero at x = 0, never 0 * inf."""
    out = jnp.ones_like(x, shape=e.shape)
    for k in range(int(e.max())):
        out = jnp.where(e > k, out * x, out)
    return out


def _gradient(factors: list[_Factor]) -> list[Float[Array, " nterms"]]:
    columns = []
    for a, factor in enumerate(factors):
        others = [f.value for b, f in enumerate(factors) if b != a]
        columns.append(_product([factor.first, *others]))
    return columns


def _product(parts: list[Float[Array, " nterms"]]) -> Float[Array, " nterms"]:
    out = parts[0]
    for part in parts[1:]:
        out = out * part
    return out


def total_degree_exponents(n_in: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Exponents of all monomials in `n_in` variables up to a total degree, graded."""
    if n_in < 1 or degree < 0:
        raise ValueError(f"n_in = {n_in} and degree = {degree}; at least 1 and 0 are expected")
    every = itertools.product(range(degree, -1, -1), repeat=n_in)
    return tuple(sorted((e for e in every if sum(e) <= degree), key=sum))


def _checked_exponents(exponents: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    table = tuple(tuple(int(e) for e in term) for term in exponents)
    if not table or not table[0]:
        raise ValueError("exponents must name at least one term in at least one coordinate")
    for t, term in enumerate(table):
        if len(term) != len(table[0]):
            raise ValueError(
                f"term {t} has {len(term)} exponents, term 0 has {len(table[0])}: "
                "one per coordinate is expected"
            )
        if min(term) < 0:
            raise ValueError(f"term {t} = {term} has a negative exponent")
    if len(set(table)) != len(table):
        twice = next(term for i, term in enumerate(table) if term in table[:i])
        raise ValueError(f"the term {twice} occurs twice in exponents")
    return table
