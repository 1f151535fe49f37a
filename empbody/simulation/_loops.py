"""Loop closures within a model's rhythm: how they fail, and how well they close."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..rhythms import AbstractRhythm, Compose, Implicit, LoopStatus, Molecule, Stack

Inputs = tuple[int, ...] | None
"""Which of the model's coordinates drive a rhythm; None if other variables do."""


def _is_implicit(x: object) -> bool:
    return isinstance(x, Implicit)


def failing_softly(model: Model) -> Model:
    """The same model with implicit rhythms that give NaN instead of raising.

    An adaptive solver then rejects a trial step that goes beyond a fold and tries a
    shorter one.
    """

    def soften(x: object) -> object:
        if not isinstance(x, Implicit) or x.on_failure == "nan":
            return x
        names = [name for name in x.__dataclass_fields__ if name != "on_failure"]
        return Implicit(**{name: getattr(x, name) for name in names}, on_failure="nan")

    # with_rhythm would check the sizes again: they are the same
    rhythm = jax.tree.map(soften, model.rhythm, is_leaf=_is_implicit)
    return eqx.tree_at(lambda m: m.rhythm, model, rhythm)


def loops(
    rhythm: AbstractRhythm, q: Float[Array, " nq"], inputs: Inputs
) -> Iterator[tuple[Implicit, Float[Array, " n"], Inputs]]:
    """Every implicit rhythm in a rhythm, with the variables that drive it at q."""
    if isinstance(rhythm, Implicit):
        yield rhythm, q, inputs
    elif isinstance(rhythm, Stack):
        for part, picked in zip(rhythm.rhythms, rhythm.inputs, strict=True):
            chosen = None if inputs is None else tuple(inputs[i] for i in picked)
            yield from loops(part, q[jnp.asarray(picked)], chosen)
    elif isinstance(rhythm, Compose):
        yield from loops(rhythm.inner, q, inputs)
        if any(map(_is_implicit, jax.tree.leaves(rhythm.outer, is_leaf=_is_implicit))):
            yield from loops(rhythm.outer, rhythm.inner(q), None)
    elif isinstance(rhythm, Molecule):
        yield from loops(rhythm.rhythm, q, inputs)


def closure_error(model: Model, q: Float[Array, " nq"]) -> Float[Array, ""]:
    """Largest |g(q, f)| over all loops, in the residuals' units; NaN without loops,
    as for rhythms that were fitted to a loop and no longer know its equations."""
    worst = -jnp.inf * jnp.ones_like(q[0])
    for loop, driven, _ in loops(failing_softly(model).rhythm, q, None):
        worst = jnp.maximum(worst, jnp.max(jnp.abs(loop.residual(driven, loop(driven)))))
    return jnp.where(jnp.isneginf(worst), jnp.nan, worst)


def why_open(model: Model, q: np.ndarray) -> str | None:
    """Why a loop does not close at q, in words; None if all close or there are none."""
    soft = failing_softly(model).rhythm
    numbers = jnp.asarray(q, dtype=float)
    for loop, driven, inputs in loops(soft, numbers, tuple(range(model.nq))):
        status = loop.status(driven)
        if bool(status == LoopStatus.out_of_range) and inputs is not None:
            return _range_sentence(model, loop, np.asarray(driven), inputs)
        if bool(status != LoopStatus.ok):
            return LoopStatus[status]
    return None


def _range_sentence(model: Model, loop: Implicit, driven: np.ndarray, inputs: Inputs) -> str:
    lower, upper = np.asarray(loop.lower), np.asarray(loop.upper)
    for k, index in enumerate(inputs or ()):
        if not loop.periodic[k] and not lower[k] <= driven[k] <= upper[k]:
            name = model.coordinate_names[index]
            return (
                f"the implicit rhythm closes for {name!r} from {lower[k]:.6g} to {upper[k]:.6g} "
                f"only, {name!r} is {driven[k]:.6g}"
            )
    return LoopStatus[LoopStatus.out_of_range]
