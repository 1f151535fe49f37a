"""Recursions along a tree, one link after another, in a compiled loop.

A link's value may depend on its parent's (outwards) or on its children's (inwards). The work
grows with the number of links and not with its square, as sums over all ancestors at once do,
and what a step needs stays in the cache: on CPU that pays for large trees. The loop holds only
values that are still waited for, in as few slots as the tree allows: one for a chain.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Topology


class Walk(NamedTuple):
    """An order of the links, parents first, and where values wait meanwhile."""

    order: np.ndarray
    """Links by turn."""
    own: np.ndarray
    """Slot of each link's value, by turn."""
    above: np.ndarray
    """Slot of its parent's."""
    slots: int


@functools.lru_cache(maxsize=256)
def walk(topology: Topology) -> Walk:
    """Depth first, the largest subtree last, so that it can have its parent's slot."""
    children: dict[int, list[int]] = {link: [] for link in range(-1, topology.n_links)}
    for link, parent in enumerate(topology.parents):
        children[parent].append(link)
    size = topology.ancestors.sum(axis=0)
    order, own, above = [], [], []
    free: list[int] = []
    slots, waiting = 1, [(-1, 0)]
    while waiting:
        node, slot = waiting.pop()
        if node >= 0:
            parent_slot = slot
            # Its parent's last child: nobody waits for the parent any more.
            last = not waiting or waiting[-1][1] != slot
            if not last:
                if not free:
                    free.append(slots)
                    slots += 1
                slot = free.pop()
            order.append(node)
            own.append(slot)
            above.append(parent_slot)
        below = sorted(children[node], key=lambda link: size[link])
        if not below and node >= 0:
            free.append(slot)
        waiting += [(link, slot) for link in reversed(below)]
    return Walk(np.array(order), np.array(own), np.array(above), slots)


def outwards(
    topology: Topology, step: Callable[[Any, Any], tuple[Any, Any]], ground: Any, given: Any
) -> Any:
    """For every link `step(parent's value, given)` -> (value, result), from the roots to the
    leaves; the results, by link. Arrays of `given` have the links first."""
    way = walk(topology)
    if way.slots == 1:
        return _by_link(way, jax.lax.scan(step, ground, _by_turn(way, given))[1])

    def turn(slots: Any, each: Any) -> tuple[Any, Any]:
        own, above, given = each
        value, result = step(_picked(slots, above), given)
        return jax.tree.map(lambda s, v: s.at[own].set(v), slots, value), result

    slots = jax.tree.map(lambda x: jnp.broadcast_to(x, (way.slots, *x.shape)), ground)
    _, results = jax.lax.scan(turn, slots, (way.own, way.above, _by_turn(way, given)))
    return _by_link(way, results)


def inwards(
    topology: Topology, step: Callable[[Any, Any], tuple[Any, Any]], nothing: Any, given: Any
) -> Any:
    """For every link `step(sum of what its children hand over, given)` -> (what it hands to
    its parent, result), from the leaves to the roots; the results, by link."""
    way = walk(topology)
    if way.slots == 1:
        return _by_link(way, jax.lax.scan(step, nothing, _by_turn(way, given), reverse=True)[1])

    def turn(slots: Any, each: Any) -> tuple[Any, Any]:
        own, above, given = each
        handed, result = step(_picked(slots, own), given)
        slots = jax.tree.map(lambda s, v: s.at[own].set(0.0).at[above].add(v), slots, handed)
        return slots, result

    slots = jax.tree.map(lambda x: jnp.broadcast_to(x, (way.slots, *x.shape)), nothing)
    given = (way.own, way.above, _by_turn(way, given))
    return _by_link(way, jax.lax.scan(turn, slots, given, reverse=True)[1])


def over_ancestors(
    topology: Topology, values: Float[Array, "nj *rest"]
) -> Float[Array, "nj *rest"]:
    """For every link the sum of the values of those that carry it, and its own."""

    def add(above: Array, own: Array) -> tuple[Array, Array]:
        total = above + own
        return total, total

    return outwards(topology, add, jnp.zeros_like(values[0]), values)


def _picked(slots: Any, index: Array) -> Any:
    return jax.tree.map(lambda s: s.at[index].get(mode="promise_in_bounds"), slots)


def _by_turn(way: Walk, given: Any) -> Any:
    return jax.tree.map(lambda x: _permuted(x, way.order), given)


def _by_link(way: Walk, results: Any) -> Any:
    return jax.tree.map(lambda x: _permuted(x, np.argsort(way.order)), results)


def _permuted(values: Array, order: np.ndarray) -> Array:
    if (order == np.arange(len(order))).all():
        return values
    return values.at[order].get(mode="promise_in_bounds")
