"""Joint variables that another rhythm moves, as couplers or functions of a file."""

import itertools
import xml.etree.ElementTree as ElementTree
from typing import Any

import jax
import numpy as np

from ._expressions import coordinate
from ._save_check import samples
from ._save_functions import Form, form_of, sampled, write_form


def write_rhythm(saving: Any, tolerance: float) -> float:
    """Write what moves the joint variables where it was changed; the error allowed by it."""
    new, old = saving.model.rhythm, saving.before.rhythm
    if jax.tree.structure(new) == jax.tree.structure(old) and all(
        np.array_equal(a, b, equal_nan=True)
        for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True)
    ):
        return 0.0
    q = samples(saving.model, 32)
    values, slopes = (np.asarray(jax.vmap(f)(q)) for f in (new, new.jacobian))
    before = np.asarray(jax.vmap(old)(q))
    moved = np.max(np.abs(values - before), axis=0) > 1e-14
    allowed = 0.0
    written: set[str] = set()
    for k in np.flatnonzero(moved):
        inputs = [n for n, s in zip(saving.model.coordinate_names, slopes[:, k].T, strict=True)
                  if np.any(s != 0.0)]  # fmt: skip
        form = form_of(new, int(k), saving.model.coordinate_names)
        name = saving.model.joint_names[k]
        if form is None and len(inputs) == 1:
            form, error = sampled(new, int(k), saving.model, inputs[0])
            if error > tolerance:
                raise ValueError(
                    f"joint variable {name!r} follows {inputs[0]!r} by a {type(new).__name__}, "
                    f"which a SimmSpline meets to {error:.1e} only; fit a SimmSpline, or allow "
                    "more with tolerance="
                )
            saving.notes.append(
                f"joint variable {name!r} is sampled as a SimmSpline of {inputs[0]!r}: error "
                f"{error:.1e} (rad or m) at most"
            )
            allowed = max(allowed, 2.0 * error)
        if form is None:
            raise ValueError(
                f"joint variable {name!r} follows {', '.join(inputs)} by a {type(new).__name__}, "
                "which no function of the format expresses; fit a Polynomial instead"
            )
        _write(saving, name, form, written)
    return allowed


def _write(saving: Any, name: str, form: Form, written: set[str]) -> None:
    spec = saving.source.spec
    axis = next(a for j in spec.joints for a in j.axes if f"{j.name}.{a.name}" == name)
    own = axis.coordinates
    plain = len(own) == 1 and axis.function.of([coordinate(own[0])]).coordinate == own[0]
    if plain and own[0] not in saving.model.coordinate_names:
        if own[0] not in written:
            _coupler(saving, own[0], form)
            written.add(own[0])
    elif plain:
        raise ValueError(
            f"joint variable {name!r} is the free coordinate {own[0]!r} in the file; it cannot "
            "become a function of others"
        )
    elif axis.node.tag == "TransformAxis" and set(form.inputs) <= set(own):
        element = saving.document.element(axis.node)
        holder = None
        for child in list(element):
            if isinstance(child.tag, str) and child.tag not in ("axis", "coordinates"):
                if child.tag == "function":
                    holder = child
                else:
                    element.remove(child)
        saving.document.set(axis.node, "coordinates", list(form.inputs) or list(own[:1]))
        if holder is None:
            write_form(element, form).set("name", "function")
        else:
            for child in list(holder):
                holder.remove(child)
            write_form(holder, form)
    else:
        raise ValueError(
            f"joint variable {name!r} is a function of {', '.join(own)} in the file; the new "
            f"rhythm makes it one of {', '.join(form.inputs)}, which no coupler expresses"
        )


def _coupler(saving: Any, name: str, form: Form) -> None:
    spec, document = saving.source.spec, saving.document
    inputs = list(form.inputs) or [saving.model.coordinate_names[0]]
    given = spec.coordinates[name]
    if given.locked or name in dict(saving.source.options[0]):
        document.set(given.node, "locked", False)
    old = next((c for c in spec.couplers if c.dependent == name), None)
    if old is None:
        element = _new_coupler(document, spec, f"{name}_rhythm")
    else:
        element = document.element(old.node)
    enforced = ("isEnforced", True) if spec.version >= 40000 else ("isDisabled", False)
    for tag, value in (
        enforced,
        ("coupled_coordinates_function", ""),
        ("independent_coordinate_names", inputs),
        ("dependent_coordinate_name", name),
        ("scale_factor", 1.0),
    ):
        document.set(element, tag, value)
    holder = element.find("coupled_coordinates_function")
    assert holder is not None
    write_form(holder, form, inputs)


def _new_coupler(document: Any, spec: Any, name: str) -> ElementTree.Element:
    model = document.element(spec.model)
    place = model.find("ConstraintSet")
    if place is None:
        place = ElementTree.SubElement(model, "ConstraintSet")
    objects = place.find("objects")
    if objects is None:
        objects = ElementTree.SubElement(place, "objects")
    taken = {e.get("name") for e in objects}
    unique = next(
        n for n in itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
        if n not in taken
    )  # fmt: skip
    return ElementTree.SubElement(objects, "CoordinateCouplerConstraint", {"name": unique})
