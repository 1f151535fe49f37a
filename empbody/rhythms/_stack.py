"""Different rhythms for different joint variables."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet


class Stack(AbstractRhythm):
    """Several rhythms side by side, each driven by its own choice of the coordinates.

    `parts` holds pairs (rhythm, inputs), with `inputs` the indices of the coordinates that
    drive it. Outputs stand one after another, or, with `order`, joint variable i is entry
    order[i] of that sequence. `n_in` is the number of coordinates of the whole.
    """

    rhythms: tuple[AbstractRhythm, ...]
    inputs: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    order: tuple[int, ...] | None = eqx.field(static=True)
    _n_in: int = eqx.field(static=True)

    def __init__(
        self,
        parts: Sequence[tuple[AbstractRhythm, Sequence[int]]],
        n_in: int,
        order: Sequence[int] | None = None,
    ):
        if not parts:
            raise ValueError("a Stack needs at least one (rhythm, inputs) pair")
        self.rhythms = tuple(rhythm for rhythm, _ in parts)
        self.inputs = tuple(tuple(int(i) for i in inputs) for _, inputs in parts)
        self.order = None if order is None else tuple(int(i) for i in order)
        self._n_in = int(n_in)
        for p, (rhythm, inputs) in enumerate(zip(self.rhythms, self.inputs, strict=True)):
            _check_part(f"part {p} ({type(rhythm).__name__})", rhythm, inputs, self._n_in)
        count = self.n_out
        if self.order is not None and sorted(self.order) != list(range(count)):
            raise ValueError(
                f"order {self.order} has {len(self.order)} entries; each of 0 … {count - 1} once "
                f"is expected for {count} outputs"
            )

    @property
    def n_in(self) -> int:
        return self._n_in

    @property
    def n_out(self) -> int:
        pairs = zip(self.rhythms, self.inputs, strict=True)
        return sum(len(i) if r.n_out is None else r.n_out for r, i in pairs)

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        values = [r(_pick(q, i)) for r, i in zip(self.rhythms, self.inputs, strict=True)]
        return self._arrange(values)

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        self.check_coordinates(q)
        pairs = zip(self.rhythms, self.inputs, strict=True)
        return self._arrange([self._spread(r.jacobian(_pick(q, i)), i) for r, i in pairs])

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        self.check_coordinates(q)
        blocks = []
        for rhythm, inputs in zip(self.rhythms, self.inputs, strict=True):
            once = self._spread(rhythm.hessian(_pick(q, inputs)), inputs)
            blocks.append(self._spread(jnp.swapaxes(once, 1, 2), inputs))
        return self._arrange(blocks)

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        self.check_coordinates(q)
        pairs = list(zip(self.rhythms, self.inputs, strict=True))
        jets = [r.jet(_pick(q, i), _pick(qd, i)) for r, i in pairs]
        slopes = [self._spread(j.jacobian, i) for j, (_, i) in zip(jets, pairs, strict=True)]
        return Jet(
            self._arrange([j.value for j in jets]),
            self._arrange(slopes),
            self._arrange([j.curvature for j in jets]),
        )

    def _arrange(self, blocks: list[Array]) -> Array:
        rows = jnp.concatenate(blocks)
        return rows if self.order is None else jnp.stack([rows[i] for i in self.order])

    def _spread(self, block: Array, inputs: tuple[int, ...]) -> Array:
        """Axis 1 of a part's derivative over all coordinates, zero where it is not driven."""
        zero = jnp.zeros_like(block[:, 0])
        columns = [block[:, inputs.index(c)] if c in inputs else zero for c in range(self._n_in)]
        return jnp.stack(columns, axis=1)


def _pick(q: Float[Array, " nq"], inputs: tuple[int, ...]) -> Float[Array, " n"]:
    return jnp.stack([q[i] for i in inputs])


def _check_part(name: str, rhythm: AbstractRhythm, inputs: tuple[int, ...], n_in: int) -> None:
    if not inputs:
        raise ValueError(f"{name} has no inputs")
    if rhythm.n_in is not None and rhythm.n_in != len(inputs):
        raise ValueError(f"{name} takes {rhythm.n_in} coordinates, {len(inputs)} inputs are given")
    if len(set(inputs)) != len(inputs):
        raise ValueError(f"{name} names a coordinate twice: inputs {inputs}")
    for i in inputs:
        if not 0 <= i < n_in:
            raise ValueError(f"{name}: input {i} of {n_in} coordinates (0 … {n_in - 1})")
