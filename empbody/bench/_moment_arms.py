"""Moment arms of a shoulder's 15 muscles with wrapping, beside OpenSim."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..models._holzbaur import holzbaur
from ..paths import moment_arms, tabulate_paths
from ._opensim import OpenSimShoulder
from ._timing import Figure, at_length, compile_figure, interleaved

BATCH = 4096
_IN_A_LOOP = 500
_PEERS = 5
_TIMES = 20
"""How often a whole batch is run in one measurement."""
_REPEATS = 9
_LOW_HIGH = np.radians([-60.0, 5.0, -60.0]), np.radians([100.0, 150.0, 10.0])


def poses(count: int) -> Float[np.ndarray, "count 3"]:
    """Random poses (rad): elevation in planes from behind to across the chest, and rotation."""
    return np.random.default_rng(0).uniform(*_LOW_HIGH, size=(count, 3))


def run() -> dict[str, Figure]:
    # The model is an argument: its numbers are not folded into the compiled code.
    model = holzbaur(wrapping=True)
    numbers, rest = eqx.partition(model, eqx.is_array)
    q = jnp.asarray(poses(BATCH))

    def arms(numbers: Any, q: Float[Array, " nq"]) -> Float[Array, "nq nm"]:
        return moment_arms(eqx.combine(numbers, rest), q)

    @jax.jit
    def in_turn(numbers: Any, q: Float[Array, "poses nq"]) -> Float[Array, "poses nq nm"]:
        return jax.lax.scan(lambda _, q: (None, arms(numbers, q)), None, q)[1]

    together = jax.jit(jax.vmap(arms, in_axes=(None, 0)))
    works = [
        lambda: in_turn(numbers, q[:_IN_A_LOOP]),
        at_length(lambda: together(numbers, q), _TIMES),
    ]
    works += _from_tables(tabulated(model), q)
    peer = opensim_calls(poses(_PEERS))
    all_times = interleaved(works + ([peer] if peer else []), _REPEATS)
    single, batched, looked_up, looked_up_batched, *beside = all_times
    single = [t / _IN_A_LOOP for t in single]
    figures = {
        "moment_arms_us": Figure.of([t * 1e6 for t in single]),
        "moment_arms_batched_us": Figure.of(
            [t / (_TIMES * BATCH) * 1e6 for t in batched], batch=BATCH
        ),
        "moment_arms_tabulated_us": Figure.of([t / BATCH * 1e6 for t in looked_up]),
        "moment_arms_tabulated_batched_us": Figure.of(
            [t / (_TIMES * BATCH) * 1e6 for t in looked_up_batched], batch=BATCH
        ),
        "moment_arms_speedup_vs_opensim": _speedup(single, beside),
    }
    return figures | {"compile_moment_arms_s": compile_figure(arms, numbers, q[0])}


def tabulated(model: Model) -> Model:
    """The model with tables of its paths where the random poses are."""
    low, high = _LOW_HIGH
    names = ("elv_angle", "shoulder_elv", "shoulder_rot")
    ranges = {n: (float(a), float(b)) for n, a, b in zip(names, low, high, strict=True)}
    return tabulate_paths(model, step=0.12, ranges=ranges).model


def _from_tables(model: Model, q: Float[Array, "poses nq"]) -> list[Callable[[], Any]]:
    """The same with tables: in a loop, and together."""

    @eqx.filter_jit
    def in_turn(model: Model, q: Float[Array, "poses nq"]) -> Float[Array, "poses nq nm"]:
        return jax.lax.scan(lambda _, q: (None, moment_arms(model, q)), None, q)[1]

    together = eqx.filter_jit(jax.vmap(moment_arms, in_axes=(None, 0)))
    return [lambda: in_turn(model, q), at_length(lambda: together(model, q), _TIMES)]


def opensim_calls(q: Float[np.ndarray, "poses 3"]) -> Callable[[], None] | None:
    """Work that computes the matrix with OpenSim in every pose, or None where it is missing."""
    try:
        peer = OpenSimShoulder()
    except ImportError:
        return None
    states = [peer.variables(each) for each in q]

    def calls() -> None:
        for state in states:
            peer.pose(state)
            peer.moment_arms()

    return calls


def _speedup(ours: list[float], beside: list[list[float]]) -> Figure:
    if not beside:
        return Figure.missing("OpenSim (pip: opensim) is not installed")
    theirs = [t / _PEERS for t in beside[0]]
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return Figure.of(ratios, peer_us=float(np.median(theirs)) * 1e6)
