"""Numbers of a model, picked as `eqx.tree_at` picks them, as one vector without bounds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._transforms import AbstractTransform, Free, Inertia, Positive, UnitVector, as_transform

Where = Callable[[Any], Any]
_POSITIVE = {
    "mass", "max_isometric_force", "optimal_fibre_length", "tendon_slack_length",
    "max_contraction_velocity", "activation_time", "deactivation_time", "tendon_strain",
}  # fmt: skip


class _Leaf:
    """Stands for an array of the model while `where` runs; indexing it picks a part."""

    def __init__(self, number: int, at: tuple[Any, ...] = ()):
        self.number, self.at = number, at

    def __getitem__(self, index: Any) -> "_Leaf":
        if self.at:
            raise ValueError("index a parameter once: m.axis[0, 1] instead of m.axis[0][1]")
        return _Leaf(self.number, (index,))


class Piece(eqx.Module):
    """One parameter: an array of the model, or a part of it."""

    transform: AbstractTransform
    start: Float[Array, "..."]
    name: str = eqx.field(static=True)
    path: str = eqx.field(static=True)
    leaf: int = eqx.field(static=True)
    at: "_Index" = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.transform.size(self.start.shape)


class _Index:
    """What picks a part of an array, comparable and hashable as static fields must be."""

    def __init__(self, at: tuple[Any, ...]):
        self.at = at

    def get(self, leaf: Any) -> Any:
        return leaf[self.at[0]] if self.at else leaf

    def put(self, leaf: Array, value: Array) -> Array:
        return leaf.at[self.at[0]].set(value) if self.at else value

    def __hash__(self) -> int:
        return hash(repr(self.at))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Index) and repr(self.at) == repr(other.at)


class Selection(eqx.Module):
    """The free parameters of a model, taken out as one vector and put back."""

    model: Any
    pieces: tuple[Piece, ...]

    def __init__(self, model: Any, where: Any, transforms: Any = None):
        leaves, treedef = jax.tree.flatten(model)
        paths = [_words(p) for p, _ in jax.tree_util.tree_leaves_with_path(model)]
        stand_ins = jax.tree.unflatten(treedef, [_Leaf(i) for i in range(len(leaves))])
        picked = _picked(where, stand_ins, paths)
        if not picked:
            raise ValueError("nothing is free: `where` picks no parameter of the model")
        chosen = _transforms_for(transforms, [name for name, _ in picked])
        pieces = []
        taken: dict[int, np.ndarray] = {}
        for (name, leaf), given in zip(picked, chosen, strict=True):
            array = leaves[leaf.number]
            if not eqx.is_inexact_array(array):
                raise ValueError(f"{name} is {paths[leaf.number]}, which is no array of floats")
            index = _Index(leaf.at)
            start = jnp.asarray(index.get(array))
            _once(name, paths[leaf.number], index, array.shape, taken, leaf.number)
            word = paths[leaf.number].rsplit(".", 1)[-1]
            kind = _usual(word, start) if given is None else as_transform(given)
            values = np.asarray(start)
            if values.size == 0:
                raise ValueError(f"{name} is empty: nothing is free")
            if not np.isfinite(values).all():
                raise ValueError(f"{name} is not finite at the start")
            kind.check(name, values)
            pieces.append(Piece(kind, start, name, paths[leaf.number], leaf.number, index))
        self.model, self.pieces = model, tuple(pieces)

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    def vector(self) -> Float[Array, " p"]:
        """z of the model as it was given."""
        return jnp.concatenate([p.transform.unconstrained(p.start) for p in self.pieces])

    def values(self, z: Float[Array, " p"]) -> dict[str, Array]:
        """The parameters by name."""
        found, place = {}, 0
        for piece in self.pieces:
            found[piece.name] = piece.transform.value(z[place : place + piece.size], piece.start)
            place += piece.size
        return found

    def put(self, z: Float[Array, " p"]) -> Any:
        """The model with these parameters."""
        leaves, treedef = jax.tree.flatten(self.model)
        values = self.values(z)
        for piece in self.pieces:
            leaves[piece.leaf] = piece.at.put(leaves[piece.leaf], values[piece.name])
        return jax.tree.unflatten(treedef, leaves)

    def relative(self, z: Float[Array, " p"]) -> Float[np.ndarray, " p"]:
        """What a change of z is divided by to be a relative change of the parameter: z itself
        where it is free, 1 otherwise."""
        scales, place = [], 0
        for piece in self.pieces:
            part = np.asarray(z[place : place + piece.size], dtype=np.float64)
            free = isinstance(piece.transform, Free)
            scales.append(np.where(part == 0, 1.0, part) if free else np.ones(piece.size))
            place += piece.size
        return np.concatenate(scales)

    def labels(self) -> tuple[str, ...]:
        """A word for every number of `values`, in order."""
        words = []
        for piece in self.pieces:
            if piece.start.ndim == 0:
                words.append(piece.name)
            else:
                places = np.ndindex(*piece.start.shape)
                words += [f"{piece.name}[{', '.join(map(str, i))}]" for i in places]
        return tuple(words)

    def directions(self) -> tuple[str, ...]:
        """A word for every entry of z."""
        words = []
        for piece in self.pieces:
            same = piece.size == int(np.prod(piece.start.shape)) and piece.start.ndim
            places = list(np.ndindex(*piece.start.shape)) if same else range(piece.size)
            for place in places:
                inner = ", ".join(map(str, place)) if isinstance(place, tuple) else f"z{place}"
                words.append(piece.name if piece.size == 1 else f"{piece.name}[{inner}]")
        return tuple(words)


def _words(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".")


def _picked(where: Any, stand_ins: Any, paths: Sequence[str]) -> list[tuple[str, _Leaf]]:
    if isinstance(where, Mapping):
        picked = []
        for name, function in where.items():
            found = _call(function, stand_ins)
            if len(found) != 1:
                raise ValueError(f"{name} picks {len(found)} arrays; name each of them")
            picked.append((str(name), found[0]))
        return picked
    if not callable(where):
        raise TypeError(
            "`where` is a function of the model that returns arrays, or a dict of these by name"
        )
    found = _call(where, stand_ins)
    names = [_name(paths[leaf.number], leaf.at) for leaf in found]
    return list(zip(names, found, strict=True))


def _call(where: Any, stand_ins: Any) -> list[_Leaf]:
    try:
        found = where(stand_ins)
    except (AttributeError, TypeError) as error:
        raise ValueError(
            f"`where` must pick arrays of the model as they are, or parts by one index: {error}"
        ) from error
    flat = jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, _Leaf))
    wrong = [x for x in flat if not isinstance(x, _Leaf)]
    if wrong:
        raise ValueError(f"`where` returns a {type(wrong[0]).__name__}, which is no array of it")
    return flat


def _name(path: str, at: tuple[Any, ...]) -> str:
    word = path.rsplit(".", 1)[-1]
    if not at:
        return word
    index = at[0]
    parts = index if isinstance(index, tuple) else (index,)
    return f"{word}[{', '.join(map(_show, parts))}]"


def _show(part: Any) -> str:
    if not isinstance(part, slice):
        return str(part)
    ends = ["" if x is None else str(x) for x in (part.start, part.stop)]
    return ":".join(ends)


def _usual(word: str, start: Array) -> AbstractTransform:
    """What keeps a parameter of this name what it is."""
    if word in _POSITIVE:
        return Positive()
    if word == "axis":
        return UnitVector()
    if word == "inertia" and start.ndim >= 2:
        return Inertia()
    return Free()


def _transforms_for(given: Any, names: list[str]) -> list[Any]:
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise ValueError(f"two parameters {doubled[0]!r}; give `where` as a dict with names")
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(
                f"a transform for {unknown[0]!r}, but the parameters are {', '.join(names)}"
            )
        return [given.get(name) for name in names]
    if isinstance(given, list):
        if len(given) != len(names):
            raise ValueError(f"{len(given)} transforms for {len(names)} parameters")
        return given
    return [given] * len(names)


def _once(
    name: str, path: str, index: _Index, shape: Any, taken: dict[int, np.ndarray], leaf: int
) -> None:
    """Refuse parts that overlap."""
    mask = np.zeros(shape, dtype=bool)
    try:
        part = index.get(mask)
    except IndexError as error:
        raise ValueError(f"{name}: {path} has shape {shape}: {error}") from None
    del part
    if index.at:
        mask[index.at[0]] = True
    else:
        mask[...] = True
    if leaf in taken and (taken[leaf] & mask).any():
        raise ValueError(f"{name} is free twice: two parameters pick the same numbers of {path}")
    taken[leaf] = mask | taken.get(leaf, False)
