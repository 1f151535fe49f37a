"""The earliest sign change within a step."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, PyTree


class _Bracket(eqx.Module):
    before: Array
    after: Array
    signs: PyTree[Array]


class FirstCrossing(optx.AbstractRootFinder):
    """Bisection on whether any of several functions of one variable has changed its sign
    since `options["lower"]`.

    Ends on the far side of the crossing. A function that is zero throughout never
    crosses, which is how Diffrax hands over conditions that were not met. Stops when the
    bracket is shorter than atol + rtol |t|.
    """

    rtol: float
    atol: float
    norm: Callable[[PyTree], Array] = optx.max_norm

    def init(
        self,
        fn: Callable,
        y: Array,
        args: PyTree,
        options: dict[str, Any],
        f_struct: PyTree,
        aux_struct: PyTree,
        tags: frozenset[object],
    ) -> _Bracket:
        """The whole interval, and the signs at its lower end."""
        del f_struct, aux_struct, tags
        lower = jnp.asarray(options["lower"], y.dtype)
        upper = jnp.asarray(options["upper"], y.dtype)
        return _Bracket(lower, upper, jax.tree.map(jnp.sign, fn(lower, args)[0]))

    def step(
        self,
        fn: Callable,
        y: Array,
        args: PyTree,
        options: dict[str, Any],
        state: _Bracket,
        tags: frozenset[object],
    ) -> tuple[Array, _Bracket, Any]:
        """Halve the bracket."""
        del y, options, tags
        middle = state.before + 0.5 * (state.after - state.before)
        values, aux = fn(middle, args)
        changed = jax.tree.map(lambda value, sign: jnp.sign(value) != sign, values, state.signs)
        crossed = jnp.any(jnp.stack(jax.tree.leaves(changed)))
        before = jnp.where(crossed, state.before, middle)
        after = jnp.where(crossed, middle, state.after)
        return after, _Bracket(before, after, state.signs), aux

    def terminate(
        self,
        fn: Callable,
        y: Array,
        args: PyTree,
        options: dict[str, Any],
        state: _Bracket,
        tags: frozenset[object],
    ) -> tuple[Array, optx.RESULTS]:
        """Whether the bracket is short enough."""
        del fn, args, options, tags
        short = state.after - state.before <= self.atol + self.rtol * jnp.abs(y)
        return short, optx.RESULTS.successful

    def postprocess(
        self,
        fn: Callable,
        y: Array,
        aux: Any,
        args: PyTree,
        options: dict[str, Any],
        state: _Bracket,
        tags: frozenset[object],
        result: optx.RESULTS,
    ) -> tuple[Array, Any, dict[str, Any]]:
        """Nothing to add."""
        del fn, args, options, state, tags, result
        return y, aux, {}
