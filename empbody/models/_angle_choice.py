"""Anatomical angles from a fitted rhythm, and from de Groot and Brand what it leaves out."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..rhythms import ANATOMICAL_ANGLES, AbstractRhythm, Jet, Named, anatomical_name
from ._de_groot import REGRESSED, DeGroot

_INPUTS = {"plane": 0, "elevation": 1, "shoulder_rot": 2}
"""Accepted inputs and the coordinates that they are."""


class AngleChoice(AbstractRhythm):
    """Some angles from one rhythm, the others from a second: `rows` says which.

    A row is (0 or 1 for the rhythm, its output, sign); `inputs` are the rhythms' inputs
    among those of the whole.
    """

    rhythms: tuple[AbstractRhythm, ...]
    rows: tuple[tuple[int, int, float], ...] = eqx.field(static=True)
    inputs: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @property
    def n_in(self) -> int:
        return 1 + max(i for inputs in self.inputs for i in inputs)

    @property
    def n_out(self) -> int:
        return len(self.rows)

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        return self._pick([rhythm(x) for rhythm, x in self._each(q)])

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        self.check_coordinates(q)
        return self._pick(self._spread([rhythm.jacobian(x) for rhythm, x in self._each(q)]))

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        self.check_coordinates(q)
        pairs = zip(self._each(q), self._each(qd), strict=True)
        jets = [rhythm.jet(x, xd) for (rhythm, x), (_, xd) in pairs]
        return Jet(
            self._pick([jet.value for jet in jets]),
            self._pick(self._spread([jet.jacobian for jet in jets])),
            self._pick([jet.curvature for jet in jets]),
        )

    def _each(self, q: Array) -> list[tuple[AbstractRhythm, Array]]:
        pairs = zip(self.rhythms, self.inputs, strict=True)
        return [(rhythm, jnp.stack([q[i] for i in inputs])) for rhythm, inputs in pairs]

    def _spread(self, slopes: list[Array]) -> list[Array]:
        """Derivatives to all inputs, zero where a rhythm does not take one."""
        whole = []
        for block, inputs in zip(slopes, self.inputs, strict=True):
            none = jnp.zeros_like(block[:, 0])
            columns = [block[:, inputs.index(i)] if i in inputs else none for i in range(self.n_in)]
            whole.append(jnp.stack(columns, axis=1))
        return whole

    def _pick(self, blocks: list[Array]) -> Array:
        return jnp.stack([sign * blocks[which][row] for which, row, sign in self.rows])


def chosen_angles(named: Named) -> tuple[AbstractRhythm, tuple[int, ...]]:
    """The angles for a `Girdle`, and the model's coordinates that drive them."""
    targets = {}
    for row, name in enumerate(named.targets):
        angle, sign = anatomical_name(name)
        targets[angle] = (0, row, sign)
    _refuse("target", named.targets, lambda name: name in ANATOMICAL_ANGLES, ANATOMICAL_ANGLES)
    _refuse("input", named.inputs, lambda name: name in _INPUTS, tuple(_INPUTS))
    regressed = {angle: (1, row, 1.0) for row, angle in enumerate(REGRESSED)}
    rows = tuple(
        targets.get(angle) or regressed[angle]
        for angle in ANATOMICAL_ANGLES
        if angle in targets or angle in regressed
    )
    own = tuple(_INPUTS[anatomical_name(name)[0]] for name in named.inputs)
    angles = AngleChoice((named, DeGroot()), rows, (own, (0, 1)))
    return angles, tuple(range(angles.n_in))


def _refuse(
    kind: str, names: tuple[str, ...], known: Callable[[str], bool], accepted: tuple[str, ...]
) -> None:
    unknown = [name for name in names if not known(anatomical_name(name)[0])]
    if unknown:
        raise ValueError(
            f"the shoulder takes no {kind} {', '.join(map(repr, unknown))} of a rhythm; it takes "
            f"{', '.join(accepted)}"
        )
