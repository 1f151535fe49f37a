"""The force set of a file: muscles, strings, springs, stops; what is left out and why."""

from typing import NamedTuple

from ...model import AbstractForce, AbstractUnit, Path, Surface
from ...paths._tension import AbstractTension, PathForce
from ._context import Context
from ._elements import CONTROLLED, bushing, generalised_springs, point_spring, soft_stops
from ._muscles import READERS, MuscleReader
from ._paths import PathRead, read_path
from ._strings import LAWS
from ._wraps import WrapTable, read_wraps
from ._xml import Node


class Forces(NamedTuple):
    """What a model is built with."""

    units: list[AbstractUnit]
    surfaces: list[Surface]
    forces: list[AbstractForce]


def read_forces(context: Context) -> Forces:
    """Units, surfaces and force elements of a file's force set.

    Muscles keep their names and order. Ligaments and springs along paths are force elements
    (`PathForce`): nothing excites them. Paths that only a control pulls are units without
    force parameters where the file has no muscle, else strings without tension.

    **Raises:** `UnsupportedElementError` for a force that is not known, unless such are to be
    skipped; `FileFormatError` for one that makes no sense.
    """
    table = read_wraps(context) if context.wrapping else WrapTable({}, {})
    active = [node for node in context.spec.forces if _acts(context, node)]
    muscles = MuscleReader(context)
    strings = _Strings(context)
    forces: list[AbstractForce] = []
    stops = [node for node in active if node.tag == "CoordinateLimitForce"]
    springs = [node for node in active if node.tag == "SpringGeneralizedForce"]
    for node in active:
        if node.tag in READERS:
            path = read_path(context, node, table)
            if path is not None:
                muscles.add(node, path)
        elif node.tag in LAWS:
            strings.add(node, table)
        elif node.tag in CONTROLLED:
            words = "it acts only by a control: give its force to the simulation instead"
            context.note("ignored", node, words)
        elif node.tag == "PointToPointSpring":
            forces.append(point_spring(context, node))
        elif node.tag == "BushingForce":
            forces.append(bushing(context, node))
        elif node not in stops and node not in springs:
            context.refuse(node, "this kind of force is not supported")
    units: list[AbstractUnit] = [*muscles.finish()]
    if not units:
        units = strings.take_controlled()
    forces += soft_stops(context, stops) + generalised_springs(context, springs)
    surfaces = [*table.surfaces.values()] if units else []
    return Forces(units, surfaces, forces + strings.finish(table))


def acts(node: Node) -> bool:
    """Whether the file has a force switched on."""
    return node.flag("appliesForce", True) and not node.flag("isDisabled", False)


def _acts(context: Context, node: Node) -> bool:
    if not acts(node):
        context.note("ignored", node, "it is switched off in the file")
        return False
    return True


class _Strings:
    """Ligaments, springs along paths and cables."""

    def __init__(self, context: Context):
        self.context = context
        self.found: list[tuple[Node, PathRead, AbstractTension]] = []

    def add(self, node: Node, table: WrapTable) -> None:
        path = read_path(self.context, node, table)
        law = None if path is None else LAWS[node.tag](self.context, node)
        if path is not None and law is not None:
            self.found.append((node, path, law))
            if node.tag != "PathActuator":
                self.context.note("read", node, "as a string among the forces, not a muscle")

    def take_controlled(self) -> list[AbstractUnit]:
        """Paths that only a control pulls, as units; they are strings no more."""
        taken = [(node, path) for node, path, _ in self.found if node.tag == "PathActuator"]
        self.found = [entry for entry in self.found if entry[0].tag != "PathActuator"]
        return [Path(node.name, path.points, path.wraps) for node, path in taken]

    def finish(self, table: WrapTable) -> list[AbstractForce]:
        if not self.found:
            return []
        paths = [Path(node.name, path.points, path.wraps) for node, path, _ in self.found]
        used = {wrap.surface for path in paths for wrap in path.wraps}
        return [PathForce(paths, [law for _, _, law in self.found], table.used_by(used))]
