"""Checks of what a simulation is given, before anything is compiled."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..model._checks import is_concrete
from ..muscles import HillState
from ..paths._report import out_of_range
from ._events import AbstractEvent, CoordinateLimit
from ._loops import why_open

_FLOAT32_RTOL = 1e-6


def state_vector(what: str, value: Any, model: Model) -> Float[Array, " nq"]:
    array = jnp.asarray(value, dtype=float)
    if array.shape != (model.nq,):
        names = ", ".join(model.coordinate_names)
        hint = "; use jax.vmap to batch" if array.ndim > 1 else ""
        raise ValueError(
            f"{what} has shape {array.shape} for {model.nq} coordinates ({names}){hint}"
        )
    return array


def times(value: Any) -> Float[Array, " nt"]:
    array = jnp.asarray(value, dtype=float)
    if array.ndim != 1 or array.shape[0] < 2:
        raise ValueError(
            f"ts has shape {array.shape}; give at least two times, the first being the start"
        )
    if is_concrete(array):
        numbers = np.asarray(array)
        if not np.all(np.isfinite(numbers)):
            raise ValueError("ts holds NaN or infinity")
        wrong = np.flatnonzero(np.diff(numbers) <= 0.0)
        if wrong.size:
            k = int(wrong[0])
            raise ValueError(
                f"ts must increase, but ts[{k + 1}] = {numbers[k + 1]:.6g} s comes after "
                f"ts[{k}] = {numbers[k]:.6g} s"
            )
    return array


def tolerance(what: str, value: Any) -> Float[Array, ""]:
    array = jnp.asarray(value, dtype=float)
    if array.shape != ():
        raise ValueError(f"{what} needs one number, got shape {array.shape}")
    if is_concrete(array) and not float(array) > 0.0:
        raise ValueError(f"{what} = {float(array):.6g}: a positive number is expected")
    return array


def precision(rtol: Float[Array, ""]) -> None:
    """Single precision cannot meet tight tolerances: say so instead of crawling."""
    single = jnp.finfo(rtol.dtype).bits < 64
    if single and is_concrete(rtol) and float(rtol) < _FLOAT32_RTOL:
        raise ValueError(
            f"rtol = {float(rtol):.1g} needs double precision, and JAX is set to single: call "
            f'jax.config.update("jax_enable_x64", True) first, or pass rtol ≥ {_FLOAT32_RTOL:g}'
        )


def step_times(value: Any, ts: Float[Array, " nt"]) -> Float[Array, "..."]:
    """A fixed step, or the times to step to."""
    array = jnp.asarray(value, dtype=float)
    if array.ndim == 0:
        return tolerance("fixed_step", array)
    if array.ndim != 1:
        raise ValueError(f"fixed_step has shape {array.shape}: one step, or the times to step to")
    if is_concrete((array, ts)):
        ends = (float(array[0]), float(array[-1]))
        if ends != (float(ts[0]), float(ts[-1])) or np.any(np.diff(np.asarray(array)) <= 0.0):
            raise ValueError(
                f"fixed_step holds times from {ends[0]:.6g} to {ends[1]:.6g} s: they must "
                f"increase from {float(ts[0]):.6g} to {float(ts[-1]):.6g} s, the ends of ts"
            )
    return array


def why_bad_start(
    model: Model,
    q0: np.ndarray,
    qd0: np.ndarray,
    events: tuple[AbstractEvent, ...],
    muscles: HillState | None = None,
) -> str | None:
    """Why a start is not usable, in words; None where its numbers look right."""
    for what, numbers in (("q0", q0), ("qd0", qd0)):
        for name, number in zip(model.coordinate_names, numbers, strict=True):
            if not np.isfinite(number):
                said = "NaN" if np.isnan(number) else "infinite"
                return f"{what} is {said} in coordinate {name!r}"
    lower, upper = np.asarray(model.lower), np.asarray(model.upper)
    for k, name in enumerate(model.coordinate_names):
        if not lower[k] <= q0[k] <= upper[k]:
            return (
                f"q0 puts coordinate {name!r} at {q0[k]:.6g}, outside its range {lower[k]:.6g} "
                f"to {upper[k]:.6g}"
            )
    outside = [] if muscles is None else out_of_range(model, q0)
    if outside:
        return f"q0 is not usable: {outside[0]}"
    reason = why_open(model, q0)
    if reason is not None:
        return f"q0 is not a position of the mechanism: {reason}"
    for event in events:
        if isinstance(event, CoordinateLimit):
            low, high = (float(x) for x in event.limits(model))
            here = q0[model.coordinate_index(event.coordinate)]
            if not low < here < high:
                return (
                    f"q0 puts coordinate {event.coordinate!r} at {here:.6g}, not inside its "
                    f"limits {low:.6g} to {high:.6g}"
                )
    for what in () if muscles is None else ("activation", "fibre"):
        states = getattr(muscles, what)
        wrong = [] if states is None else np.flatnonzero(~np.isfinite(np.asarray(states)[0]))
        if len(wrong):
            name = model.muscle_names[int(wrong[0])]
            return f"the {what} of muscle {name!r} is not finite at the start"
    return None
