"""Muscles in a simulation: what excites them, and their place in the state vector.

The state is (q, q̇), followed by the activations and the fibre states that there are.
"""

import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..model._checks import is_concrete
from ..muscles import HillState, MuscleState
from ..muscles._forces import balanced_state, full_state, hill_muscles, per_unit, without_muscles
from ..paths import lengths_and_arms
from ._loops import failing_softly

_SLACK = 1e-6
"""How far a constant excitation may be out of its range before it counts as a mistake."""


class Drive(eqx.Module):
    """Excitation of all muscles: constant, or a function of time and state."""

    value: Any
    sees_muscles: bool = eqx.field(static=True)
    """Whether the function takes the muscles' state as its fourth argument."""

    def __call__(self, t: Any, q: Array, qd: Array, muscles: HillState) -> Float[Array, " nm"]:
        if not callable(self.value):
            return self.value
        seen = (muscles,) if self.sees_muscles else ()
        return jnp.asarray(self.value(t, q, qd, *seen), dtype=q.dtype)


def as_drive(excitation: Any, model: Model) -> Drive | None:
    """What `simulate` was given, checked; None where muscles take no part."""
    if excitation is None:
        return None
    hill_muscles(model)
    if callable(excitation):
        return Drive(excitation, _takes_four(excitation))
    array = per_unit(model, "excitation", excitation)
    if is_concrete(array):
        numbers = np.asarray(array)
        wrong = np.flatnonzero(~((numbers > -_SLACK) & (numbers < 1.0 + _SLACK)))
        if wrong.size:
            name, number = model.muscle_names[int(wrong[0])], float(numbers[wrong[0]])
            raise ValueError(f"excitation of muscle {name!r} is {number:.6g}: it must be in [0, 1]")
    return Drive(array, False)


def _takes_four(function: Any) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    for count in (3, 4):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 4
    raise ValueError(
        f"excitation takes the arguments {signature}; give a function of (t, q, qd) or of "
        "(t, q, qd, muscles)"
    )


def start_of_muscles(model: Model, state: Any, drive: Drive | None, q: Array, qd: Array) -> Any:
    """State of the muscles at the start; None where they take no part."""
    if drive is None:
        if state is not None:
            raise ValueError(
                "muscle_state is given and no excitation: muscles act only where excited, "
                "excitation=jnp.zeros(model.nm) if need be"
            )
        return None
    if state is None:
        return balanced_state(failing_softly(model), q, qd, None)
    if not isinstance(state, HillState):
        raise ValueError(
            f"muscle_state is a {type(state).__name__}; give a HillState, such as "
            "initial_muscle_state(model, q0, qd0, activation)"
        )
    full = full_state(model, state)
    if hill_muscles(model).activation_dynamics is None:
        return HillState(None, full.fibre)
    if full.activation is None:
        raise ValueError(
            "muscle_state has no activation, which is a state of these muscles: make one with "
            "initial_muscle_state(model, q0, qd0, activation)"
        )
    return full


def as_vector(state: HillState) -> Float[Array, "*samples n"]:
    leaves = jax.tree.leaves(state)
    return jnp.concatenate(leaves, axis=-1) if leaves else jnp.zeros(0)


def as_state(like: HillState, vector: Float[Array, "*samples n"]) -> HillState:
    """Inverse of `as_vector`; `like` tells what there is."""
    _, structure = jax.tree.flatten(like)
    parts = jnp.split(vector, structure.num_leaves, axis=-1) if structure.num_leaves else []
    return jax.tree.unflatten(structure, parts)


def known_range(
    model: Model, drive: Drive | None
) -> tuple[Float[Array, " nq"], Float[Array, " nq"]]:
    """Where the model is known to hold: in the coordinates' ranges and, where muscles pull, in
    those of their moving points and tables."""
    if drive is None:
        return model.lower, model.upper
    low, high = model.paths.known_range()
    return jnp.maximum(model.lower, low), jnp.minimum(model.upper, high)


def muscle_rates(
    model: Model, drive: Drive, t: Any, q: Array, qd: Array, state: HillState
) -> tuple[Float[Array, " nq"], HillState]:
    """Generalised forces R F of the muscles, and the rate of their state."""
    muscles = hill_muscles(model)
    excitation = drive(t, q, qd, state)
    if excitation.shape != (model.nm,):
        raise ValueError(
            f"excitation(t, q, qd) has shape {excitation.shape} for {model.nm} muscles"
        )
    length, arms = lengths_and_arms(without_muscles(model), q)
    speed = -(qd @ arms)
    force = muscles.force(state, length, speed, excitation)
    return arms @ force, muscles.derivative(state, excitation, length, speed)


@eqx.filter_jit
def outputs_along(
    model: Model,
    q: Float[Array, "nt nq"],
    qd: Float[Array, "nt nq"],
    state: HillState,
    excitation: Float[Array, "nt nm"],
) -> MuscleState:
    """Everything about the muscles at every row."""
    soft, muscles = without_muscles(failing_softly(model)), hill_muscles(model)

    def at(q: Array, qd: Array, state: HillState, excitation: Array) -> MuscleState:
        length, arms = lengths_and_arms(soft, q)
        return muscles.outputs(state, length, -(qd @ arms), excitation)

    return jax.vmap(at)(q, qd, state, excitation)
