"""Descriptions of joints: one axis each, and helpers that chain them into richer ones.

A joint frame stands in its parent body's frame by a constant placement (`translation`,
then `rotation`). The joint then moves along or about `axis`, given in the joint frame
(Ehsani 2016, Eq. 38-39 with the constant parts of d and θ folded into the placement).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Vector = Any
"""Three numbers: a sequence, a NumPy array or a (possibly traced) JAX array."""
Rotation = Any
"""3×3 matrix, or three XYZ body-fixed Euler angles in radians."""

_ZERO = (0.0, 0.0, 0.0)
_X, _Y, _Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Revolute:
    """Rotation about `axis` by the joint variable, in radians."""

    axis: Vector
    translation: Vector = _ZERO
    rotation: Rotation = _ZERO
    name: str | None = None


@dataclass(frozen=True)
class Prismatic:
    """Translation along `axis` by the joint variable, in metres."""

    axis: Vector
    translation: Vector = _ZERO
    rotation: Rotation = _ZERO
    name: str | None = None


@dataclass(frozen=True)
class Weld:
    """No motion: the body is part of its parent's link."""

    translation: Vector = _ZERO
    rotation: Rotation = _ZERO


@dataclass(frozen=True)
class Chain:
    """Several one-axis joints in a row, joined by links without mass.

    `translation` and `rotation` place the body's frame on the last link.
    """

    joints: tuple[Revolute | Prismatic, ...]
    translation: Vector = _ZERO
    rotation: Rotation = _ZERO

    @property
    def places_body(self) -> bool:
        """Whether the body's frame stands apart from its link's frame."""
        return self.translation is not _ZERO or self.rotation is not _ZERO


Joint = Revolute | Prismatic | Weld | Chain


def _chain(
    kinds: Sequence[type[Revolute] | type[Prismatic]],
    axes: Sequence[Vector],
    translation: Vector,
    rotation: Rotation,
    names: Sequence[str] | None,
) -> Chain:
    if len(axes) != len(kinds):
        raise ValueError(f"{len(axes)} axes for a joint with {len(kinds)} degrees of freedom")
    if names is not None and len(names) != len(kinds):
        raise ValueError(f"{len(names)} names for a joint with {len(kinds)} degrees of freedom")
    joints = []
    for i, (kind, axis) in enumerate(zip(kinds, axes, strict=True)):
        name = None if names is None else names[i]
        if i == 0:  # the placement belongs to the first joint of the chain
            joints.append(kind(axis, translation, rotation, name))
        else:
            joints.append(kind(axis, name=name))
    return Chain(tuple(joints))


def Universal(
    axes: Sequence[Vector] = (_X, _Y),
    translation: Vector = _ZERO,
    rotation: Rotation = _ZERO,
    names: Sequence[str] | None = None,
) -> Chain:
    """Two revolute axes, the second carried by the first."""
    return _chain((Revolute,) * 2, axes, translation, rotation, names)


def Ball(
    axes: Sequence[Vector] = (_X, _Y, _Z),
    translation: Vector = _ZERO,
    rotation: Rotation = _ZERO,
    names: Sequence[str] | None = None,
) -> Chain:
    """Three revolute axes in turn (body-fixed). Like all three-angle coordinates it is
    singular where the first and third axis align."""
    return _chain((Revolute,) * 3, axes, translation, rotation, names)


def Cylindrical(
    axis: Vector = _Z,
    translation: Vector = _ZERO,
    rotation: Rotation = _ZERO,
    names: Sequence[str] | None = None,
) -> Chain:
    """Translation along and rotation about one axis, in this order."""
    return _chain((Prismatic, Revolute), (axis, axis), translation, rotation, names)


def Planar(
    axes: Sequence[Vector] = (_X, _Y, _Z),
    translation: Vector = _ZERO,
    rotation: Rotation = _ZERO,
    names: Sequence[str] | None = None,
) -> Chain:
    """Two translations, then a rotation; `axes` in this order."""
    return _chain((Prismatic, Prismatic, Revolute), axes, translation, rotation, names)


def Free(
    translation_axes: Sequence[Vector] = (_X, _Y, _Z),
    rotation_axes: Sequence[Vector] = (_X, _Y, _Z),
    translation: Vector = _ZERO,
    rotation: Rotation = _ZERO,
    names: Sequence[str] | None = None,
) -> Chain:
    """Three translations, then three rotations: six joint variables."""
    kinds = (Prismatic,) * 3 + (Revolute,) * 3
    axes = (*translation_axes, *rotation_axes)
    return _chain(kinds, axes, translation, rotation, names)
