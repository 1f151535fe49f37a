"""A model that came from an .osim file, written back as one."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from ...model import Model
from .._atomic import replacing
from ._document import Document, angles, six_digits_hold
from ._frames import inverse, seen_from, socket
from ._read import ONE_INERTIA
from ._save_check import compare, names_of
from ._save_curves import write_curves
from ._save_forces import write_forces
from ._save_joints import write_axes, write_placements
from ._save_paths import write_points
from ._save_rhythm import write_rhythm
from ._source import Source
from ._spec import GROUND
from ._xml import Node

_MUSCLE_TAGS = {
    "max_isometric_force": ("max_isometric_force",),
    "optimal_fibre_length": ("optimal_fiber_length",),
    "tendon_slack_length": ("tendon_slack_length",),
    "pennation": ("pennation_angle_at_optimal", "pennation_angle"),
    "max_contraction_velocity": ("max_contraction_velocity", "Vmax"),
    "activation_time": ("activation_time_constant",),
    "deactivation_time": ("deactivation_time_constant",),
    "minimum_activation": ("minimum_activation",),
}
_STRAIN_TAGS = {
    "Thelen2003Muscle": "FmaxTendonStrain",
    "DeGrooteFregly2016Muscle": "tendon_strain_at_one_norm_force",
}


@dataclass
class Saving:
    """One model on its way into one document."""

    model: Model
    before: Model
    source: Source
    document: Document
    notes: list[str] = field(default_factory=list)

    def changed(self, get: Callable[[Model], jax.Array]) -> np.ndarray:
        """For each row of an array of the model, whether it differs from the file's."""
        new, old = np.asarray(get(self.model)), np.asarray(get(self.before))
        if new.shape != old.shape:
            raise ValueError(f"an array of shape {old.shape} has now {new.shape}")
        different = ~((new == old) | (np.isnan(new) & np.isnan(old)))
        return different.reshape(len(new), -1).any(axis=1) if new.size else np.zeros(len(new), bool)


def save(model: Model, path: str | os.PathLike[str], *, tolerance: float = 1e-6) -> tuple[str, ...]:
    """Write a model that came from an .osim file as an .osim file of the same version.

    The file's document is written back with the numbers that were changed since: masses,
    centres of mass, inertias, gravity, placements of joints, markers, path points (functions
    of moving and ranges of conditional ones too), muscle parameters and curves, wrap surfaces,
    springs, limits, bushings and ligaments, default values and ranges of coordinates. What the
    caller locked or freed when loading is locked or free in the new file. Joint variables
    that another rhythm moves become couplers (LinearFunction, PolynomialFunction,
    MultivariatePolynomialFunction or SimmSpline); a rhythm of another family that depends
    on one coordinate is sampled as a SimmSpline.

    The new document is read again and compared with the model before the file appears.

    **Arguments:**

    - `tolerance`: largest error (rad or m) of a joint variable that is sampled.

    **Returns:** sentences about what is not exact, such as the error of a sampled rhythm.

    **Raises:** `ValueError`, naming the part, for a model that did not come from an .osim
    file, or was changed in a way that the format cannot express.
    """
    source = model.source
    if not isinstance(source, Source):
        raise ValueError("this model did not come from an .osim file: it cannot be saved as one")
    before = source.pristine["model"]
    if names_of(model) != names_of(before):
        raise ValueError(
            "coordinates, joints, bodies, markers or muscles were added or taken away since the "
            "model was loaded; an .osim file can be written with other numbers only"
        )
    document = Document(source.document, source.spec.root)
    saving = Saving(model, before, source, document)
    _bodies(saving)
    _choices(saving)
    _coordinates(saving)
    write_axes(saving)
    write_placements(saving)
    _markers(saving)
    write_points(saving, model.paths, before.paths)
    _surfaces(saving)
    _muscles(saving)
    write_curves(saving)
    write_forces(saving)
    allowed = write_rhythm(saving, tolerance)
    content = document.write()
    compare(model, before, content, os.fspath(path), allowed)
    with replacing(path) as part:
        part.write_bytes(content)
    return tuple(saving.notes)


def _bodies(saving: Saving) -> None:
    spec, model, document = saving.source.spec, saving.model, saving.document
    if saving.changed(lambda m: m.gravity).any():
        document.set(spec.model, "gravity", np.asarray(model.gravity))
    for b, name in enumerate(model.body_names):
        node = spec.bodies[name].node
        if saving.changed(lambda m: m.mass)[b]:
            document.set(node, "mass", model.mass[b])
        if saving.changed(lambda m: m.com)[b]:
            document.set(node, "mass_center", np.asarray(model.com[b]))
        if saving.changed(lambda m: m.inertia)[b]:
            i = np.asarray(model.inertia[b])
            six = [i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2]]
            old = spec.version < ONE_INERTIA
            # OpenSim 4 reads six digits of the old elements, and all of the new one.
            if not old or not six_digits_hold(six) or node.all("inertia"):
                document.set(node, "inertia", six)
            if old:
                for axes, value in zip(("xx", "yy", "zz", "xy", "xz", "yz"), six, strict=True):
                    document.set(node, f"inertia_{axes}", value)


def _choices(saving: Saving) -> None:
    """Coordinates that the caller locked or freed."""
    spec, document = saving.source.spec, saving.document
    locked, freed = dict(saving.source.options[0]), saving.source.options[1]
    for name, value in locked.items():
        node = _own(spec.coordinates[name].node)
        document.set(node, "locked", True)
        document.set(node, "default_value", value)
    for name in freed:
        given = spec.coordinates[name]
        if given.locked:
            document.set(_own(given.node), "locked", False)
        if given.prescribed is not None:
            document.set(_own(given.node), "prescribed", False)
    for coupler in spec.couplers:
        if coupler.dependent in locked or coupler.dependent in freed:
            if spec.version >= 40000:
                document.set(coupler.node, "isEnforced", False)
            else:
                document.set(coupler.node, "isDisabled", True)


def _coordinates(saving: Saving) -> None:
    model, spec = saving.model, saving.source.spec
    default = saving.changed(lambda m: m.default_q)
    ends = saving.changed(lambda m: m.lower) | saving.changed(lambda m: m.upper)
    for k, name in enumerate(model.coordinate_names):
        if default[k]:
            node = _own(spec.coordinates[name].node)
            older = node.all("initial_value") and not node.all("default_value")
            tag = "initial_value" if older else "default_value"
            saving.document.set(node, tag, model.default_q[k])
        if ends[k]:
            node = _own(spec.coordinates[name].node)
            saving.document.set(node, "range", [model.lower[k], model.upper[k]])


def _own(node: Node) -> Node:
    if node.tag != "Coordinate":
        raise ValueError(f"a coordinate of {node.label} has no element of its own to write to")
    return node


def _markers(saving: Saving) -> None:
    moved = saving.changed(lambda m: m.marker_positions)
    for k, marker in enumerate(saving.source.spec.markers):
        if moved[k]:
            frame = socket(marker.node, "parent_frame") or marker.node.word("body")
            at = _in_frame(saving, frame, marker.node, saving.model.marker_positions[k])
            saving.document.set(marker.node, "location", at)


def _in_frame(saving: Saving, frame: str, node: Node, at: jax.Array) -> np.ndarray:
    """A point of a body in the frame that the file gives it in."""
    back = inverse(saving.source.context.body_of(frame, node)[1])
    return back[:3, :3] @ np.asarray(at, dtype=np.float64) + back[:3, 3]


def _surfaces(saving: Saving) -> None:
    paths, document = saving.model.paths, saving.document
    placed = saving.changed(lambda m: m.paths.surface_translation)
    placed = placed | saving.changed(lambda m: m.paths.surface_rotation)
    sized = saving.changed(lambda m: m.paths.surface_size)
    for k, slot in enumerate(paths.layout.surfaces):
        node = saving.source.context.wrap_nodes[slot.name]
        size = np.asarray(paths.surface_size[k])
        if sized[k] and slot.kind == "cylinder":
            document.set(node, "radius", size[0])
            if np.isfinite(size[1]):
                document.set(node, "length", size[1])
        elif sized[k] and slot.kind == "sphere":
            document.set(node, "radius", size[0])
        elif sized[k] and slot.kind == "ellipsoid":
            document.set(node, "dimensions", size)
        elif sized[k]:
            document.set(node, "inner_radius", size[0])
            document.set(node, "outer_radius", size[1])
        if placed[k]:
            place = np.eye(4)
            place[:3, :3] = np.asarray(paths.surface_rotation[k])
            place[:3, 3] = np.asarray(paths.surface_translation[k])
            holder = node
            while holder.tag != "WrapObjectSet" and holder.parent is not None:
                holder = holder.parent
            holder = holder.parent or holder
            frame = GROUND if holder.tag == "Ground" else holder.name
            place = seen_from(saving.source.context.body_of(frame, node)[1], place)
            document.set(node, "translation", place[:3, 3])
            document.set(node, "xyz_body_rotation", angles(place[:3, :3]))


def _muscles(saving: Saving) -> None:
    if saving.model.muscles is None:
        return
    nodes = {node.name: node for node in saving.source.spec.forces}
    for what in (*_MUSCLE_TAGS, "tendon_strain", "damping"):
        try:
            changed = saving.changed(lambda m, w=what: getattr(_parameters(m), w))
        except AttributeError:
            continue
        values = np.asarray(getattr(_parameters(saving.model), what))
        for k in np.flatnonzero(changed):
            _muscle_number(saving, nodes[saving.model.muscle_names[k]], what, float(values[k]))


def _parameters(model: Model) -> Any:
    return getattr(model.muscles, "parameters", None)


def _muscle_number(saving: Saving, node: Node, what: str, value: float) -> None:
    document = saving.document
    if what == "tendon_strain" and node.tag == "Millard2012EquilibriumMuscle":
        curve = node.child("TendonForceLengthCurve")
        if curve is None or curve.parent is not node:
            raise ValueError(f"{node.label} has no <TendonForceLengthCurve> to write its strain to")
        document.set(curve, "strain_at_one_norm_force", value)
        if curve.word("stiffness_at_one_norm_force"):
            before = curve.number("strain_at_one_norm_force", 0.049)
            stiffness = curve.number("stiffness_at_one_norm_force") * before / value
            document.set(curve, "stiffness_at_one_norm_force", stiffness)
    elif what == "tendon_strain":
        if node.tag not in _STRAIN_TAGS:
            raise ValueError(
                f"the tendon's strain of {node.label} is part of its curve: change that"
            )
        document.set(node, _STRAIN_TAGS[node.tag], value)
    elif what == "damping":
        document.set(node, "damping" if node.tag.startswith("Schutte") else "fiber_damping", value)
    else:
        tags = _MUSCLE_TAGS[what]
        present = [tag for tag in tags if node.all(tag)]
        document.set(node, present[0] if present else tags[0], value)
