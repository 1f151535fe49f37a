"""A rhythm that knows what its inputs and outputs are called."""

import re
from collections.abc import Sequence

import equinox as eqx
from jaxtyping import Array, Float

from empbody.rhythms._base import AbstractRhythm, Jet

ANATOMICAL_ANGLES = (
    "sc_protraction",
    "sc_elevation",
    "sc_rotation",
    "st_protraction",
    "st_medial_rotation",
    "st_tilt",
)
"""Clavicle (sc) and scapula (st) to thorax, Euler YXZ in ISB axes (Wu et al. 2005: x forward,
y up, z right), in order of turning. Protraction turns about y. Elevation and medial rotation
turn about x: raising the clavicle and rotating the scapula upward are negative. Rotation and
tilt turn about z: backward is positive."""

_ALIASES = {
    "elv_angle": ("plane", 1.0),
    "plane_of_elevation": ("plane", 1.0),
    "shoulder_elv": ("elevation", 1.0),
    "st_medrotation": ("st_medial_rotation", 1.0),
    "medial_rotation": ("st_medial_rotation", 1.0),
    "upward_rotation": ("st_medial_rotation", -1.0),
    "st_upward_rotation": ("st_medial_rotation", -1.0),
    "protraction": ("st_protraction", 1.0),
    "tilt": ("st_tilt", 1.0),
    "posterior_tilt": ("st_tilt", 1.0),
    "st_posterior_tilt": ("st_tilt", 1.0),
    "sc_axial_rotation": ("sc_rotation", 1.0),
}


class Named(AbstractRhythm):
    """A rhythm with names for its inputs and targets (static); angles in rad.

    Everything is delegated to `rhythm`. Names are kept as given; `input_index` and
    `target_index` find them without regard to case and by the usual other names.
    """

    rhythm: AbstractRhythm
    inputs: tuple[str, ...] = eqx.field(static=True)
    targets: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, rhythm: AbstractRhythm, inputs: Sequence[str], targets: Sequence[str]):
        self.rhythm = rhythm
        self.inputs = _names("inputs", inputs, rhythm.n_in)
        self.targets = _names("targets", targets, rhythm.n_out)

    @property
    def n_in(self) -> int:
        return len(self.inputs)

    @property
    def n_out(self) -> int:
        return len(self.targets)

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        return self.rhythm(q)

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        self.check_coordinates(q)
        return self.rhythm.jacobian(q)

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        self.check_coordinates(q)
        return self.rhythm.hessian(q)

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        self.check_coordinates(q)
        return self.rhythm.jet(q, qd)

    def input_index(self, name: str) -> int:
        """Which coordinate is called `name`; ValueError with the names there are if none."""
        return _find("input", name, self.inputs)[0]

    def target_index(self, name: str) -> tuple[int, float]:
        """Which joint variable is called `name`, and the sign that turns it into that."""
        return _find("target", name, self.targets)


def anatomical_name(name: str) -> tuple[str, float]:
    """The usual name of an angle and the sign of `name` in it: upward_rotation is
    -1 times st_medial_rotation. Ignores case, spaces, hyphens and a suffix _deg or _rad."""
    plain = re.sub(r"[\s\-]+", "_", name.strip().lower())
    plain = re.sub(r"_(deg|rad)$", "", plain)
    return _ALIASES.get(plain, (plain, 1.0))


def _find(kind: str, name: str, names: tuple[str, ...]) -> tuple[int, float]:
    if name in names:
        return names.index(name), 1.0
    wanted, sign = anatomical_name(name)
    for i, other in enumerate(names):
        known, turned = anatomical_name(other)
        if known == wanted:
            return i, sign * turned
    raise ValueError(f"no {kind} {name!r} in this rhythm; it has {', '.join(names)}")


def _names(kind: str, names: Sequence[str], count: int | None) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"{kind} = {names!r}; a sequence of names is expected: ({names!r},)")
    given = tuple(names)
    if count is not None and len(given) != count:
        raise ValueError(
            f"{len(given)} names of {kind} ({', '.join(given)}) for a rhythm with {count}"
        )
    seen: dict[str, str] = {}
    for name in given:
        known = anatomical_name(name)[0]
        if known in seen:
            raise ValueError(f"{kind} {seen[known]!r} and {name!r} are the same quantity")
        seen[known] = name
    return given
