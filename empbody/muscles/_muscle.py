"""A muscle as a user describes it: a path and the numbers of a Hill-type unit."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..model import AbstractMuscles, AbstractUnit, Wrap
from ..model._checks import is_concrete, numbers
from ..model._path import AnyPoint
from ._activation import AbstractActivation, SmoothActivation, SwitchedActivation
from ._curves import AbstractCurves
from ._de_groote_fregly import DeGrooteFregly
from ._hill import HillMuscles
from ._millard import Millard
from ._mixed import MixedCurves
from ._parameters import HillParameters
from ._thelen import Thelen

CURVES: dict[str, type[AbstractCurves]] = {
    "de_groote_fregly": DeGrooteFregly,
    "millard": Millard,
    "thelen": Thelen,
}
ACTIVATIONS: dict[str, type[AbstractActivation]] = {
    "smooth": SmoothActivation,
    "switched": SwitchedActivation,
}
_NUMBERS = (
    "max_isometric_force",
    "optimal_fibre_length",
    "tendon_slack_length",
    "pennation",
    "max_contraction_velocity",
    "damping",
    "activation_time",
    "deactivation_time",
    "tendon_strain",
    "minimum_activation",
)
_ALIKE = ("tendon", "formulation", "activation_dynamics")


@dataclass(frozen=True)
class Muscle(AbstractUnit):
    """A musculotendon unit that gives force: Hill-type fibre in series with a tendon.

    Numbers that are left out (None) are those that belong to the curves.

    `tendon`, `formulation` and `activation_dynamics` must be the same for all muscles of a
    model; curves and numbers are each muscle's own.
    """

    name: str
    points: Sequence[AnyPoint]
    """From origin to insertion."""
    wraps: Sequence[Wrap] = ()
    _: KW_ONLY
    max_isometric_force: Any
    """N"""
    optimal_fibre_length: Any
    """m"""
    tendon_slack_length: Any
    """m"""
    pennation: Any = 0.0
    """Angle between fibre and tendon at the optimal fibre length (rad)."""
    max_contraction_velocity: Any = 10.0
    """Optimal fibre lengths per second."""
    damping: Any = None
    """Fibre damping: share of the maximum isometric force at the maximum speed."""
    activation_time: Any = None
    """s"""
    deactivation_time: Any = None
    """s"""
    tendon_strain: Any = None
    """Strain of the tendon at the maximum isometric force."""
    minimum_activation: Any = 0.01
    curves: str | AbstractCurves = "de_groote_fregly"
    """"de_groote_fregly", "millard", "thelen", or curves with shape constants of one's own."""
    tendon: Literal["elastic", "rigid"] = "elastic"
    formulation: Literal["explicit", "implicit"] = "explicit"
    """State of an elastic tendon's muscle: fibre length (explicit) or tendon force (implicit)."""
    activation_dynamics: str | AbstractActivation | None = "smooth"
    """"smooth", "switched", dynamics of one's own, or None: activation is the excitation."""

    def __post_init__(self) -> None:
        self._choice("curves", self.curves, CURVES, AbstractCurves)
        self._choice("tendon", self.tendon, ("elastic", "rigid"))
        self._choice("formulation", self.formulation, ("explicit", "implicit"))
        if self.activation_dynamics is not None:
            dynamics = self.activation_dynamics
            self._choice("activation_dynamics", dynamics, ACTIVATIONS, AbstractActivation)
        if isinstance(self.curves, MixedCurves):
            raise ValueError(f"curves of muscle {self.name!r} are mixed; give those of one family")

    def _choice(self, what: str, value: Any, names: Any, kind: type | None = None) -> None:
        if kind is not None and isinstance(value, kind):
            return
        if not isinstance(value, str) or value not in names:
            known = f"{list(names)}" + ("" if kind is None else f" or an {kind.__name__}")
            raise ValueError(f"{what} of muscle {self.name!r} is {value!r}; choose from {known}")

    def number(self, what: str) -> Any:
        """One of the Hill numbers, or the value that belongs to the curves."""
        value, label = getattr(self, what), what.replace("_", " ")
        if value is None:
            kind = CURVES[self.curves] if isinstance(self.curves, str) else type(self.curves)
            typical = DeGrooteFregly.typical | getattr(kind, "typical", {})
            if what not in typical:
                raise ValueError(f"{label} of muscle {self.name!r} is None; give a number")
            value = typical[what]
        try:
            value = numbers(value)
        except (TypeError, ValueError):
            message = f"{label} of muscle {self.name!r} is {value!r}; give a number"
            raise ValueError(message) from None
        if value.shape != ():
            raise ValueError(
                f"{label} of muscle {self.name!r} needs one number, got shape {value.shape}"
            )
        return value

    @classmethod
    def pack(cls, units: Sequence[AbstractUnit]) -> AbstractMuscles:
        """All muscles in one module with one array per number."""
        muscles = [unit for unit in units if isinstance(unit, Muscle)]
        first = muscles[0]
        for what in _ALIKE:
            for other in muscles[1:]:
                a, b = getattr(first, what), getattr(other, what)
                if not (a is b or (isinstance(a, str) and a == b)):
                    raise ValueError(
                        f"{what.replace('_', ' ')} of muscle {first.name!r} is {a!r} and of "
                        f"muscle {other.name!r} {b!r}; it must be the same for all muscles of a "
                        "model"
                    )
        parameters = HillParameters.of(
            [muscle.name for muscle in muscles],
            **{what: _row([muscle.number(what) for muscle in muscles]) for what in _NUMBERS},
        )
        dynamics = first.activation_dynamics
        if isinstance(dynamics, str):
            dynamics = ACTIVATIONS[dynamics]()
        return HillMuscles(
            parameters, _curves_of(muscles), dynamics, first.tendon, first.formulation
        )


def _row(values: Sequence[Any]) -> Any:
    return np.stack(values) if is_concrete(values) else jnp.stack(values)


def _curves_of(muscles: Sequence[Muscle]) -> AbstractCurves:
    """One module for all; muscles of one family share it, whatever their shape constants."""
    shared = {name: family() for name, family in CURVES.items()}
    curves = [shared[m.curves] if isinstance(m.curves, str) else m.curves for m in muscles]
    groups: dict[Any, list[int]] = {}
    for unit, one in enumerate(curves):
        groups.setdefault(_likeness(one), []).append(unit)
    families = [_merged([curves[unit] for unit in group]) for group in groups.values()]
    if len(families) == 1:
        return families[0]
    return MixedCurves(families, list(groups.values()))


def _likeness(curves: AbstractCurves) -> Any:
    """Equal for curves that differ at most in scalar constants, which can be stacked."""
    leaves, structure = jax.tree.flatten(curves)
    if not all(eqx.is_array(leaf) for leaf in leaves) or not is_concrete(
        [leaf for leaf in leaves if leaf.ndim]
    ):
        return id(curves)
    vectors = tuple(np.asarray(leaf).tobytes() for leaf in leaves if leaf.ndim)
    return structure, tuple(leaf.shape for leaf in leaves), vectors


def _merged(curves: Sequence[AbstractCurves]) -> AbstractCurves:
    first = curves[0]
    if all(one is first for one in curves):
        return first
    return jax.tree.map(lambda x, *rest: x if x.ndim else jnp.stack([x, *rest]), *curves)
