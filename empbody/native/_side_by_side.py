"""Loops whose turns do not depend on each other."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int

Tree = TypeVar("Tree")
State = TypeVar("State")

MARK, REFILLED = "empbody_side_by_side", "empbody_refilled"
"""Names by which machine code knows such loops."""


def side_by_side(
    count: Int[Array, ""] | int,
    body: Callable[[Int[Array, ""], Tree], Tree],
    tables: Tree,
) -> Tree:
    """`fori_loop(0, count, body, tables)`, where no turn needs what another one does.

    Machine code takes several turns at a time, one in each element of the processor's vectors.
    A turn may read anything but what others write, and changes tables only by
    `dynamic_update_slice`, at places of its own and outside of inner loops and branches.
    """

    def run(count: Array, tables: Any) -> Any:
        def turn(state: tuple) -> tuple:
            k, tables = state
            return k + 1, body(k, tables)

        start = (np.zeros((), count.dtype), tables)
        return lax.while_loop(lambda state: state[0] < count, turn, start)[1]

    run.__name__ = MARK
    return jax.jit(run)(_number(count), tables)


def refilled(
    count: Int[Array, ""] | int,
    start: Callable[[Int[Array, ""]], State],
    go_on: Callable[[State], Bool[Array, ""]],
    step: Callable[[State], State],
    end: Callable[[Int[Array, ""], State, Tree], Tree],
    tables: Tree,
    idle: float = 0.5,
) -> Tree:
    """`side_by_side` for turns that are loops themselves, of different length: from `start` on,
    `step` is taken while `go_on` says so, and `end` puts the result into tables.

    Machine code does not wait for the longest of those that it takes together: who is done
    makes room for the next. It does so when this part of them is `idle`: more is better where
    `start` and `end` cost much, compared with a step.
    """

    def run(count: Array, tables: Any) -> Any:
        def turn(outer: tuple) -> tuple:
            k, tables = outer
            return k + 1, end(k, lax.while_loop(go_on, step, start(k)), tables)

        begin = (np.zeros((), count.dtype), tables)
        return lax.while_loop(lambda outer: outer[0] < count, turn, begin)[1]

    run.__name__ = f"{REFILLED}_{round(100 * idle)}"
    return jax.jit(run)(_number(count), tables)


def _number(count: Any) -> Array:
    count = jnp.asarray(count)
    if count.dtype not in (jnp.int32, jnp.int64):
        raise TypeError(f"a number of turns is of type int32 or int64, not {count.dtype}")
    return count
