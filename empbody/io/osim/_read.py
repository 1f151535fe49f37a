"""From a file's elements to plain data, for every version of the format.

Before 4.0 a joint stands inside its child body, with placements as numbers; from 4.0 on
joints stand in a set of their own and connect frames by path.
"""

import numpy as np

from ._frames import FrameTable, finite, socket
from ._functions import IDENTITY, read_function
from ._read_joints import read_joint
from ._report import Notes, refuse
from ._spec import GROUND, BodySpec, CouplerSpec, MarkerSpec, ModelSpec
from ._xml import Node

OLDEST, NEWEST = 10900, 40699
ONE_INERTIA = 30500
"""From this version on a body's inertia is one property, before one for each entry."""
_MESH_TAGS = ("mesh_file", "geometry_file", "geometry_files")
_SAFE = {
    "credits", "publications", "length_units", "force_units", "gravity", "BodySet", "JointSet",
    "ConstraintSet", "ForceSet", "MarkerSet", "Ground", "ground", "defaults", "units",
}  # fmt: skip
_NO_MECHANICS = {
    "ControllerSet": "controls are given by the caller",
    "ContactGeometrySet": "surfaces act through contact forces only",
    "ProbeSet": "probes only measure",
    "ModelVisualPreferences": "display",
    "VisibleObject": "display",
    "assembly_accuracy": "couplers hold exactly",
    "visible": "display",
    "WrapObjectSet": "no body",
    "AnalysisSet": "analyses only measure",
    "attached_geometry": "display",
}
_COMPONENTS = ("ComponentSet", "components", "FrameSet", "frames", "MiscModelComponentSet")
_MEASURING = ("Station", "Marker", "StationDefinedFrame", "DataLogger", "TableReporter")
_LENGTHS = ("meters", "meter", "m", "unassigned", "")


def read_root(root: Node, notes: Notes, skip: bool = False) -> tuple[ModelSpec, FrameTable]:
    """What a file says, and its frames; `skip` leaves out parts that are not known.

    **Raises:** `FileFormatError`, naming the line, where the file makes no sense.
    """
    version, model = _document(root)
    if version > NEWEST:
        notes.warn(f"the file has version {version}, newer than {NEWEST}: look at the result")
    gravity = finite(model, "gravity", 3, (0.0, -9.80665, 0.0))
    ground, body_nodes = _bodies(model)
    spec = ModelSpec(
        file=root.file,
        version=version,
        name=model.name,
        root=root,
        model=model,
        ground=ground,
        gravity=(gravity[0], gravity[1], gravity[2]),
        ground_meshes=() if ground is None else _meshes(ground),
    )
    units = model.word("length_units").lower()
    if units not in _LENGTHS:
        notes.warn(f"the file names {units!r} as its unit of length; lengths are read as metres")
    for node in body_nodes:
        body = _body(node, version, notes)
        if not body.name or body.name == GROUND or body.name in spec.bodies:
            node.fail(f"a body needs a name of its own, not {body.name!r}")
        spec.bodies[body.name] = body
        notes.add("read", node)
    frames = FrameTable(spec.bodies, _offsets(model))
    frames.resolve_all()
    _joints(spec, frames, notes)
    spec.frames = frames.frames
    _constraints(spec, notes)
    _markers(spec, frames, notes)
    spec.forces = model.objects("ForceSet")
    _others(model, notes, skip)
    return spec, frames


def _document(root: Node) -> tuple[int, Node]:
    if root.tag != "OpenSimDocument":
        root.fail(f"the file starts with <{root.tag}>; <OpenSimDocument> is expected")
    text = root.attributes.get("Version", "")
    if not text.isascii() or not text.isdigit():
        root.fail(f"the file has no version number (Version={text!r})")
    version = int(text)
    if version < OLDEST:
        root.fail(
            f"version {version} is older than {OLDEST}; open and save the model in OpenSim first"
        )
    models = [node for node in root.children if node.tag == "Model"]
    if len(models) != 1:
        root.fail(f"the file holds {len(models)} <Model> elements; 1 is expected")
    return version, models[0]


def _bodies(model: Node) -> tuple[Node | None, list[Node]]:
    """The ground's element, and those of all bodies."""
    ground = model.child("Ground", "ground")
    bodies = []
    for node in model.objects("BodySet"):
        if node.tag != "Body":
            node.fail(f"{node.label} stands among the bodies; only <Body> is known there")
        if node.name == GROUND:
            ground = node
        else:
            bodies.append(node)
    return ground, bodies


def _body(node: Node, version: int, notes: Notes) -> BodySpec:
    com = np.asarray(finite(node, "mass_center", 3, (0.0,) * 3))
    mass = node.number("mass", 0.0)
    if not np.isfinite(mass) or mass < 0.0:
        node.fail(f"the mass of {node.label} is {mass:g} kg")
    tags = [f"inertia_{axes}" for axes in ("xx", "yy", "zz", "xy", "xz", "yz")]
    # An older file may have it too (`save` writes it for its digits); OpenSim 4 prefers it.
    if version >= ONE_INERTIA or node.all("inertia"):
        xx, yy, zz, xy, xz, yz = finite(node, "inertia", 6, (0.0,) * 6)
        for unread in node.all(*tags):
            if version < ONE_INERTIA:
                continue
            words = f"left out as by OpenSim, which reads <inertia> in version {version}"
            notes.add("approximated", unread, f"{node.label}: {words}")
    else:
        xx, yy, zz, xy, xz, yz = (node.number(tag, 0.0) for tag in tags)
    inertia = np.asarray([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if not np.all(np.isfinite(inertia)):
        node.fail(f"the inertia of {node.label} is not finite")
    return BodySpec(node.name, mass, com, inertia, _meshes(node), node)


def _meshes(node: Node) -> tuple[str, ...]:
    return tuple(
        word for held in node.walk() if held.tag in _MESH_TAGS for word in held.text.split()
    )


def _offsets(model: Node) -> dict[str, Node]:
    """All offset frames by their absolute path."""
    found: dict[str, Node] = {}
    for node in model.walk():
        if node.tag == "PhysicalOffsetFrame":
            path = _absolute(node)
            if path in found:
                node.fail(f"there are two frames {path!r}")
            found[path] = node
    return found


def _absolute(node: Node) -> str:
    """Absolute path of a component: names of the components around it, sets in small letters."""
    parts: list[str] = []
    here: Node | None = node
    while here is not None and here.tag != "Model":
        if here.tag.endswith("Set"):
            parts.append(here.tag.lower())
        elif here.name and here.tag not in ("objects", "frames", "components"):
            parts.append(here.name)
        here = here.parent
    return "/" + "/".join(reversed(parts))


def _joints(spec: ModelSpec, frames: FrameTable, notes: Notes) -> None:
    nodes: list[tuple[Node, str | None]] = [(node, None) for node in spec.model.objects("JointSet")]
    for body in spec.bodies.values():
        holder = body.node.child("Joint")
        nodes += [(node, body.name) for node in ([] if holder is None else holder.children)]
    names: set[str] = set()
    for node, child in nodes:
        joint, coordinates = read_joint(node, child, frames, spec.version, notes)
        if joint.name in names:
            node.fail(f"there are two joints {joint.name!r}")
        names.add(joint.name)
        spec.joints.append(joint)
        notes.add("read", node)
        for coordinate in coordinates:
            if coordinate.name in spec.coordinates:
                other = spec.coordinates[coordinate.name].joint
                coordinate.node.fail(
                    f"the coordinate {coordinate.name!r} of joint {joint.name!r} is one of joint "
                    f"{other!r} too; give each its own name"
                )
            spec.coordinates[coordinate.name] = coordinate
            notes.add("read", coordinate.node)


def _constraints(spec: ModelSpec, notes: Notes) -> None:
    for node in spec.model.objects("ConstraintSet"):
        enforced = not node.flag("isDisabled", False) and node.flag("isEnforced", True)
        if not enforced:
            notes.add("ignored", node, "not enforced in the file")
        elif node.tag == "CoordinateCouplerConstraint":
            spec.couplers.append(_coupler(node, spec))
            notes.add("read", node, "substituted: no constraint remains")
        else:
            spec.constraints.append(node)


def _coupler(node: Node, spec: ModelSpec) -> CouplerSpec:
    dependent = node.need("dependent_coordinate_name").text.rsplit("/", 1)[-1]
    names = node.words("independent_coordinate_names")
    independent = tuple(name.rsplit("/", 1)[-1] for name in names)
    for name in (dependent, *independent):
        if name not in spec.coordinates:
            node.fail(f"{node.label} names the coordinate {name!r}, which does not exist")
    holder = node.child("coupled_coordinates_function")
    function = IDENTITY if holder is None else read_function(holder)
    if function is None or holder is None:
        node.fail(f"{node.label} has no function")
    scale = node.number("scale_factor", 1.0)
    if not np.isfinite(scale):
        node.fail(f"the scale factor of {node.label} is {scale}")
    if function.arity is not None and function.arity != len(independent):
        node.fail(
            f"{node.label} names {len(independent)} independent coordinates for a "
            f"{function.kind} of {function.arity}"
        )
    return CouplerSpec(node.name, dependent, independent, function.scaled(scale), True, node)


def _markers(spec: ModelSpec, frames: FrameTable, notes: Notes) -> None:
    for node in spec.model.objects("MarkerSet"):
        if node.tag != "Marker":
            node.fail(f"{node.label} stands among the markers; only <Marker> is known there")
        place = socket(node, "parent_frame") or node.word("body")
        body, frame = frames.find(place, node)
        local = np.asarray(finite(node, "location", 3, (0.0,) * 3))
        location = frame[:3, :3] @ local + frame[:3, 3]
        if any(marker.name == node.name for marker in spec.markers):
            node.fail(f"there are two markers {node.name!r}")
        spec.markers.append(MarkerSpec(node.name, body, location, node))
        notes.add("read", node)


def _others(model: Node, notes: Notes, skip: bool) -> None:
    """Whatever else a model element may hold."""
    for node in model.children:
        held = node.child("objects")
        members = node.children if held is None else held.children
        if node.tag in _NO_MECHANICS:
            for member in members:
                notes.add("ignored", member, _NO_MECHANICS[node.tag])
        elif node.tag in _COMPONENTS:
            for member in members:
                if member.tag in _MEASURING:
                    notes.add("ignored", member, "it takes no part in the motion")
                elif member.tag not in ("PhysicalOffsetFrame", "groups"):
                    refuse(notes, member, "this kind of component is not supported", skip)
        elif node.tag not in _SAFE and node.children:
            refuse(notes, node, "this part of a model is not known", skip)
