"""All paths of a model in a few arrays, with their structure apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm
from . import _checks, _path_checks
from ._path import AbstractUnit, AnyPoint, ConditionalPoint, MovingPoint, PathPoint
from ._path_table import PathTable
from ._surface import (
    METHODS,
    QUADRANTS,
    Surface,
    Wrap,
    WrapCylinder,
    WrapEllipsoid,
    WrapSphere,
    WrapTorus,
)

KINDS = {
    WrapCylinder: "cylinder",
    WrapSphere: "sphere",
    WrapEllipsoid: "ellipsoid",
    WrapTorus: "torus",
}


@dataclass(frozen=True)
class SurfaceSlot:
    """Structure of one surface."""

    name: str
    kind: str
    """cylinder, sphere, ellipsoid or torus"""
    body: int
    """-1 is the ground."""
    side: tuple[int, int]
    """Axis and sign of the half that paths bear on; sign 0 for all of it."""
    active: bool


@dataclass(frozen=True)
class WrapSlot:
    """That a unit may lie on a surface between two of its points."""

    unit: int
    surface: int
    first: int
    last: int
    """Points of the range, as positions in the set's list of all points, both included."""
    method: str


@dataclass(frozen=True)
class PathLayout:
    """Everything about a set of paths that is not a number."""

    names: tuple[str, ...]
    starts: tuple[int, ...]
    """First point of each unit in the list of all points, and at the end their number."""
    bodies: tuple[int, ...]
    """Body of each point; -1 is the ground."""
    moving: tuple[tuple[int, tuple[int, ...]], ...]
    """Moving points: the point, and the coordinates of its function."""
    conditional: tuple[tuple[int, int], ...]
    """Conditional points: the point, and its coordinate."""
    surfaces: tuple[SurfaceSlot, ...]
    wraps: tuple[WrapSlot, ...]

    @property
    def n_units(self) -> int:
        return len(self.names)

    @property
    def n_points(self) -> int:
        return len(self.bodies)

    def points_of(self, unit: int) -> range:
        return range(self.starts[unit], self.starts[unit + 1])

    def unit_of(self, point: int) -> int:
        return int(np.searchsorted(self.starts, point, side="right")) - 1

    def only(self, units: Sequence[int]) -> "PathLayout":
        """Some of the units, in the order given; all surfaces stay."""
        points = [p for unit in units for p in self.points_of(unit)]
        place = {p: k for k, p in enumerate(points)}
        starts = np.cumsum([0, *(len(self.points_of(unit)) for unit in units)])
        return PathLayout(
            names=tuple(self.names[unit] for unit in units),
            starts=tuple(starts.tolist()),
            bodies=tuple(self.bodies[p] for p in points),
            moving=tuple((place[p], inputs) for p, inputs in self.moving if p in place),
            conditional=tuple((place[p], c) for p, c in self.conditional if p in place),
            surfaces=self.surfaces,
            wraps=tuple(
                WrapSlot(units.index(w.unit), w.surface, place[w.first], place[w.last], w.method)
                for w in self.wraps
                if w.unit in units
            ),
        )


class PathSet(eqx.Module):
    """The paths of all musculotendon units: numbers in arrays, structure static."""

    location: Float[Array, "np 3"]
    """Points in their body frames (m); zero for moving points."""
    moving: tuple[AbstractRhythm, ...]
    """Location of each moving point as a function of its coordinates."""
    moving_range: Float[Array, "nv nq 2"]
    """Where the functions of moving points hold; infinite where not said."""
    condition: Float[Array, "nc 2"]
    """Coordinate ranges of conditional points."""
    surface_translation: Float[Array, "ns 3"]
    """Surface frames' origins in their body frames (m)."""
    surface_rotation: Float[Array, "ns 3 3"]
    surface_size: Float[Array, "ns 3"]
    """Cylinder: radius, length, 0; sphere: radius, 0, 0; ellipsoid: semi-axes;
    torus: tube radius, ring radius, 0 (m)."""
    layout: PathLayout = eqx.field(static=True)
    tables: tuple[PathTable, ...] = ()
    """Lengths that are looked up instead of worked out (`eb.tabulate_paths`)."""

    def only(self, units: Sequence[int]) -> "PathSet":
        """Some of the units, without tables."""
        points = [p for unit in units for p in self.layout.points_of(unit)]
        moving = [k for k, (p, _) in enumerate(self.layout.moving) if p in points]
        conditional = [k for k, (p, _) in enumerate(self.layout.conditional) if p in points]
        return PathSet(
            location=self.location[np.array(points, int)],
            moving=tuple(self.moving[k] for k in moving),
            moving_range=self.moving_range[np.array(moving, int)],
            condition=self.condition[np.array(conditional, int)],
            surface_translation=self.surface_translation,
            surface_rotation=self.surface_rotation,
            surface_size=self.surface_size,
            layout=self.layout.only(units),
        )

    def known_range(self) -> tuple[Float[Array, " nq"], Float[Array, " nq"]]:
        """Where the functions of moving points and the tables hold, whichever is narrower;
        infinite where nothing is said."""
        nq = self.moving_range.shape[1]
        low, high = jnp.full(nq, -jnp.inf), jnp.full(nq, jnp.inf)
        if self.moving:
            ends = jnp.moveaxis(self.moving_range, -1, 0)
            low, high = ends[0].max(axis=0), ends[1].min(axis=0)
        for table in self.tables:
            at = np.array(table.coordinates)
            low, high = low.at[at].max(table.low), high.at[at].min(table.high)
        return low, high

    @staticmethod
    def pack(
        units: Sequence[AbstractUnit],
        surfaces: Sequence[Surface],
        body_names: Sequence[str],
        coordinates: Sequence[str],
    ) -> "PathSet":
        """Check and gather; errors name the musculotendon unit or the surface."""
        _path_checks.every(units, AbstractUnit, "muscles", "Muscle or Path")
        _path_checks.every(surfaces, tuple(KINDS), "surfaces", "WrapCylinder, WrapSphere, ...")
        _checks.unique_names("musculotendon unit", [unit.name for unit in units])
        _checks.unique_names("wrap surface", [surface.name for surface in surfaces])
        names = _Names(tuple(body_names), tuple(coordinates), tuple(s.name for s in surfaces))
        points = _Points(names)
        starts, wraps = [0], []
        for number, unit in enumerate(units):
            _path_checks.lists(unit)
            for k, point in enumerate(unit.points):
                points.add(f"point {k + 1} of {unit.name!r}", point)
            _path_checks.ends(unit)
            _path_checks.length(unit)
            wraps += [_wrap_slot(number, unit, wrap, starts[-1], names) for wrap in unit.wraps]
            starts.append(len(points.bodies))
        layout = PathLayout(
            names=tuple(unit.name for unit in units),
            starts=tuple(starts),
            bodies=tuple(points.bodies),
            moving=tuple(points.moving),
            conditional=tuple(points.conditional),
            surfaces=tuple(_surface_slot(surface, names) for surface in surfaces),
            wraps=tuple(wraps),
        )
        where = [
            f"wrap surface {surface.name!r}{_users(number, units, wraps)}"
            for number, surface in enumerate(surfaces)
        ]
        return PathSet(
            location=_rows(points.location, (3,)),
            moving=tuple(points.functions),
            moving_range=_rows(points.ranges, (len(coordinates), 2)),
            condition=_rows(points.conditions, (2,)),
            surface_translation=_rows(
                [
                    _path_checks.vector(f"translation of {w}", s.translation)
                    for w, s in zip(where, surfaces, strict=True)
                ],
                (3,),
            ),
            surface_rotation=_rows(
                [
                    _checks.rotation_matrix(
                        f"rotation of {w}", _path_checks.numbers(f"rotation of {w}", s.rotation)
                    )
                    for w, s in zip(where, surfaces, strict=True)
                ],
                (3, 3),
            ),
            surface_size=_rows([_size(w, s) for w, s in zip(where, surfaces, strict=True)], (3,)),
            layout=layout,
        )


@dataclass(frozen=True)
class _Names:
    bodies: tuple[str, ...]
    coordinates: tuple[str, ...]
    surfaces: tuple[str, ...]

    def body(self, where: str, name: str) -> int:
        if name == "ground":
            return -1
        return self._index(where, "body", (*self.bodies, "ground"), name)

    def coordinate(self, where: str, name: str) -> int:
        return self._index(where, "coordinate", self.coordinates, name)

    def surface(self, where: str, name: str) -> int:
        return self._index(where, "wrap surface", self.surfaces, name)

    def _index(self, where: str, kind: str, names: tuple[str, ...], name: str) -> int:
        if not names:
            raise ValueError(f"{where}: there is no {kind} {name!r}; the model has no {kind}s")
        try:
            return _checks.name_index(kind, names, name)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


class _Points:
    """Collects the points of all paths."""

    def __init__(self, names: _Names) -> None:
        self.names = names
        self.bodies: list[int] = []
        self.location: list[Any] = []
        self.moving: list[tuple[int, tuple[int, ...]]] = []
        self.functions: list[AbstractRhythm] = []
        self.ranges: list[np.ndarray] = []
        self.conditional: list[tuple[int, int]] = []
        self.conditions: list[Any] = []

    def add(self, where: str, point: AnyPoint) -> None:
        if not isinstance(point, PathPoint | MovingPoint | ConditionalPoint):
            raise ValueError(
                f"{where} is a {type(point).__name__}; "
                "use PathPoint, MovingPoint or ConditionalPoint"
            )
        index = len(self.bodies)
        self.bodies.append(self.names.body(where, point.body))
        if isinstance(point, MovingPoint):
            self.location.append(np.zeros(3))
            self._add_function(index, where, point)
            return
        self.location.append(_path_checks.vector(f"location of {where}", point.location))
        if isinstance(point, ConditionalPoint):
            self.conditional.append((index, self.names.coordinate(where, point.coordinate)))
            self.conditions.append(_path_checks.interval(where, point.coordinate, point.range))

    def _add_function(self, index: int, where: str, point: MovingPoint) -> None:
        if isinstance(point.coordinates, str):
            raise ValueError(f"{where}: coordinates is a string; give ({point.coordinates!r},)")
        if not isinstance(point.location, AbstractRhythm):
            raise ValueError(
                f"location of {where} is a {type(point.location).__name__}; give a rhythm of 3 "
                "outputs, or use PathPoint for a point that stays"
            )
        inputs = tuple(self.names.coordinate(where, name) for name in point.coordinates)
        n_in, n_out = point.location.n_in, point.location.n_out
        if n_out != 3 or n_in != len(inputs):
            raise ValueError(
                f"{where} needs a function of {len(inputs)} coordinates with 3 outputs, "
                f"got one of {n_in} with {n_out}"
            )
        bounds = np.tile([-np.inf, np.inf], (len(self.names.coordinates), 1))
        for name, limits in point.ranges.items():
            if name not in point.coordinates:
                raise ValueError(f"{where} has a range for {name!r}, which does not move it")
            bounds[self.names.coordinate(where, name)] = _path_checks.interval(where, name, limits)
        self.moving.append((index, inputs))
        self.functions.append(point.location)
        self.ranges.append(bounds)


def _users(surface: int, units: Sequence[AbstractUnit], wraps: Sequence[WrapSlot]) -> str:
    """Which units slide over a surface, for messages."""
    names = list(dict.fromkeys(units[w.unit].name for w in wraps if w.surface == surface))
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f" of {', '.join(map(repr, names[:3]))}{more}"


def _wrap_slot(number: int, unit: AbstractUnit, wrap: Wrap, start: int, names: _Names) -> WrapSlot:
    where = f"wrap of {unit.name!r} over {wrap.surface!r}"
    count = len(unit.points)
    first = 1 if wrap.first is None else wrap.first
    last = count if wrap.last is None else wrap.last
    whole = all(isinstance(x, int | np.integer) for x in (first, last))
    if not (whole and 1 <= first < last <= count):
        raise ValueError(
            f"{where} runs from point {first} to point {last} of a path with {count} points; "
            "count whole points from 1, first before last, or leave both out for the whole path"
        )
    if wrap.method not in METHODS:
        raise ValueError(f"{where} has method {wrap.method!r}; choose from {list(METHODS)}")
    surface = names.surface(where, wrap.surface)
    return WrapSlot(number, surface, start + first - 1, start + last - 1, wrap.method)


def _surface_slot(surface: Surface, names: _Names) -> SurfaceSlot:
    where = f"wrap surface {surface.name!r}"
    if surface.quadrant not in QUADRANTS:
        raise ValueError(
            f"{where} has quadrant {surface.quadrant!r}; choose from {list(QUADRANTS)}"
        )
    side = (0, 0)
    if surface.quadrant != "all":
        side = ("xyz".index(surface.quadrant[-1]), -1 if surface.quadrant[0] == "-" else 1)
    if isinstance(surface, WrapCylinder) and side[0] == 2:
        raise ValueError(f"{where} is a cylinder along z: quadrant z has no meaning; use x or y")
    return SurfaceSlot(
        name=surface.name,
        kind=KINDS[type(surface)],
        body=names.body(where, surface.body),
        side=side,
        active=bool(surface.active),
    )


def _size(where: str, surface: Surface) -> Any:
    if isinstance(surface, WrapCylinder):
        radius = _path_checks.positive(f"radius of {where}", surface.radius)
        length = _path_checks.positive(f"length of {where}", surface.length, finite=False)
        return _join([radius, length, 0.0])
    if isinstance(surface, WrapSphere):
        return _join([_path_checks.positive(f"radius of {where}", surface.radius), 0.0, 0.0])
    if isinstance(surface, WrapEllipsoid):
        axes = _path_checks.vector(f"dimensions of {where}", surface.dimensions)
        return _join(
            [_path_checks.positive(f"semi-axis {k + 1} of {where}", axes[k]) for k in range(3)]
        )
    tube = _path_checks.positive(f"inner_radius of {where}", surface.inner_radius)
    ring = _path_checks.positive(f"outer_radius of {where}", surface.outer_radius)
    if _checks.is_concrete((tube, ring)) and not tube < ring:
        raise ValueError(
            f"inner_radius of {where} is {float(tube):g} m and outer_radius {float(ring):g} m: "
            "the tube must be thinner than the ring, or there is no hole to pass through"
        )
    return _join([tube, ring, 0.0])


def _join(values: list[Any]) -> Any:
    return np.stack(values) if _checks.is_concrete(values) else jnp.stack(values)


def _rows(rows: Sequence[Any], shape: tuple[int, ...]) -> Array:
    if not rows:
        return jnp.zeros((0, *shape))
    if _checks.is_concrete(rows):
        return jnp.asarray(np.stack(rows), dtype=float)
    return jnp.stack(rows)
