"""Muscles of a file: each model's parameters as a `Muscle`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...muscles import (
    DeGrooteFregly,
    Millard,
    Muscle,
    SmoothActivation,
    SwitchedActivation,
    Thelen,
)
from ...muscles._activation import AbstractActivation
from ...muscles._curves import AbstractCurves
from ...muscles._mixed_activation import MixedActivation
from ...muscles._tabulated import Tabulated
from ...muscles._zajac import ZajacActivation
from ...rhythms import SimmSpline
from ._context import Context
from ._passive import WithoutPassive
from ._paths import PathRead
from ._xml import Node

MILLARD = {
    "ActiveForceLengthCurve": {
        "min_norm_active_fiber_length": "active_shortest",
        "transition_norm_fiber_length": "active_transition",
        "max_norm_active_fiber_length": "active_longest",
        "shallow_ascending_slope": "active_shallow_slope",
        "minimum_value": "active_least",
    },
    "ForceVelocityCurve": {
        "concentric_slope_at_vmax": "concentric_slope_at_end",
        "concentric_slope_near_vmax": "concentric_slope_near_end",
        "isometric_slope": "isometric_slope",
        "eccentric_slope_at_vmax": "eccentric_slope_at_end",
        "eccentric_slope_near_vmax": "eccentric_slope_near_end",
        "max_eccentric_velocity_force_multiplier": "plateau",
        "concentric_curviness": "concentric_curviness",
        "eccentric_curviness": "eccentric_curviness",
    },
    "FiberForceLengthCurve": {
        "strain_at_zero_force": "passive_strain_at_zero",
        "strain_at_one_norm_force": "passive_strain",
        "stiffness_at_low_force": "passive_low_stiffness",
        "stiffness_at_one_norm_force": "passive_stiffness",
        "curviness": "passive_curviness",
    },
    "TendonForceLengthCurve": {
        "stiffness_at_one_norm_force": "tendon_stiffness",
        "norm_force_at_toe_end": "tendon_toe_force",
        "curviness": "tendon_curviness",
    },
}
_LEAST_DAMPING = 0.001
"""Below this, OpenSim's Millard muscle has no damping."""


@dataclass
class Draft:
    """A muscle as the file has it, before all muscles of the model are made alike."""

    node: Node
    path: PathRead
    numbers: dict[str, float]
    curves: AbstractCurves
    activation: tuple[str, float] | None
    """Kind of activation dynamics and its smoothing; None where activation is excitation."""
    rigid: bool


@dataclass
class MuscleReader:
    """Reads muscles one by one; `finish` makes them a list for a model.

    Curves with equal constants are one object, so that the model holds them once.
    """

    context: Context
    drafts: list[Draft] = field(default_factory=list)
    shared: dict[Any, AbstractCurves] = field(default_factory=dict)

    def add(self, node: Node, path: PathRead) -> None:
        self.drafts.append(READERS[node.tag](self, node, path))
        self.context.note("read", node, "")

    def curves(self, kind: Callable[..., AbstractCurves], **constants: float) -> AbstractCurves:
        key = (kind, tuple(sorted(constants.items())))
        if key not in self.shared:
            self.shared[key] = kind(**constants)
        return self.shared[key]

    def finish(self) -> list[Muscle]:
        if not self.drafts:
            return []
        rigid = self._rigid()
        activation = self._activation()
        return [self._muscle(draft, rigid, activation) for draft in self.drafts]

    def _rigid(self) -> bool:
        """Whether tendons are rigid: all of them are, or none."""
        stiff = [draft for draft in self.drafts if draft.rigid]
        if len(stiff) in (0, len(self.drafts)):
            return bool(stiff)
        for draft in stiff:
            words = "its tendon is rigid, but other muscles have elastic ones: it is elastic here"
            self.context.note("approximated", draft.node, words)
        return False

    def _activation(self) -> AbstractActivation | None:
        """Activation dynamics of all muscles; None where none has any."""
        kinds = [draft.activation for draft in self.drafts]
        present = [kind for kind in dict.fromkeys(kinds) if kind is not None]
        if not present:
            return None
        for number, draft in enumerate(self.drafts):
            if draft.activation is None:
                words = "its activation is its excitation, but other muscles have activation "
                words += f"dynamics: here it has some ({present[0][0]})"
                self.context.note("approximated", draft.node, words)
                kinds[number] = present[0]
        made = [_DYNAMICS[kind](smoothing) for kind, smoothing in present]
        if len(made) == 1:
            return made[0]
        groups = [[n for n, kind in enumerate(kinds) if kind == one] for one in present]
        return MixedActivation(made, groups)

    def _muscle(self, draft: Draft, rigid: bool, activation: Any) -> Muscle:
        numbers = dict(draft.numbers)
        if not rigid and numbers["damping"] <= 0.0 and numbers["minimum_activation"] <= 0.0:
            numbers["minimum_activation"] = 0.01
            words = "without damping its activation is held above 0.01 here"
            self.context.note("approximated", draft.node, words)
        return Muscle(
            draft.node.name,
            draft.path.points,
            draft.path.wraps,
            curves=draft.curves,
            tendon="rigid" if rigid else "elastic",
            activation_dynamics=activation,
            **numbers,  # pyright: ignore[reportArgumentType]
        )

    def numbers(self, node: Node, **own: float) -> dict[str, float]:
        """What all muscle models have, checked, and what this one adds."""
        found = {
            "max_isometric_force": _positive(node, "max_isometric_force", 1000.0),
            "optimal_fibre_length": _positive(node, "optimal_fiber_length", 0.1),
            "tendon_slack_length": node.number("tendon_slack_length", 0.2),
            "pennation": _alias(node, "pennation_angle_at_optimal", "pennation_angle", 0.0),
            "max_contraction_velocity": _alias(node, "max_contraction_velocity", "Vmax", 10.0),
        }
        if found["tendon_slack_length"] == 0.0:
            found["tendon_slack_length"] = 1e-3 * found["optimal_fibre_length"]
            words = "it has no tendon; here it has one of a thousandth of its fibre's length"
            self.context.note("approximated", node, words)
        found |= own
        for what, value in found.items():
            if not np.isfinite(value) or value < 0.0:
                label = what.replace("_", " ")
                node.fail(f"{label} of {node.label} is {value:g}; a finite number ≥ 0 is expected")
        if not found["pennation"] < 0.5 * np.pi:
            node.fail(
                f"pennation of {node.label} is {found['pennation']:g} rad; it must be below π/2"
            )
        for what in ("tendon_slack_length", "max_contraction_velocity", "tendon_strain"):
            if found.get(what, 1.0) <= 0.0:
                node.fail(f"{what.replace('_', ' ')} of {node.label} is 0; it must be positive")
        return found


_DYNAMICS: dict[str, Callable[[float], AbstractActivation]] = {
    "smooth": SmoothActivation,
    "switched": lambda _: SwitchedActivation(),
    "zajac": lambda _: ZajacActivation(),
}


def _positive(node: Node, tag: str, default: float) -> float:
    value = node.number(tag, default)
    if not (value > 0.0 and np.isfinite(value)):
        node.fail(f"<{tag}> of {node.label} is {value:g}; it must be positive")
    return value


def _alias(node: Node, tag: str, older: str, default: float) -> float:
    return node.number(tag, node.number(older, default))


def _times(node: Node, rise: float, fall: float) -> dict[str, float]:
    return {
        "activation_time": _positive(node, "activation_time_constant", rise),
        "deactivation_time": _positive(node, "deactivation_time_constant", fall),
    }


def _least(node: Node, default: float) -> float:
    return float(np.clip(node.number("minimum_activation", default), 0.0, 0.99))


def _dynamics(node: Node, kind: str, smoothing: float = 0.0) -> tuple[str, float] | None:
    return None if node.flag("ignore_activation_dynamics") else (kind, smoothing)


def _thelen(reader: MuscleReader, node: Node, path: PathRead) -> Draft:
    curves = reader.curves(
        Thelen,
        active_shape=_positive(node, "KshapeActive", 0.45),
        passive_strain=_positive(node, "FmaxMuscleStrain", 0.6),
        passive_shape=_positive(node, "KshapePassive", 5.0),
        concentric_shape=_positive(node, "Af", 0.25),
        plateau=_positive(node, "Flen", 1.4),
        eccentric_linear=_positive(node, "fv_linear_extrap_threshold", 0.95),
    )
    numbers = reader.numbers(
        node,
        **_times(node, 0.015, 0.05),
        tendon_strain=_positive(node, "FmaxTendonStrain", 0.04),
        minimum_activation=_least(node, 0.01),
        damping=0.0,
    )
    rigid = node.flag("ignore_tendon_compliance")
    return Draft(node, path, numbers, curves, _dynamics(node, "switched"), rigid)


def _millard(reader: MuscleReader, node: Node, path: PathRead) -> Draft:
    damping = node.number("fiber_damping", 0.1)
    damping = damping if damping >= _LEAST_DAMPING else 0.0
    rigid = node.flag("ignore_tendon_compliance")
    constants, strain = _millard_constants(node)
    least = _least(node, 0.01)
    if rigid or damping > 0.0:
        constants |= {"active_least": 0.0}
        constants |= {"concentric_slope_at_end": 0.0, "eccentric_slope_at_end": 0.0}
    else:
        # As OpenSim does for an undamped fibre on an elastic tendon.
        constants["active_least"] = max(constants.get("active_least", 0.1), 0.1)
        for phase, usual in (("concentric", 0.25), ("eccentric", 0.15)):
            half = 0.5 * constants.get(f"{phase}_slope_near_end", usual)
            end = f"{phase}_slope_at_end"
            constants[end] = max(constants.get(end, 0.0), half)
        least = max(least, 0.01)
    numbers = reader.numbers(
        node,
        **_times(node, 0.010, 0.040),
        tendon_strain=strain,
        minimum_activation=least,
        damping=damping,
    )
    curves = reader.curves(Millard, **constants)
    return Draft(node, path, numbers, curves, _dynamics(node, "switched"), rigid)


def _millard_constants(node: Node) -> tuple[dict[str, float], float]:
    """Constants of the curves that the file gives, and the tendon's strain at force 1."""
    constants: dict[str, float] = {}
    strain = 0.049
    for tag, names in MILLARD.items():
        curve = node.child(tag)
        if curve is None:
            continue
        given = {new: curve.number(old) for old, new in names.items() if curve.word(old)}
        if tag == "TendonForceLengthCurve":
            strain = _positive(curve, "strain_at_one_norm_force", 0.049)
            if "tendon_stiffness" in given:
                given["tendon_stiffness"] *= strain
        if tag == "FiberForceLengthCurve" and "passive_stiffness" not in given:
            span = given.get("passive_strain", 0.7) - given.get("passive_strain_at_zero", 0.0)
            if not span > 0.0:
                curve.fail(f"{curve.label}: the strain at force 1 must be above that at force 0")
            given["passive_stiffness"] = 2.0 / span
        if not np.all(np.isfinite(list(given.values()))):
            curve.fail(f"{curve.label} holds an infinite number")
        constants |= given
    return constants, strain


def _de_groote_fregly(reader: MuscleReader, node: Node, path: PathRead) -> Draft:
    curves = reader.curves(
        DeGrooteFregly,
        active_width_scale=_positive(node, "active_force_width_scale", 1.0),
        passive_strain=_positive(node, "passive_fiber_strain_at_one_norm_force", 0.6),
    )
    if node.flag("ignore_passive_fiber_force"):
        key = (WithoutPassive, id(curves))
        curves = reader.shared.setdefault(key, WithoutPassive(curves))
    numbers = reader.numbers(
        node,
        **_times(node, 0.015, 0.06),
        tendon_strain=_positive(node, "tendon_strain_at_one_norm_force", 0.049),
        minimum_activation=0.0,
        damping=node.number("fiber_damping", 0.0),
    )
    rigid = node.flag("ignore_tendon_compliance")
    implicit = node.word("tendon_compliance_dynamics_mode", "explicit") == "implicit"
    if numbers["damping"] > 0.0 and not rigid and not implicit:
        words = "OpenSim's explicit mode leaves damping out of the fibre's speed; here it counts"
        reader.context.note("approximated", node, words)
    smoothing = _positive(node, "activation_dynamics_smoothing", 0.1)
    return Draft(node, path, numbers, curves, _dynamics(node, "smooth", smoothing), rigid)


def _schutte(reader: MuscleReader, node: Node, path: PathRead) -> Draft:
    curves = _tabulated(reader, node, Tabulated, ("active", "passive", "tendon"))
    return _before_2003(reader, node, path, curves, node.number("damping", 0.1))


def _delp(reader: MuscleReader, node: Node, path: PathRead) -> Draft:
    curves = _tabulated(reader, node, Tabulated.delp, ("active", "passive", "tendon", "speed"))
    words = "the mass of its fibres is left out, and its activation is held above 0.01"
    reader.context.note("approximated", node, words)
    draft = _before_2003(reader, node, path, curves, 0.0)
    draft.numbers["minimum_activation"] = 0.01
    return draft


def _before_2003(
    reader: MuscleReader, node: Node, path: PathRead, curves: Tabulated, damping: float
) -> Draft:
    scale = _positive(node, "time_scale", 0.1)
    growth, decay = node.number("activation1", 7.667), _positive(node, "activation2", 1.459854)
    numbers = reader.numbers(
        node,
        activation_time=scale / (growth + decay),
        deactivation_time=scale / decay,
        tendon_strain=float(np.asarray(curves.tendon_strain)),
        minimum_activation=0.0,
        damping=damping,
    )
    numbers["max_contraction_velocity"] = 1.0 / scale
    return Draft(node, path, numbers, curves, _dynamics(node, "zajac"), False)


def _rigid_tendon(reader: MuscleReader, node: Node, path: PathRead) -> Draft:
    curves = _tabulated(reader, node, Tabulated.delp, ("active", "passive", "speed"))
    numbers = reader.numbers(
        node,
        tendon_strain=float(np.asarray(curves.tendon_strain)),
        minimum_activation=0.0,
        damping=0.0,
    )
    if numbers["pennation"] > 0.0:
        words = "its fibre's speed is taken along the fibre, and not along the tendon"
        reader.context.note("approximated", node, words)
    return Draft(node, path, numbers, curves, None, True)


_TABLES = {
    "active": "active_force_length_curve",
    "passive": "passive_force_length_curve",
    "tendon": "tendon_force_length_curve",
    "speed": "force_velocity_curve",
}


def _tabulated(
    reader: MuscleReader,
    node: Node,
    kind: Callable[..., Tabulated],
    which: Sequence[str],
) -> Tabulated:
    tables: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {}
    for what in which:
        found = _table(reader.context, node, _TABLES[what])
        if found is not None:
            tables[what] = found
    key = (kind, tuple(sorted(tables.items())))
    if key not in reader.shared:
        made = {what: SimmSpline(*table) for what, table in tables.items()}
        try:
            reader.shared[key] = kind(**made)
        except ValueError as error:
            node.fail(f"curves of {node.label}: {error}")
    curves = reader.shared[key]
    assert isinstance(curves, Tabulated)
    return curves


def _table(
    context: Context, node: Node, name: str
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Knots of a curve; None where the muscle has the curve of its kind."""
    holder = node.child(name)
    spline = next((child for child in node.children if child.name == name), None)
    if spline is None and holder is not None:
        spline = holder if holder.child("x") else next(iter(holder.children), None)
    if spline is None:
        return None
    if spline.tag not in ("SimmSpline", "NaturalCubicSpline", "natCubicSpline", name):
        words = f"<{name}> is a {spline.tag}; here a SimmSpline goes through its points"
        context.note("approximated", node, words)
    x, y = spline.vector("x"), spline.vector("y")
    if len(x) != len(y) or len(x) < 4 or np.any(np.diff(x) <= 0.0):
        spline.fail(f"<{name}> of {node.label} needs 4 points at least, with x increasing")
    if not np.all(np.isfinite([*x, *y])):
        spline.fail(f"<{name}> of {node.label} holds an infinite number")
    return x, y


READERS: dict[str, Callable[[MuscleReader, Node, PathRead], Draft]] = {
    "Thelen2003Muscle": _thelen,
    "Millard2012EquilibriumMuscle": _millard,
    "DeGrooteFregly2016Muscle": _de_groote_fregly,
    "Schutte1993Muscle": _schutte,
    "Schutte1993Muscle_Deprecated": _schutte,
    "RigidTendonMuscle": _rigid_tendon,
    "Delp1990Muscle": _delp,
    "Delp1990Muscle_Deprecated": _delp,
}
