"""Forces of a model's muscles at an instant: path geometry put to the Hill equations."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics._arguments import coordinates
from ..model import Model
from ..model._checks import is_concrete
from ..paths import lengths_and_arms
from ..paths._report import require_ranges
from ._hill import HillMuscles, HillState, MuscleState

Coordinates = Float[Array, " nq"]
PerUnit = Float[Array, " nm"]


def hill_muscles(model: Model) -> HillMuscles:
    """The model's muscles, or an error that says what is missing."""
    if isinstance(model.muscles, HillMuscles):
        return model.muscles
    if not model.nm:
        raise ValueError("the model has no muscles; give some to Model.build(muscles=[...])")
    names = ", ".join(model.muscle_names[:3]) + (", ..." if model.nm > 3 else "")
    raise ValueError(
        f"the musculotendon units of this model ({names}) are paths without force parameters; "
        "describe them with Muscle"
    )


def without_muscles(model: Model) -> Model:
    """The skeleton and its paths: derivatives to Hill numbers then leave the geometry alone."""
    return eqx.tree_at(lambda m: m.muscles, model, None, is_leaf=lambda x: x is None)


def per_unit(model: Model, what: str, value: Any) -> PerUnit:
    """nm numbers as an array."""
    array = jnp.asarray(value, dtype=float)
    if array.shape == (model.nm,):
        return array
    hint = "; batch with jax.vmap" if array.ndim > 1 and array.shape[-1] == model.nm else ""
    names = ", ".join(model.muscle_names[:8]) + (", ..." if model.nm > 8 else "")
    raise ValueError(f"{what} has shape {array.shape} for {model.nm} muscles ({names}){hint}")


def full_state(model: Model, state: Any) -> HillState:
    """A state with what the muscles need, or an error that says what is missing."""
    muscles = hill_muscles(model)
    elastic = muscles.tendon == "elastic"
    if not isinstance(state, HillState):
        if elastic:
            raise ValueError(
                "the muscles have elastic tendons, so their activations do not determine the "
                "force: give a state, such as initial_muscle_state(model, q, qd, activation)"
            )
        return HillState(per_unit(model, "activation", state))
    activation, fibre = state.activation, state.fibre
    if elastic and fibre is None:
        raise ValueError(
            "the muscles have elastic tendons and the state has no fibre: make one with "
            "initial_muscle_state(model, q, qd, activation)"
        )
    if not elastic and fibre is not None:
        raise ValueError("the muscles have rigid tendons, but the state has a fibre")
    return HillState(
        None if activation is None else per_unit(model, "activation", activation),
        None if fibre is None else per_unit(model, "fibre", fibre),
    )


def _given(
    model: Model, q: Coordinates, qd: Coordinates, state: Any, excitation: Any
) -> tuple[tuple[HillState, PerUnit, PerUnit, PerUnit | None], Float[Array, "nq nm"]]:
    """What the muscles need (state, lengths, lengthening speeds, excitation), and moment arms."""
    q, qd = coordinates(model, q=q, qd=qd)
    full = full_state(model, state)
    drive = None if excitation is None else per_unit(model, "excitation", excitation)
    length, arms = lengths_and_arms(without_muscles(model), q)
    return (full, length, -(qd @ arms), drive), arms


def _require(model: Model, q: Any, **levels: Any) -> None:
    """Raise ValueError where a number that can be looked at is out of its range: a pose, or an
    activation or excitation, which are fractions of what a muscle can do."""
    require_ranges(model, q)
    for what, given in levels.items():
        if given is None or not is_concrete(given):
            continue
        try:
            values = np.asarray(given, dtype=float)
        except (TypeError, ValueError):
            continue  # said where they are read, and so are wrong shapes
        if values.shape != (model.nm,):
            continue
        for name, value in zip(model.muscle_names, values, strict=True):
            if not -_SLACK <= value <= 1.0 + _SLACK:
                raise ValueError(f"{what} of {name!r} is {value:g}; it must be between 0 and 1")


_SLACK = 1e-6
"""By which solvers may pass a bound."""


def _activation(state: Any) -> Any:
    return state.activation if isinstance(state, HillState) else state


def muscle_forces(
    model: Model,
    q: Coordinates,
    qd: Coordinates,
    state: HillState | PerUnit,
    excitation: PerUnit | None = None,
) -> PerUnit:
    """Force of every musculotendon unit on the skeleton (N); pulling is positive.

    **Arguments:**

    - `state`: of the muscles; where tendons are rigid, the activations (nm,) will do.
    - `excitation`: needed only for rigid tendons without activation dynamics, whose state
      holds no activation.

    **Raises:** `ValueError` where q is outside a moving point's range, as `path_lengths` does,
    or an activation or excitation is not between 0 and 1. Under `jit`, `vmap` or `grad`
    nothing is checked.
    """
    _require(model, q, activation=_activation(state), excitation=excitation)
    return _muscle_forces(model, q, qd, state, excitation)


@eqx.filter_jit
def _muscle_forces(
    model: Model, q: Coordinates, qd: Coordinates, state: Any, excitation: Any
) -> PerUnit:
    given, _ = _given(model, q, qd, state, excitation)
    return hill_muscles(model).force(*given)


def muscle_torques(
    model: Model,
    q: Coordinates,
    qd: Coordinates,
    state: HillState | PerUnit,
    excitation: PerUnit | None = None,
) -> Coordinates:
    """R F: generalised forces of the muscles on the coordinates (N m or N).

    Arguments as for `muscle_forces`. Add it to `tau` of `forward_dynamics`.
    """
    _require(model, q, activation=_activation(state), excitation=excitation)
    return _muscle_torques(model, q, qd, state, excitation)


@eqx.filter_jit
def _muscle_torques(
    model: Model, q: Coordinates, qd: Coordinates, state: Any, excitation: Any
) -> Coordinates:
    given, arms = _given(model, q, qd, state, excitation)
    return arms @ hill_muscles(model).force(*given)


def muscle_outputs(
    model: Model,
    q: Coordinates,
    qd: Coordinates,
    state: HillState | PerUnit,
    excitation: PerUnit | None = None,
) -> MuscleState:
    """Lengths, speeds, forces, powers and stiffnesses of fibres and tendons.

    Arguments as for `muscle_forces`; without activation dynamics the excitation is needed.
    """
    _require(model, q, activation=_activation(state), excitation=excitation)
    return _muscle_outputs(model, q, qd, state, excitation)


@eqx.filter_jit
def _muscle_outputs(
    model: Model, q: Coordinates, qd: Coordinates, state: Any, excitation: Any
) -> MuscleState:
    given, _ = _given(model, q, qd, state, excitation)
    return hill_muscles(model).outputs(*given)


def initial_muscle_state(
    model: Model,
    q: Coordinates,
    qd: Coordinates | None = None,
    activation: PerUnit | None = None,
) -> HillState:
    """State in which fibres and tendons balance in a pose, at rest or moving with `qd`.

    The activation is the muscles' minimum one if absent. A unit whose path is too short for
    any tension starts with its shortest fibre and a slack tendon.
    """
    _require(model, q, activation=activation)
    return balanced_state(model, q, qd, activation)


@eqx.filter_jit
def balanced_state(model: Model, q: Coordinates, qd: Any, activation: Any) -> HillState:
    """`initial_muscle_state` whatever the ranges of moving points."""
    (q,) = coordinates(model, q=q)
    muscles = hill_muscles(model)
    level = None if activation is None else per_unit(model, "activation", activation)
    length, arms = lengths_and_arms(without_muscles(model), q)
    speed = None
    if qd is not None:
        (qd,) = coordinates(model, qd=qd)
        speed = -(qd @ arms)
    return muscles.initial_state(length, speed, level)
