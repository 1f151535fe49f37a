"""What all curves have in common: rhythms of one coordinate."""

import abc

from jaxtyping import Array, Float

from ._base import AbstractRhythm, Jet


class AbstractCurve(AbstractRhythm):
    """A rhythm of one coordinate, which gives f, f' and f'' together."""

    @property
    def n_in(self) -> int:
        return 1

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        return self._evaluate(q)[0]

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        return self._evaluate(q)[1][:, None]

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        return self._evaluate(q)[2][:, None, None]

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        value, first, second = self._evaluate(q)
        return Jet(value, first[:, None], second * (qd[0] * qd[0]))

    @abc.abstractmethod
    def _evaluate(self, q: Float[Array, " nq"]) -> tuple[Array, Array, Array]:
        """f, f', f'', each (nj,); what the caller drops, XLA drops."""
