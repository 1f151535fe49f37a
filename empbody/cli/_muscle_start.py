"""Muscles at the start of a simulation: their state, and how short steps must be."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..io import Table
from ..model import Model, PathSet
from ..muscles import HillMuscles, HillState, initial_muscle_state
from ..paths import path_lengths

_REACH = 3.0
"""Length of the longest stable step of an explicit solver, in time constants."""


def with_rigid_tendons(model: Model) -> Model:
    """The same muscles on tendons that keep their slack length."""
    stiff = dataclasses.replace(model.muscles, tendon="rigid")  # pyright: ignore
    return eqx.tree_at(
        lambda m: m.muscles, model, stiff, is_leaf=lambda x: isinstance(x, HillMuscles)
    )


def state_in(model: Model, table: Table, row: int, q: np.ndarray, qd: np.ndarray) -> HillState:
    """State of the muscles in a row of a file of states; in balance where the file has none."""
    muscles = model.muscles
    assert isinstance(muscles, HillMuscles)
    found = {part: _columns(model, table, row, part) for part in ("activation", "fiber_length")}
    activation, fibre = found["activation"], found["fiber_length"]
    level = None if activation is None else jnp.asarray(activation)
    state = initial_muscle_state(model, jnp.asarray(q), jnp.asarray(qd), level)
    if fibre is not None and state.fibre is not None:
        lengths = jnp.asarray(fibre) / muscles.parameters.optimal_fibre_length
        state = eqx.tree_at(lambda s: s.fibre, state, lengths)
    return state


def _columns(model: Model, table: Table, row: int, part: str) -> np.ndarray | None:
    """A number for every muscle; None unless the file has all of them."""
    places = {label: j for j, label in enumerate(table.labels)}
    names = [(f"/forceset/{name}/{part}", f"{name}.{part}") for name in model.muscle_names]
    chosen = [next((places[n] for n in both if n in places), None) for both in names]
    if any(place is None for place in chosen):
        return None
    values = table.data[row, np.array(chosen, dtype=int)]
    return values if np.all(np.isfinite(values)) else None


def _without_surfaces(model: Model) -> Model:
    """Straight paths, whose lengths compile fast and do for an estimate."""
    layout = dataclasses.replace(model.paths.layout, wraps=())
    paths = dataclasses.replace(model.paths, layout=layout)
    return eqx.tree_at(lambda m: m.paths, model, paths, is_leaf=lambda x: isinstance(x, PathSet))


@eqx.filter_jit
def _relaxation(model: Model, q: jax.Array, level: jax.Array) -> jax.Array:
    muscles = model.muscles
    assert isinstance(muscles, HillMuscles)
    length = path_lengths(model, q)
    state = muscles.initial_state(length, None, level)

    def rate(fibre: jax.Array) -> jax.Array:
        held = HillState(state.activation, fibre)
        found = muscles.derivative(held, level, length, jnp.zeros_like(length))
        assert found.fibre is not None
        return found.fibre

    # Each fibre has its own equation, so that one direction gives all slopes.
    return jnp.abs(jax.jvp(rate, (state.fibre,), (jnp.ones_like(level),))[1])


def steps_per_second(model: Model, q: np.ndarray, level: np.ndarray) -> tuple[float, str]:
    """Steps that an explicit solver needs for a second of fibres on elastic tendons at an
    activation, about; and the muscle that needs them."""
    muscles = model.muscles
    if not isinstance(muscles, HillMuscles) or muscles.tendon == "rigid":
        return 0.0, ""
    given = (jnp.asarray(x, dtype=float) for x in (q, level))
    slopes = np.asarray(_relaxation(_without_surfaces(model), *given))
    if not np.any(np.isfinite(slopes)):
        return 0.0, ""
    worst = int(np.nanargmax(slopes))
    return float(slopes[worst]) / _REACH, model.muscle_names[worst]
