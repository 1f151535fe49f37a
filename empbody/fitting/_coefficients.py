"""The numbers of a rhythm that a fit may change, as one vector."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..rhythms import (
    AbstractRhythm,
    Affine,
    Compose,
    Fourier,
    FourierTensor,
    Named,
    Neural,
    Polynomial,
    Spline,
    Stack,
    TensorSpline,
)

_LINEAR: dict[type, tuple[str, ...]] = {
    Affine: ("offset", "matrix"),
    Polynomial: ("coefficients",),
    Spline: ("coefficients",),
    TensorSpline: ("coefficients",),
    Fourier: ("coefficients",),
    FourierTensor: ("coefficients",),
}
"""Fields in which a family is linear: what a fit changes unless it is told otherwise."""


class Coefficients(eqx.Module):
    """Takes a rhythm apart into a vector of what may change and puts it together again.

    `free` says of every number of the rhythm, array by array, whether it may change.
    """

    rest: AbstractRhythm
    free: tuple["_Frozen", ...] = eqx.field(static=True)
    linear: bool = eqx.field(static=True)

    def __init__(self, rhythm: AbstractRhythm, free: Any = None):
        masks, self.linear = _masks(rhythm, free)
        self.rest = rhythm
        self.free = tuple(_Frozen(m) for m in masks)
        if self.size == 0:
            raise ValueError(f"nothing of this {type(rhythm).__name__} rhythm is free to change")

    @property
    def size(self) -> int:
        return sum(int(m.sum()) for m in self.free)

    def vector(self, rhythm: AbstractRhythm | None = None) -> Float[Array, " p"]:
        """The coefficients of a rhythm of this kind (default: the one it was made with)."""
        leaves = _numbers(self.rest if rhythm is None else rhythm)
        if [x.shape for x in leaves] != [m.shape for m in self.free]:
            raise ValueError(
                f"a rhythm of another kind: arrays of shapes {[x.shape for x in leaves]}, "
                f"{[m.shape for m in self.free]} are expected"
            )
        parts = [x[m.array] for x, m in zip(leaves, self.free, strict=True) if m.any()]
        return jnp.concatenate(parts)

    def rhythm(self, vector: Float[Array, " p"]) -> AbstractRhythm:
        """The rhythm with these coefficients."""
        leaves, start = [], 0
        for leaf, mask in zip(_numbers(self.rest), self.free, strict=True):
            count = int(mask.sum())
            if count == mask.size:
                leaf = vector[start : start + count].reshape(leaf.shape)
            elif count:
                leaf = leaf.at[mask.array].set(vector[start : start + count])
            leaves.append(leaf)
            start += count
        treedef = jax.tree.structure(eqx.filter(self.rest, eqx.is_inexact_array))
        return eqx.combine(jax.tree.unflatten(treedef, leaves), self.rest)

    def labels(
        self, inputs: Sequence[str] | None = None, targets: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """What each coefficient is, in words: "st_tilt: elevation^2"."""
        rhythm = self.rest
        if isinstance(rhythm, Named):
            inputs, targets = inputs or rhythm.inputs, targets or rhythm.targets
        ins = inputs or [f"q{i}" for i in range(rhythm.n_in or 1)]
        outs = targets or [f"f{i}" for i in range(rhythm.n_out or 1)]
        words = _words(rhythm, list(ins), list(outs))
        picked = [np.asarray(w, dtype=object).reshape(m.shape)[m.array]
                  for w, m in zip(words, self.free, strict=True)]  # fmt: skip
        return tuple(str(x) for x in np.concatenate([np.ravel(p) for p in picked]))


class _Frozen:
    """A Boolean array that can be compared and hashed, as static fields must be."""

    array: np.ndarray

    def __init__(self, array: Any):
        self.array = np.array(array, dtype=bool)
        self.array.setflags(write=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def size(self) -> int:
        return self.array.size

    def any(self) -> bool:
        return bool(self.array.any())

    def sum(self) -> int:
        return int(self.array.sum())

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.tobytes()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and np.array_equal(self.array, other.array)


def _numbers(rhythm: AbstractRhythm) -> list[Array]:
    return jax.tree.leaves(eqx.filter(rhythm, eqx.is_inexact_array))


def _masks(rhythm: AbstractRhythm, free: Any) -> tuple[list[Bool[np.ndarray, "..."]], bool]:
    """A mask for every array of numbers, and whether the rhythm is linear in what is free."""
    usual = jax.tree.leaves(_usual(rhythm))
    if free is None:
        masks = usual
    elif callable(free) and not isinstance(free, AbstractRhythm):
        masks = _chosen(rhythm, free)
    else:
        masks = [np.asarray(m, dtype=bool) for m in jax.tree.leaves(free)]
        shapes = [x.shape for x in _numbers(rhythm)]
        if [m.shape for m in masks] != shapes:
            raise ValueError(
                f"free has arrays of shapes {[m.shape for m in masks]}; the rhythm's numbers "
                f"have {shapes}"
            )
    inside = all(bool(np.all(u | ~m)) for m, u in zip(masks, usual, strict=True))
    return masks, inside and _is_linear(rhythm)


def _chosen(rhythm: AbstractRhythm, where: Callable[[Any], Any]) -> list[np.ndarray]:
    """Masks from a function that returns the arrays that may change, as in eqx.tree_at."""
    none = jax.tree.map(lambda x: np.zeros(x.shape, bool), eqx.filter(rhythm, eqx.is_inexact_array))
    full = jax.tree.map(lambda m: np.ones_like(m), where(none), is_leaf=eqx.is_array)
    return jax.tree.leaves(eqx.tree_at(where, none, full))


def _usual(rhythm: Any) -> Any:
    """Which numbers a fit changes by default, with the structure of the rhythm's numbers."""
    numbers = eqx.filter(rhythm, eqx.is_inexact_array)
    none = jax.tree.map(lambda x: np.zeros(x.shape, bool), numbers)
    every = jax.tree.map(lambda x: np.ones(x.shape, bool), numbers)
    match rhythm:
        case Named():
            return eqx.tree_at(lambda r: r.rhythm, none, _usual(rhythm.rhythm))
        case Compose():
            parts = (_usual(rhythm.outer), _usual(rhythm.inner))
            return eqx.tree_at(lambda r: (r.outer, r.inner), none, parts)
        case Stack():
            parts = tuple(_usual(r) for r in rhythm.rhythms)
            return eqx.tree_at(lambda r: r.rhythms, none, parts)
        case Neural():
            return eqx.tree_at(lambda r: (r.weights, r.biases), none, (every.weights, every.biases))
    names = _LINEAR.get(type(rhythm))
    if names is None:
        return every
    for name in names:
        none = eqx.tree_at(lambda r, n=name: getattr(r, n), none, getattr(every, name))
    return none


def _is_linear(rhythm: Any) -> bool:
    """Whether the values are affine in the usual coefficients."""
    match rhythm:
        case Named():
            return _is_linear(rhythm.rhythm)
        case Stack():
            return all(_is_linear(r) for r in rhythm.rhythms)
        case Compose():
            return _is_linear(rhythm.outer) and not _numbers(rhythm.inner)
    return type(rhythm) in _LINEAR


def _words(rhythm: Any, ins: list[str], outs: list[str]) -> list[np.ndarray]:
    """A label for every number of a rhythm, leaf by leaf."""
    match rhythm:
        case Named():
            return _words(rhythm.rhythm, list(rhythm.inputs), list(rhythm.targets))
        case Affine():
            slopes = [[f"{o}: {i}" for i in ins] for o in outs]
            return [_array(slopes), _array([f"{o}: 1" for o in outs])]
        case Polynomial():
            terms = [_monomial(e, ins) for e in rhythm.exponents]
            names = [[f"{o}: {t}" for t in terms] for o in outs]
            return [_array(names), _array([f"centre {i}" for i in ins]),
                    _array([f"scale {i}" for i in ins])]  # fmt: skip
    words, start = [], 0
    if isinstance(rhythm, Stack):
        for k, (part, inputs) in enumerate(zip(rhythm.rhythms, rhythm.inputs, strict=True)):
            count = len(inputs) if part.n_out is None else part.n_out
            names = [f"part {k} f{i}" for i in range(count)]
            if rhythm.order is None:
                names = outs[start : start + count]
            words += _words(part, [ins[i] for i in inputs], names)
            start += count
        return words
    for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter(rhythm, eqx.is_inexact_array)):
        name = jax.tree_util.keystr(path).lstrip(".")
        axes = [[str(i) for i in range(n)] for n in leaf.shape]
        by_output = isinstance(rhythm, Spline | TensorSpline | Fourier | FourierTensor)
        if by_output and name == "coefficients":
            axes[-1] = outs
            cells = [f"{c[-1]}: {_basis(rhythm, c[:-1], ins)}" for c in itertools.product(*axes)]
        else:
            cells = [f"{name}[{','.join(c)}]" for c in itertools.product(*axes)]
        words.append(np.asarray(cells, dtype=object).reshape(leaf.shape))
    return words


def _array(names: Any) -> np.ndarray:
    return np.asarray(names, dtype=object)


def _monomial(exponents: Sequence[int], names: Sequence[str]) -> str:
    parts = [n if e == 1 else f"{n}^{e}" for n, e in zip(names, exponents, strict=True) if e]
    return " ".join(parts) or "1"


def _basis(rhythm: Any, places: tuple[str, ...], ins: Sequence[str]) -> str:
    if isinstance(rhythm, Spline | TensorSpline):
        return " ".join(f"B{k}({name})" for k, name in zip(places, ins, strict=True))
    words = []
    for axis, (place, name) in enumerate(zip(places, ins, strict=True)):
        k, order = int(place), (rhythm.coefficients.shape[axis] - 1) // 2
        if k:
            words.append(f"cos{k} {name}" if k <= order else f"sin{k - order} {name}")
    return " ".join(words) or "1"
