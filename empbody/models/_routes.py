"""The ways from a loop closure to its rhythm, by name."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..kronecker._projection import Projected
from ..rhythms import AbstractRhythm, Identity, Implicit, Molecule, Stack, premodel

_CLOSED = ("implicit", "projection", "molecule")
_PREMODELLED = ("cubic", "cubic-not-a-knot", "quintic", "fourier")
ROUTES: tuple[str, ...] = (*_CLOSED, *_PREMODELLED)
"""How f(q) and its derivatives are made from g(q, f) = 0:

- "implicit": closed at every evaluation, derivatives by LU (exact; the default);
- "projection": closed at every evaluation, derivatives by the manuscript's elimination
  (Ehsani 2016, Eqs. 116-120);
- "molecule": closed at every evaluation, derivatives by central differences (order 4);
- "cubic", "cubic-not-a-knot", "quintic", "fourier": pre-modelled, that is swept once and
  fitted; "fourier" needs coordinates that turn in full.
"""


class Closure(NamedTuple):
    """A loop closure, where it starts, and over which coordinates it is followed."""

    residual: Callable
    seed_q: np.ndarray
    seed_f: np.ndarray
    lower: float
    upper: float
    periodic: bool
    names: tuple[str, ...]


def unknowns(closure: Closure, route: str, order: int, spline_period: bool) -> AbstractRhythm:
    """The closure's unknowns as a rhythm, made by the named route.

    `order` is that of the Fourier series; `spline_period` whether splines may be periodic,
    which they cannot where an unknown winds.
    """
    if route not in ROUTES:
        raise ValueError(
            f"rhythm {route!r} is not known: one of {', '.join(ROUTES)}, or an AbstractRhythm"
        )
    if route == "fourier" and not closure.periodic:
        raise ValueError(
            "a Fourier rhythm needs a coordinate that turns in full, and "
            f"{closure.names[0]} has a range; use 'quintic'"
        )
    start = (closure.residual, closure.seed_q, closure.seed_f)
    common: dict[str, Any] = {"periodic": closure.periodic, "coordinates": closure.names}
    lower, upper = closure.lower, closure.upper
    if route in _PREMODELLED:
        if route == "fourier":
            common["order"] = order
        elif closure.periodic and not spline_period:
            # Two turns either way, as fine as one turn with the default number of cells.
            common |= {"periodic": False, "n": 128}
            lower, upper = 2 * lower, 2 * upper
        return premodel(*start, lower, upper, **common, family=route)[0]
    # The differences reach a little over the ends of the range.
    margin = 0.01 if route == "molecule" and not closure.periodic else 0.0
    rhythm = Implicit.build(*start, lower - margin, upper + margin, **common)
    if route == "molecule":
        return Molecule(rhythm, order=4)
    return Projected(rhythm) if route == "projection" else rhythm


def driven(nq: int, rest: AbstractRhythm) -> AbstractRhythm:
    """All joint variables where the first nq are the coordinates themselves."""
    inputs = tuple(range(nq))
    return Stack([(Identity(), inputs), (rest, inputs)], n_in=nq)
