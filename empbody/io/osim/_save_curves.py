"""Constants of muscles' curves that were changed, written to the muscles' elements."""

from typing import Any

import numpy as np

from ...muscles._mixed import MixedCurves
from ._muscles import MILLARD
from ._save_forces import changed_leaves
from ._xml import Node

_THELEN = {
    "active_shape": "KshapeActive",
    "passive_strain": "FmaxMuscleStrain",
    "passive_shape": "KshapePassive",
    "concentric_shape": "Af",
    "plateau": "Flen",
    "eccentric_linear": "fv_linear_extrap_threshold",
}
_DE_GROOTE = {
    "active_width_scale": "active_force_width_scale",
    "passive_strain": "passive_fiber_strain_at_one_norm_force",
}
_OWN = {"Thelen2003Muscle": _THELEN, "DeGrooteFregly2016Muscle": _DE_GROOTE}


def write_curves(saving: Any) -> None:
    """**Raises:** `ValueError`, naming muscle and constant, for one that the file cannot hold."""
    new, old = (getattr(m.muscles, "curves", None) for m in (saving.model, saving.before))
    if new is None or old is None or not any(changed_leaves(new, old)):
        return
    nodes = {node.name: node for node in saving.source.spec.forces}
    every = tuple(range(saving.model.nm))
    mixed = isinstance(new, MixedCurves) and isinstance(old, MixedCurves)
    families = zip(new.families, old.families, old.units, strict=True) if mixed else (
        (new, old, every),
    )  # fmt: skip
    for after, before, units in families:
        if type(after) is not type(before):
            name = saving.model.muscle_names[units[0]]
            raise ValueError(f"muscle {name!r} has curves of another kind than in its file")
        for what, value in vars(after).items():
            if any(changed_leaves(value, getattr(before, what))):
                for unit in units:
                    node = nodes[saving.model.muscle_names[unit]]
                    _constant(saving, node, what, value, unit, units)


def _constant(
    saving: Any, node: Node, what: str, value: Any, unit: int, units: tuple[int, ...]
) -> None:
    words = f"the constant {what!r} of the curves of {node.label} was changed"
    if not hasattr(value, "shape") or value.shape not in ((), (len(units),)):
        raise ValueError(f"{words}, which cannot be written to its element")
    number = float(np.asarray(value) if value.shape == () else value[units.index(unit)])
    tag = _OWN.get(node.tag, {}).get(what)
    if tag is not None:
        saving.document.set(node, tag, number)
        return
    for curve_tag, names in MILLARD.items():
        for tag, own in names.items():
            if own == what and node.tag == "Millard2012EquilibriumMuscle":
                curve = node.child(curve_tag)
                if curve is None:
                    raise ValueError(f"{words}, but it has no <{curve_tag}> to write to")
                if what == "tendon_stiffness":
                    number /= float(saving.model.muscles.parameters.tendon_strain[unit])
                saving.document.set(curve, tag, number)
                return
    raise ValueError(f"{words}, which cannot be written to its element")
