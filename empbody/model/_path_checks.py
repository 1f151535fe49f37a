"""Checks of musculotendon units and surfaces. Every message names the unit or the surface, says
what is wrong and what to give instead."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import _checks
from ._path import AbstractUnit, ConditionalPoint, PathPoint
from ._surface import Wrap


def every(given: Sequence[Any], kind: Any, what: str, names: str) -> None:
    if not isinstance(given, Iterable):
        raise ValueError(f"{what} is a {type(given).__name__}; give a list: [{names}]")
    for number, one in enumerate(given):
        if not isinstance(one, kind):
            raise ValueError(f"entry {number + 1} of {what} is a {type(one).__name__}; use {names}")


def lists(unit: AbstractUnit) -> None:
    for what, example in (("points", "PathPoint(...)"), ("wraps", "Wrap(...)")):
        given = getattr(unit, what)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ValueError(
                f"{what} of {unit.name!r} is a {type(given).__name__}; give a list: [{example}]"
            )
    count = len(unit.points)
    if count < 2:
        raise ValueError(
            f"path of {unit.name!r} has {count} point{'' if count == 1 else 's'}; "
            "it needs an origin and an insertion at least"
        )
    for number, wrap in enumerate(unit.wraps):
        if not isinstance(wrap, Wrap):
            hint = f"Wrap({getattr(wrap, 'name', wrap)!r})"
            raise ValueError(
                f"wrap {number + 1} of {unit.name!r} is a {type(wrap).__name__}; use {hint}"
            )
        if not isinstance(wrap.surface, str):
            name = getattr(wrap.surface, "name", "name")
            raise ValueError(
                f"wrap {number + 1} of {unit.name!r} is given a {type(wrap.surface).__name__}; "
                f"give its name: Wrap({name!r})"
            )


def ends(unit: AbstractUnit) -> None:
    """Ends that may vanish would leave a path without an origin or insertion."""
    for which, point in (("first", unit.points[0]), ("last", unit.points[-1])):
        if isinstance(point, ConditionalPoint):
            raise ValueError(
                f"the {which} point of {unit.name!r} is conditional; a path needs ends that stay"
            )


def length(unit: AbstractUnit) -> None:
    """A path whose points all are one point of one body has no length in any pose."""
    if not all(isinstance(point, PathPoint) for point in unit.points):
        return
    places = [_checks.numbers(point.location) for point in unit.points]
    if not _checks.is_concrete(places) or len({point.body for point in unit.points}) > 1:
        return
    if all(np.array_equal(place, places[0]) for place in places[1:]):
        raise ValueError(
            f"all {len(places)} points of {unit.name!r} are one point of "
            f"{unit.points[0].body!r}: the path has no length; give points that differ"
        )


def interval(where: str, name: str, limits: Any) -> Any:
    bounds = numbers(f"{where}: range of {name!r}", limits)
    if bounds.shape != (2,):
        raise ValueError(f"{where}: range of {name!r} needs two numbers, (lower, upper)")
    if _checks.is_concrete(bounds) and not bounds[0] <= bounds[1]:
        raise ValueError(
            f"{where}: range of {name!r} is empty: {bounds[0]:g} ... {bounds[1]:g}; "
            "give (lower, upper)"
        )
    return bounds


def positive(where: str, value: Any, finite: bool = True) -> Any:
    number = numbers(where, value)
    if number.shape != ():
        raise ValueError(f"{where} needs one number, got shape {number.shape}")
    if _checks.is_concrete(number) and not (number > 0.0 and (np.isfinite(number) or not finite)):
        wanted = "positive and finite" if finite else "positive"
        raise ValueError(f"{where} is {float(number):g} m; it must be {wanted}")
    return number


def numbers(where: str, value: Any) -> Any:
    try:
        return _checks.numbers(value)
    except (TypeError, ValueError):
        raise ValueError(f"{where} is {value!r}; it needs numbers") from None


def vector(where: str, value: Any) -> Any:
    return _checks.vector(where, numbers(where, value))
