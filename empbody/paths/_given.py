"""Slots: what is known of them before their strings are, and what is known afterwards."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._remainder import Left
from ._surfaces import Surfaces, choose
from ._vectors import Tree

WAYS = 3
"""In which a string may lie on a surface (`Surfaces.ways`). Which one it was found in need not
be known of the third: as much of the surface is left as in the first."""
SECOND, THIRD = 1, 2
KEPT = THIRD
"""Among several surfaces a third way is never tried; there it means the second way of a cylinder
that keeps to its side (`_keeping`)."""


class Touches(NamedTuple):
    """Contacts of all slots in the ground frame, with the string on either side.

    Where `on` is false the string passes by, and the other entries mean nothing.
    """

    on: Bool[Array, "ns lanes"]
    second: Bool[Array, "ns lanes"]
    """Whether it is the second of the ways that the string may take (`Ways`)."""
    p: Float[Array, "3 ns lanes"]
    """Touch-down."""
    q: Float[Array, "3 ns lanes"]
    """Lift-off."""
    arc: Float[Array, "ns lanes"]
    before: Float[Array, "3 ns lanes"]
    """Where the string comes from: the stretch's start, or lift-off from another surface."""
    after: Float[Array, "3 ns lanes"]
    from_slot: Int[Array, "ns lanes"]
    """That other surface's slot; -1 if there is none."""
    to_slot: Int[Array, "ns lanes"]
    converged: Bool[Array, "ns lanes"]

    @property
    def first(self) -> Bool[Array, "ns lanes"]:
        """In contact, and the first to be so on the stretch."""
        return self.on & (self.from_slot < 0)

    @property
    def last(self) -> Bool[Array, "ns lanes"]:
        return self.on & (self.to_slot < 0)


class Given(eqx.Module):
    """Slots, or some that were picked: surfaces, stretches, and what is left of the surfaces
    for them."""

    surfaces: Surfaces
    begins: Float[Array, "3 *batch"]
    """Ends of the stretches in the ground frame (m)."""
    ends: Float[Array, "3 *batch"]
    usable: Bool[Array, "*batch"]
    share: Float[Array, "*batch"]
    """What is left in the first way."""
    other: Left
    """What is left in the second."""
    turned: Float[Array, "3 *batch"]
    """Axis about which the string turns in the third, where as much is left as in the first."""
    kept: Bool[Array, "*batch"]
    """Whether it is the second way also among other surfaces (`Ways`)."""

    def on_its_way(self, kept: Bool[Array, "*batch"]) -> Left:
        """What is left for strings that others bear: in the first way, but where it is kept in the
        second."""
        nothing = jnp.zeros_like(self.turned)
        return choose(kept, self.other, Left(nothing, self.share, nothing, jnp.zeros_like(kept)))

    def left(self, way: Int[Array, "*batch"]) -> Left:
        """What is left in the first (0), second (1) or third way (2)."""
        nothing = jnp.zeros_like(self.other.shift)
        turn = jnp.where((way == THIRD)[None], self.turned, 0.0)
        return choose(way == SECOND, self.other, Left(nothing, self.share, turn, way < 0))


def picker(tree: Tree) -> Callable[[Int[Array, "..."], Int[Array, "..."]], Tree]:
    """A function that takes some (slot, lane) out of all arrays (..., ns, lanes or 1) at once:
    they are put into one array, which takes one look-up where each would take its own."""
    leaves, structure = jax.tree.flatten(tree)
    dtype = next(x.dtype for x in leaves if jnp.issubdtype(x.dtype, jnp.floating))
    # What is the same in all lanes is stored once.
    groups = {
        width: [k for k, x in enumerate(leaves) if x.shape[-1] == width]
        for width in sorted({x.shape[-1] for x in leaves})
    }
    packed = {
        width: jnp.concatenate(
            [leaves[k].reshape(-1, *leaves[k].shape[-2:]).astype(dtype) for k in members]
        )
        for width, members in groups.items()
    }

    def pick(slot: Array, lane: Array) -> Tree:
        out: list[Array] = [jnp.zeros(())] * len(leaves)
        for width, members in groups.items():
            at = lane if width > 1 else jnp.zeros_like(lane)
            rows = packed[width].at[:, slot, at].get(mode="promise_in_bounds")
            start = 0
            for k in members:
                shape = leaves[k].shape[:-2]
                count = leaves[k].size // (leaves[k].shape[-1] * leaves[k].shape[-2])
                part = rows[start : start + count].reshape(*shape, *rows.shape[1:])
                out[k] = part > 0.5 if leaves[k].dtype == bool else part
                start += count
        return jax.tree.unflatten(structure, out)

    return pick
