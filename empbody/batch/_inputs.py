"""Checks of what a batch is given, and which of it differs between runs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..model import Model
from ..model._checks import is_concrete
from ..muscles import HillState
from ..simulation import _inputs as single
from ..simulation._feedback import AbstractFeedback
from ..simulation._muscles import as_drive
from ._runs import Run
from ._stack import stack_size, take, varying_leaves


def as_runs(
    model: Model,
    model_axes: Any,
    q0: Any,
    qd0: Any,
    ts: Any,
    tau: Any,
    excitation: Any,
    muscle_state: Any,
    parameters: Any,
) -> tuple[Run, Run, int]:
    """All runs, which arrays of them have a leading axis of runs, and how many runs there are."""
    if not is_concrete((model, q0, qd0, ts, tau, excitation, muscle_state, parameters)):
        raise ValueError(
            "simulate_batch cannot be traced (under jit, vmap or grad): use jax.vmap of simulate"
        )
    own_model = varying_leaves(model, model_axes)
    counts: dict[str, int] = {}
    for leaf, own in zip(jax.tree.leaves(model), jax.tree.leaves(own_model), strict=True):
        if own:
            counts.setdefault("model", int(np.shape(leaf)[0]))
            if np.shape(leaf)[0] != counts["model"]:
                raise ValueError(
                    f"the stacked model holds arrays of {counts['model']} and of "
                    f"{np.shape(leaf)[0]} models"
                )
    given: dict[str, Any] = {}
    own: dict[str, Any] = {}

    def add(name: str, value: Any, one: int) -> None:
        """An array of `one` number of axes, or with one more in front."""
        array = np.asarray(value, dtype=jnp.asarray(0.0).dtype)
        if array.ndim == one + 1:
            counts[name] = array.shape[0]
        given[name], own[name] = array, array.ndim == one + 1

    add("q0", q0, 1)
    add("qd0", qd0, 1)
    add("ts", ts, 1)
    for name, value in (("tau", tau), ("excitation", excitation)):
        if value is None or callable(value) or isinstance(value, AbstractFeedback):
            given[name], own[name] = value, jax.tree.map(lambda _: False, value)
        else:
            add(name, value, 1)
    given["muscle_state"], own["muscle_state"] = muscle_state, None
    if muscle_state is not None:
        if not isinstance(muscle_state, HillState):
            raise ValueError(
                f"muscle_state is a {type(muscle_state).__name__}; give a HillState whose arrays "
                "are (nm,) or (runs, nm)"
            )
        flags = jax.tree.map(lambda leaf: np.ndim(leaf) == 2, muscle_state)
        own["muscle_state"] = flags
        for leaf in jax.tree.leaves(muscle_state):
            if np.ndim(leaf) == 2:
                counts["muscle_state"] = np.shape(leaf)[0]
    given["parameters"] = jax.tree.map(np.asarray, parameters)
    own["parameters"] = jax.tree.map(lambda _: True, parameters)
    for leaf in jax.tree.leaves(parameters):
        if np.ndim(leaf) < 1:
            raise ValueError("every array of parameters needs a leading axis, one entry per run")
        counts.setdefault("parameters", np.shape(leaf)[0])
        if np.shape(leaf)[0] != counts["parameters"]:
            raise ValueError(
                f"parameters holds arrays for {counts['parameters']} and for "
                f"{np.shape(leaf)[0]} runs"
            )
    runs, varying = Run(model=model, **given), Run(model=own_model, **own)
    return runs, varying, _count(counts)


def _count(counts: dict[str, int]) -> int:
    if not counts:
        raise ValueError(
            "nothing differs between runs: give q0, or anything else, a leading axis of runs"
        )
    if len(set(counts.values())) > 1:
        words = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ValueError(f"the numbers of runs do not agree: {words}")
    (count,) = set(counts.values())
    if count < 1:
        raise ValueError("the batch has no runs")
    return count


def check(runs: Run, varying: Run, count: int) -> Model:
    """Look at shapes, times and excitations; returns one model, that of the first run."""
    model = take(runs.model, varying.model, 0)
    for name in ("q0", "qd0", "tau"):
        value, own = getattr(runs, name), getattr(varying, name)
        if isinstance(value, np.ndarray):
            single.state_vector(name, value[0] if own else value, model)
    for k, ts in enumerate(runs.ts if varying.ts else runs.ts[None]):
        try:
            single.times(ts)
        except ValueError as error:
            raise ValueError(f"run {k}: {error}" if varying.ts else str(error)) from None
    if isinstance(runs.tau, AbstractFeedback) and runs.excitation is not None:
        raise ValueError(
            f"a {type(runs.tau).__name__} cannot act beside muscles: leave excitation out"
        )
    excitation = runs.excitation
    if isinstance(excitation, np.ndarray) and varying.excitation:
        as_drive(excitation[0], model)  # the shape, and whether there are muscles
        wrong = np.argwhere(~((excitation >= 0.0) & (excitation <= 1.0)))
        if wrong.size:
            run, muscle = wrong[0]
            raise ValueError(
                f"run {run}: excitation of muscle {model.muscle_names[muscle]!r} is "
                f"{excitation[run, muscle]:.6g}: it must be in [0, 1]"
            )
    elif isinstance(excitation, np.ndarray):
        as_drive(excitation, model)
    if stack_size(model) is not None:
        raise ValueError("the model is a stack of stacks: its arrays have two leading axes")
    return model


def chunk_of(runs: Run, varying: Run, first: int, stop: int, size: int) -> Run:
    """The arrays of some runs that differ between runs, filled up to `size` runs."""
    rows = np.minimum(np.arange(first, first + size), stop - 1)

    def cut(leaf: Any, own: bool) -> Any:
        return np.asarray(leaf)[rows] if own else None

    return jax.tree.map(cut, runs, varying)


def shared_part(runs: Run, varying: Run) -> Run:
    """Everything that all runs have in common; None elsewhere."""
    return jax.tree.map(lambda leaf, own: None if own else leaf, runs, varying)


def one_run(runs: Run, varying: Run, index: int) -> Run:
    """The arguments of one run."""
    return eqx.combine(
        jax.tree.map(lambda leaf, own: leaf[index] if own else None, runs, varying),
        shared_part(runs, varying),
    )
