"""What follows from a set of paths' structure alone, worked out once per structure."""

import functools
from dataclasses import dataclass

import numpy as np

from ..model import PathLayout, Topology

KINDS = ("cylinder", "sphere", "ellipsoid", "torus")


@dataclass(frozen=True)
class Slot:
    """A place where a surface may lift a path: one surface, one stretch between points."""

    surface: int
    unit: int
    stretch: int
    """The path point that the stretch leads to."""
    sunk: tuple[bool, bool]
    """Whether the stretch's start and end are fixed in the surface's own body: if such a
    point is inside the surface it always is, and the surface leaves the stretch alone."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Stretches and slots of all paths: one object for each structure.

    A stretch leads from one path point to the next and is named by the latter. Slots are
    sorted by the kind of surface, so that those of one kind are one array.
    """

    links: tuple[int, ...]
    """Link of each path point; -1 is the ground."""
    surface_links: tuple[int, ...]
    sides: np.ndarray
    """(3, surfaces): direction of the half that strings bear on; zero for either."""
    stretches: tuple[int, ...]
    before: tuple[tuple[int, ...], ...]
    """Points that each stretch may start from, nearest first: more than one if the nearest
    are conditional."""
    slots: tuple[Slot, ...]
    kinds: tuple[str, ...]
    """Kind of the surface of each slot."""
    rows: tuple[int, ...]
    """Position of each slot's stretch in `stretches`."""
    crowded: tuple[tuple[int, ...], ...]
    """Slots that share a stretch, where there is more than one."""

    @property
    def has(self) -> tuple[str, ...]:
        """Kinds of surfaces that occur, and "side" if any has one (a torus never does)."""
        pairs = zip(self.slots, self.kinds, strict=True)
        sided = [slot.surface for slot, kind in pairs if kind != "torus"]
        side = ["side"] if self.sides[:, sided].any() else []
        return (*sorted(set(self.kinds)), *side)


@functools.lru_cache(maxsize=64)
def plan_of(layout: PathLayout, topology: Topology) -> Plan:
    def link(body: int) -> int:
        return -1 if body < 0 else topology.body_links[body]

    links = tuple(link(body) for body in layout.bodies)
    surface_links = tuple(link(surface.body) for surface in layout.surfaces)
    conditional = {point for point, _ in layout.conditional}
    drifting = conditional | {point for point, _ in layout.moving}
    wraps = [wrap for wrap in layout.wraps if layout.surfaces[wrap.surface].active]
    wraps.sort(key=lambda wrap: KINDS.index(layout.surfaces[wrap.surface].kind))

    def sunk(point: int, surface: int) -> bool:
        return point not in drifting and links[point] == surface_links[surface]

    slots = tuple(
        Slot(w.surface, w.unit, p, (sunk(p - 1, w.surface), sunk(p, w.surface)))
        for w in wraps
        for p in range(w.first + 1, w.last + 1)
    )
    starts = set(layout.starts)
    stretches = tuple(p for p in range(layout.n_points) if p not in starts)
    sides = np.zeros((3, len(layout.surfaces)))
    for s, surface in enumerate(layout.surfaces):
        sides[surface.side[0], s] = surface.side[1]
    groups: dict[int, list[int]] = {}
    for number, slot in enumerate(slots):
        groups.setdefault(slot.stretch, []).append(number)
    return Plan(
        links=links,
        surface_links=surface_links,
        sides=sides,
        stretches=stretches,
        before=tuple(_starts(p, conditional) for p in stretches),
        slots=slots,
        kinds=tuple(layout.surfaces[slot.surface].kind for slot in slots),
        rows=tuple(stretches.index(slot.stretch) for slot in slots),
        crowded=tuple(tuple(group) for group in groups.values() if len(group) > 1),
    )


def _starts(point: int, conditional: set[int]) -> tuple[int, ...]:
    found = [point - 1]
    while found[-1] in conditional:
        found.append(found[-1] - 1)
    return tuple(found)
