"""Descriptions of musculotendon paths: points on bodies, in order, and surfaces between."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx

from ..rhythms import AbstractRhythm
from ._surface import Wrap


@dataclass(frozen=True)
class PathPoint:
    """A point fixed to a body ("ground" too), `location` in the body frame (m)."""

    body: str
    location: Any


@dataclass(frozen=True)
class MovingPoint:
    """A point that moves in its body as a function of coordinates.

    `location` is a rhythm of three outputs (x, y, z in the body frame, m) whose inputs are
    the named `coordinates`, in that order. `ranges` gives, by coordinate name, where the
    function holds; values outside are reported, not extrapolated without a word.
    """

    body: str
    location: AbstractRhythm
    coordinates: Sequence[str]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class ConditionalPoint:
    """A point that the path goes through only while a coordinate is within `range`.

    Both ends belong to the range. Length and moment arms jump where the point is taken
    up, unless it lies on the path there.
    """

    body: str
    location: Any
    coordinate: str
    range: tuple[Any, Any]


AnyPoint = PathPoint | MovingPoint | ConditionalPoint


class AbstractMuscles(eqx.Module):
    """Force-giving side of all units of a model; concrete ones live in `empbody.muscles`."""


class AbstractUnit:
    """One musculotendon unit as a user describes it: a path, and perhaps force parameters."""

    name: str
    points: Sequence[AnyPoint]
    wraps: Sequence[Wrap]

    @classmethod
    @abc.abstractmethod
    def pack(cls, units: Sequence["AbstractUnit"]) -> AbstractMuscles | None:
        """Force parameters of all units in one module, or None where there are none."""


@dataclass(frozen=True)
class Path(AbstractUnit):
    """A path without force parameters: lengths and moment arms only."""

    name: str
    points: Sequence[AnyPoint]
    wraps: Sequence[Wrap] = ()

    @classmethod
    def pack(cls, units: Sequence[AbstractUnit]) -> AbstractMuscles | None:
        return None
