"""Loops whose turns do not depend on each other."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int

Tree = TypeVar("Tree")

MARK = "empbody_side_by_side"
"""Name by which machine code knows such a loop."""


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
    return jax.jit(run)(jnp.asarray(count), tables)
