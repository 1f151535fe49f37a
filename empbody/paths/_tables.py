"""Tables of a block of poses: (rows, things, poses), read and written at one thing and one pose.

What is the same at all poses has a single one. For machine code: what is read and written one
pose after the other lies side by side in memory.
"""

from collections.abc import Callable
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int

from ..native import side_by_side

Tree = TypeVar("Tree")
Index = Int[Array, ""]


class Poses:
    """The poses of a block: as many as `size` in all tables, `count` of them really there."""

    def __init__(self, size: int, count: Index) -> None:
        self.size, self.count = size, count

    def each(self, body: Callable[[Index, Tree], Tree], tables: Tree) -> Tree:
        """body(pose, tables), one pose independent of the others."""
        if self.size == 1:
            return body(jnp.zeros((), jnp.int32), tables)
        return side_by_side(self.count, body, tables)

    def each_of(
        self, first: int, last: int, body: Callable[[Index, Index, Tree], Tree], tables: Tree
    ) -> Tree:
        """body(thing, pose, tables) for some things and all poses, all independent."""
        if first == last:
            return tables
        if self.size == 1:
            zero = jnp.zeros((), jnp.int32)
            count = jnp.full((), last - first, jnp.int32)
            return side_by_side(count, lambda k, tables: body(k + first, zero, tables), tables)

        def one(thing: Index, tables: Tree) -> Tree:
            return side_by_side(self.count, lambda pose, tables: body(thing, pose, tables), tables)

        return counted(first, last, one, tables)

    def in_turn(
        self, first: int, last: int, entries: Callable[[Index, Index, Tree], Tree], lists: Tree
    ) -> Tree:
        """entries(thing, pose, lists), one after the other."""

        def one(thing: Index, lists: Tree) -> Tree:
            if self.size == 1:
                return entries(thing, jnp.zeros((), jnp.int32), lists)
            return counted(0, self.count, lambda pose, lists: entries(thing, pose, lists), lists)

        return counted(first, last, one, lists)


def counted(
    first: int, last: int | Index, body: Callable[[Index, Tree], Tree], tables: Tree
) -> Tree:
    """`fori_loop` with 32-bit numbers."""
    limit = jnp.asarray(last, jnp.int32)
    return lax.while_loop(
        lambda state: state[0] < limit,
        lambda state: (state[0] + 1, body(*state)),
        (jnp.full((), first, jnp.int32), tables),
    )[1]


def take(table: Array, thing: Index, pose: Index, row: int | None = None) -> Array:
    """One thing at one pose (..., 1), as a batch of one; or only one of its rows (1,)."""
    *rows, _, poses = table.shape
    pose = pose if poses > 1 else jnp.zeros((), jnp.int32)
    first = [jnp.zeros((), jnp.int32)] * len(rows)
    if row is not None:
        first[0], rows[0] = jnp.full((), row, jnp.int32), 1
    start = (*first, thing, pose)
    found = lax.dynamic_slice(table, start, (*rows, 1, 1), allow_negative_indices=False)
    return found.reshape(*rows[row is not None :], 1)


def put(table: Array, thing: Index, pose: Index, column: Array) -> Array:
    """The opposite."""
    rows = table.shape[:-2]
    start = (*[jnp.zeros((), jnp.int32)] * len(rows), thing, pose)
    column = column.astype(table.dtype).reshape(*rows, 1, 1)
    return lax.dynamic_update_slice(table, column, start, allow_negative_indices=False)


def take_plane(table: Array, thing: Index, pose: Index) -> Array:
    """From a table (things, k, n, poses): (k, n, 1)."""
    zero = jnp.zeros((), jnp.int32)
    start = (thing, zero, zero, pose if table.shape[-1] > 1 else zero)
    sizes = (1, *table.shape[1:3], 1)
    return lax.dynamic_slice(table, start, sizes, allow_negative_indices=False)[0]


def put_plane(table: Array, thing: Index, pose: Index, plane: Array) -> Array:
    zero = jnp.zeros((), jnp.int32)
    plane = plane.reshape(1, *table.shape[1:3], 1)
    start = (thing, zero, zero, pose)
    return lax.dynamic_update_slice(table, plane, start, allow_negative_indices=False)


def entry(table: Array, k: Index) -> Array:
    """Column k of a list (..., room)."""
    rows = table.shape[:-1]
    start = (*[jnp.zeros((), jnp.int32)] * len(rows), k)
    return lax.dynamic_slice(table, start, (*rows, 1), allow_negative_indices=False)[..., 0]


def put_entry(table: Array, k: Index, column: Array) -> Array:
    rows = table.shape[:-1]
    start = (*[jnp.zeros((), jnp.int32)] * len(rows), k)
    column = column.astype(table.dtype).reshape(*rows, 1)
    return lax.dynamic_update_slice(table, column, start, allow_negative_indices=False)


def known(numbers: np.ndarray | list | tuple, k: Index) -> Index:
    """One of some numbers that are known beforehand."""
    table = jnp.asarray(np.asarray(numbers), jnp.int32)
    return lax.dynamic_slice(table, (k,), (1,), allow_negative_indices=False)[0]


def known_of(numbers: np.ndarray, row: Index, column: Index) -> Index:
    table = jnp.asarray(numbers, jnp.int32)
    return lax.dynamic_slice(table, (row, column), (1, 1), allow_negative_indices=False)[0, 0]
