"""What can stop a simulation before its end."""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Real

from ..model import Model
from ..model._checks import is_concrete

Direction = Literal["up", "down"] | None


class AbstractEvent(eqx.Module):
    """Stops the simulation when `value` changes its sign, or becomes True."""

    @property
    @abc.abstractmethod
    def direction(self) -> Direction:
        """ "up" or "down": only where the value rises or falls through zero; None: both."""

    @abc.abstractmethod
    def value(
        self,
        model: Model,
        t: Real[Array, ""],
        q: Float[Array, " nq"],
        qd: Float[Array, " nq"],
    ) -> Float[Array, ""] | Bool[Array, ""]:
        """A real number whose zero is the event, or a boolean."""

    @abc.abstractmethod
    def check(self, model: Model) -> None:
        """Raise ValueError when the event does not fit the model."""


def _bound(value: Any) -> Float[Array, ""] | None:
    return None if value is None else jnp.asarray(value, dtype=float)


class CoordinateLimit(AbstractEvent):
    """A coordinate leaves [lower, upper]. Without numbers: its range in the model.

    Positive inside, and the distance to the nearer limit in the coordinate's unit.
    """

    coordinate: str = eqx.field(static=True)
    lower: Float[Array, ""] | None = eqx.field(converter=_bound, default=None)
    upper: Float[Array, ""] | None = eqx.field(converter=_bound, default=None)

    @property
    def direction(self) -> Direction:
        return "down"

    def limits(self, model: Model) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Those given; -inf or inf where only the other is; the model's if none is."""
        if self.lower is None and self.upper is None:
            index = model.coordinate_index(self.coordinate)
            return model.lower[index], model.upper[index]
        low = jnp.asarray(-jnp.inf, dtype=float) if self.lower is None else self.lower
        high = jnp.asarray(jnp.inf, dtype=float) if self.upper is None else self.upper
        return low, high

    def value(
        self,
        model: Model,
        t: Real[Array, ""],
        q: Float[Array, " nq"],
        qd: Float[Array, " nq"],
    ) -> Float[Array, ""]:
        low, high = self.limits(model)
        here = q[model.coordinate_index(self.coordinate)]
        return jnp.minimum(here - low, high - here)

    def holds_at_start(
        self,
        model: Model,
        q: Float[Array, " nq"],
        qd: Float[Array, " nq"],
        qdd: Float[Array, " nq"],
    ) -> Bool[Array, ""]:
        """Inside, or on a limit and not about to leave: else it would never be crossed."""
        low, high = self.limits(model)
        index = model.coordinate_index(self.coordinate)

        def inside(gap: Array, rate: Array, curve: Array) -> Array:
            return (gap > 0) | ((gap == 0) & ((rate > 0) | ((rate == 0) & (curve >= 0))))

        here, rate, curve = q[index], qd[index], qdd[index]
        return inside(here - low, rate, curve) & inside(high - here, -rate, -curve)

    def check(self, model: Model) -> None:
        limits = self.limits(model)
        if is_concrete(limits) and np.all(np.isinf(limits)):
            raise ValueError(
                f"coordinate {self.coordinate!r} has no range in the model: give its "
                "CoordinateLimit a lower or upper"
            )
        model.coordinate_index(self.coordinate)


class Crossing(AbstractEvent):
    """`function(t, q, qd)` crosses zero, or, when it gives a boolean, becomes True.

    A Python function is part of what is compiled, by identity; an Equinox module with
    `__call__` can have numbers that change without compiling again.
    """

    function: Callable
    crossing: str | None = eqx.field(static=True, default=None)
    """"up", "down" or None for both."""

    @property
    def direction(self) -> Direction:
        return cast(Direction, self.crossing)

    def value(
        self,
        model: Model,
        t: Real[Array, ""],
        q: Float[Array, " nq"],
        qd: Float[Array, " nq"],
    ) -> Float[Array, ""] | Bool[Array, ""]:
        return jnp.asarray(self.function(t, q, qd))

    def check(self, model: Model) -> None:
        if self.crossing not in ("up", "down", None):
            raise ValueError(f"crossing = {self.crossing!r}: 'up', 'down' or None")


class StateCondition(eqx.Module):
    """Events as Diffrax calls them: the state is (q, q̇, ...) in one vector. The smallest of
    several values counts."""

    events: tuple[AbstractEvent, ...]

    def __call__(self, t: Any, y: Array, args: Any, **_: Any) -> Array:
        nq = args.model.nq
        q, qd = y[:nq], y[nq : 2 * nq]
        return functools.reduce(
            jnp.minimum, [event.value(args.model, t, q, qd) for event in self.events]
        )


def grouped(events: tuple[AbstractEvent, ...]) -> list[tuple[int, ...]]:
    """Positions of events that make one condition each.

    Diffrax takes the first condition met in a step, which need not be the earliest. All
    coordinate limits start positive, so their minimum finds the earliest of them.
    """
    limits = tuple(i for i, event in enumerate(events) if isinstance(event, CoordinateLimit))
    others = [(i,) for i in range(len(events)) if i not in limits]
    return [limits, *others] if limits else others


def fired(
    events: tuple[AbstractEvent, ...],
    masks: list[Bool[Array, ""]],
    model: Model,
    t: Real[Array, ""],
    q: Float[Array, " nq"],
    qd: Float[Array, " nq"],
) -> Bool[Array, " ne"]:
    """Which events stopped the simulation, given which conditions did."""
    out = [jnp.asarray(False)] * len(events)
    for group, mask in zip(grouped(events), masks, strict=True):
        values = [events[i].value(model, t, q, qd) for i in group]
        for i, value in zip(group, values, strict=True):
            nearest = value <= functools.reduce(jnp.minimum, values)
            out[i] = mask if len(group) == 1 else mask & nearest
    return jnp.stack(out)


def as_events(event: Any, model: Model) -> tuple[AbstractEvent, ...]:
    """One event or function, or several, checked against the model."""
    if event is None:
        return ()
    several = event if isinstance(event, Sequence) else (event,)
    events = []
    for one in several:
        if isinstance(one, AbstractEvent):
            events.append(one)
        elif callable(one):
            events.append(Crossing(one))
        else:
            raise ValueError(
                f"event is a {type(one).__name__}; give a CoordinateLimit, a Crossing or a "
                "function of (t, q, qd)"
            )
        events[-1].check(model)
    return tuple(events)
