"""Properties of mechanical elements that no reader has looked at."""

from ._elements import CONTROLLED
from ._forces import acts
from ._report import Notes
from ._spec import ModelSpec
from ._xml import Node

_WITHOUT_MEANING = frozenset(
    (
        # drawing
        *("Appearance", "FrameGeometry", "VisibleObject", "attached_geometry", "color"),
        *("display_preference", "frame_geometry", "geometry", "GeometrySet"),
        # states and solvers of OpenSim's own
        *("default_activation", "default_fiber_length", "default_normalized_tendon_force"),
        *("default_speed_value", "default_speed", "is_free_to_satisfy_constraints"),
        *("maximum_pennation_angle", "max_control", "min_control", "optimal_force", "keys"),
        *("fixed", "prescribed"),
        # looked at elsewhere
        *("components", "groups", "frames", "notes", "Joint", "WrapObjectSet"),
    )
)


def note_unread(spec: ModelSpec, notes: Notes) -> None:
    """Warn of properties that were left aside, once for each kind of element.

    A misspelt element is such a property, and one that only a newer OpenSim knows.
    """
    nodes = [body.node for body in spec.bodies.values()]
    nodes += [each.node for each in spec.coordinates.values() if each.node.tag == "Coordinate"]
    nodes += [node for node in spec.forces if acts(node) and node.tag not in CONTROLLED]
    nodes += [marker.node for marker in spec.markers]
    found: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        for child in node.children:
            if child.tag in node.asked | _WITHOUT_MEANING or child.name in node.asked:
                continue
            if child.text or child.children:
                found.setdefault((node.tag, child.tag), []).append(child)
    for (kind, tag), where in found.items():
        times = "" if len(where) == 1 else f", and in {len(where) - 1} more"
        notes.warn(f"<{tag}> of {kind} is not known and not used (line {where[0].line}{times})")
    for node in nodes:
        tags = [child.tag for child in node.children]
        for tag in {t for t in tags if tags.count(t) > 1 and t in node.asked}:
            notes.warn(f"{node.label} has <{tag}> {tags.count(tag)} times: the first one counts")
