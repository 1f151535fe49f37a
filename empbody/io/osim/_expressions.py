"""Values as functions of coordinates, kept in a form that can be substituted and merged.

An expression is offset + Σ slopes × coordinates + Σ weights × atoms. An atom is a curve of
other expressions. Substituting couplers keeps this form; `rhythm_of` turns a list of
expressions into one rhythm with as few parts as possible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from ...rhythms import (
    AbstractRhythm,
    Affine,
    Compose,
    Fourier,
    Identity,
    Polynomial,
    SimmSpline,
    Stack,
)
from ._curves import PiecewisePolynomial


@dataclass(frozen=True)
class Curve:
    """What a nonlinear function is, without its arguments.

    Curves of one `kind` and `shape` (knots, exponents ...) that share their arguments are
    columns of one rhythm. `values` are the numbers that the result is linear in, and `one`
    those of the constant 1, so that scale and offset fold into the values.
    """

    kind: str
    shape: tuple[Any, ...]
    values: tuple[float, ...]
    one: tuple[float, ...]

    def scaled(self, weight: float, offset: float) -> np.ndarray:
        return weight * np.asarray(self.values) + offset * np.asarray(self.one)


@dataclass(frozen=True, eq=False)
class Atom:
    """A curve of expressions; compared by identity."""

    curve: Curve
    arguments: tuple["Expression", ...]


@dataclass(frozen=True)
class Expression:
    """offset + Σ slope · coordinate + Σ weight · atom."""

    offset: float = 0.0
    slopes: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[Atom, float] = field(default_factory=dict)

    @property
    def is_affine(self) -> bool:
        return not self.weights

    @property
    def is_constant(self) -> bool:
        return not self.weights and not self.slopes

    @property
    def coordinate(self) -> str | None:
        """The coordinate that this expression is, or None."""
        if self.weights or self.offset != 0.0 or list(self.slopes.values()) != [1.0]:
            return None
        return next(iter(self.slopes))

    def inputs(self) -> set[str]:
        """Names of all coordinates that the value depends on."""
        found: set[str] = set()
        seen: set[int] = set()
        waiting: list[Expression] = [self]
        while waiting:
            here = waiting.pop()
            found.update(here.slopes)
            for atom in here.weights:
                if id(atom) not in seen:
                    seen.add(id(atom))
                    waiting.extend(atom.arguments)
        return found

    def key(self) -> tuple:
        """Equal for expressions that are the same."""
        slopes = tuple(sorted(self.slopes.items()))
        return self.offset, slopes, tuple((id(a), w) for a, w in self.weights.items())

    def times(self, factor: float) -> "Expression":
        return combine(0.0, [(factor, self)])


def coordinate(name: str) -> Expression:
    return Expression(0.0, {name: 1.0})


def constant(value: float) -> Expression:
    return Expression(value)


def combine(offset: float, terms: Sequence[tuple[float, Expression]]) -> Expression:
    """offset + Σ factor · expression; what cancels is dropped."""
    slopes: dict[str, float] = {}
    weights: dict[Atom, float] = {}
    for factor, term in terms:
        offset += factor * term.offset
        for name, slope in term.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + factor * slope
        for atom, weight in term.weights.items():
            weights[atom] = weights.get(atom, 0.0) + factor * weight
    return Expression(
        offset,
        {name: slope for name, slope in slopes.items() if slope != 0.0},
        {atom: weight for atom, weight in weights.items() if weight != 0.0},
    )


def apply(curve: Curve, arguments: Sequence[Expression]) -> Expression:
    """The curve of these arguments; evaluated at once where they are constants."""
    if all(argument.is_constant for argument in arguments):
        return constant(_value(curve, [argument.offset for argument in arguments]))
    return Expression(0.0, {}, {Atom(curve, tuple(arguments)): 1.0})


def substitute(
    expression: Expression, known: Mapping[str, Expression], done: dict[Atom, Expression]
) -> Expression:
    """The same value in terms of others; `done` keeps what shared atoms became."""
    terms = [
        (slope, known.get(name) or coordinate(name)) for name, slope in expression.slopes.items()
    ]
    for atom, weight in expression.weights.items():
        if atom not in done:
            arguments = []
            for argument in atom.arguments:
                arguments.append(substitute(argument, known, done))
            same = all(a.key() == b.key() for a, b in zip(arguments, atom.arguments, strict=True))
            kept = Expression(0.0, {}, {atom: 1.0})
            done[atom] = kept if same else apply(atom.curve, arguments)
        terms.append((weight, done[atom]))
    return combine(expression.offset, terms)


@dataclass(frozen=True, eq=False)
class Loop:
    """A closed loop as the shape of a curve; compared by identity."""

    rhythm: AbstractRhythm

    def unknown(self, k: int) -> Curve:
        """The k-th unknown of the loop, as a curve of the loop's inputs."""
        n = int(self.rhythm.n_out or 0)
        pick = tuple(float(i == k + 1) for i in range(n + 1))
        return Curve("loop", (self,), pick, (1.0,) + (0.0,) * n)


def rhythm_of(expressions: Sequence[Expression], coordinates: Sequence[str]) -> AbstractRhythm:
    """One rhythm from `coordinates`, in this order, to the expressions' values."""
    names = list(coordinates)
    if [e.coordinate for e in expressions] == names:
        return Identity()
    rows = list(enumerate(expressions))
    parts: list[tuple[AbstractRhythm, list[int]]] = []
    order: list[int] = []
    affine = [(i, e) for i, e in rows if e.is_affine]
    if affine:
        inputs = _indices([e for _, e in affine], names)
        parts.append((_affine([e for _, e in affine], inputs, names), inputs))
        order += [i for i, _ in affine]
    single = [(i, e) for i, e in rows if len(e.weights) == 1 and not e.slopes]
    for kind, shape, arguments, members in _groups(single):
        values = []
        for _, e in members:
            ((atom, weight),) = e.weights.items()
            values.append(atom.curve.scaled(weight, e.offset))
        parts.append(_driven(_curves_together(kind, shape, values), arguments, names))
        order += [i for i, _ in members]
    mixed = [(i, e) for i, e in rows if not e.is_affine and (len(e.weights) > 1 or e.slopes)]
    if mixed:
        parts.append(_mixture([e for _, e in mixed], names))
        order += [i for i, _ in mixed]
    if len(parts) == 1 and order == sorted(order) and parts[0][1] == list(range(len(names))):
        return parts[0][0]
    position = {row: i for i, row in enumerate(order)}
    places = [position[i] for i in range(len(order))]
    return Stack(parts, len(names), None if places == sorted(places) else places)


def _indices(expressions: Sequence[Expression], names: list[str]) -> list[int]:
    """Which coordinates drive any of the expressions; one at least, as a rhythm needs it."""
    used: set[str] = set().union(*(e.inputs() for e in expressions))
    return [i for i, name in enumerate(names) if name in used] or [0]


def _affine(expressions: Sequence[Expression], inputs: list[int], names: list[str]) -> Affine:
    matrix = np.asarray([[e.slopes.get(names[i], 0.0) for i in inputs] for e in expressions])
    return Affine(matrix, np.asarray([e.offset for e in expressions]))


def _groups(members: list[tuple[int, Expression]]) -> list[tuple]:
    """Members whose curves are of one kind and shape and share their arguments."""
    found: dict[tuple, tuple] = {}
    for i, e in members:
        (atom,) = e.weights
        key = (atom.curve.kind, atom.curve.shape, tuple(a.key() for a in atom.arguments))
        group = found.setdefault(key, (atom.curve.kind, atom.curve.shape, atom.arguments, []))
        group[3].append((i, e))
    return list(found.values())


def _driven(
    rhythm: AbstractRhythm, arguments: Sequence[Expression], names: list[str]
) -> tuple[AbstractRhythm, list[int]]:
    """A rhythm after its arguments, and the coordinates that drive it."""
    bare = [argument.coordinate for argument in arguments]
    if None not in bare and len(set(bare)) == len(bare):
        return rhythm, [names.index(str(name)) for name in bare]
    inputs = _indices(arguments, names)
    inner = rhythm_of(arguments, [names[i] for i in inputs])
    return Compose(rhythm, inner), inputs


def _mixture(
    expressions: Sequence[Expression], names: list[str]
) -> tuple[AbstractRhythm, list[int]]:
    """Sums of several curves: one affine map of all curves and coordinates they need."""
    inputs = _indices(expressions, names)
    atoms = list(dict.fromkeys(atom for e in expressions for atom in e.weights))
    direct = sorted({name for e in expressions for name in e.slopes})
    basis = [coordinate(name) for name in direct]
    basis += [Expression(0.0, {}, {atom: 1.0}) for atom in atoms]
    matrix = [
        [e.slopes.get(name, 0.0) for name in direct] + [e.weights.get(a, 0.0) for a in atoms]
        for e in expressions
    ]
    outer = Affine(np.asarray(matrix), np.asarray([e.offset for e in expressions]))
    return Compose(outer, rhythm_of(basis, [names[i] for i in inputs])), inputs


def _value(curve: Curve, at: Sequence[float]) -> float:
    """A curve at known arguments, in NumPy: no compilation while a file is read."""
    values = np.asarray(curve.values)
    if curve.kind == "polynomial":
        return float(values @ np.prod(np.asarray(at) ** np.asarray(curve.shape), axis=1))
    if curve.kind == "loop":
        found = np.asarray(curve.shape[0].rhythm(np.asarray(at, dtype=float)))
        return float(values @ np.concatenate([[1.0], found]))
    (t,) = at
    if curve.kind == "sine":
        turn = float(np.asarray(curve.shape)[0]) * t
        return float(values @ np.asarray([1.0, np.cos(turn), np.sin(turn)]))
    if curve.kind == "simm":
        x = np.asarray(curve.shape, dtype=float)
        spline = CubicHermiteSpline(x, values, np.asarray(SimmSpline(x, values).slopes)[:, 0])
        end = float(np.clip(t, x[0], x[-1]))
        return float(spline(end) + (t - end) * spline(end, 1))
    breaks = np.asarray(curve.shape[1:], dtype=float)
    k = int(np.searchsorted(breaks, t, side="right"))
    piece = values.reshape(len(breaks) + 1, -1)[k]
    return float(np.polynomial.polynomial.polyval(t - breaks[max(k - 1, 0)], piece))


def _curves_together(kind: str, shape: tuple, columns: Sequence[np.ndarray]) -> AbstractRhythm:
    """The rhythm whose outputs are curves of one kind and shape."""
    table = np.stack(columns, axis=-1)
    if kind == "loop":
        matrix, offset = table[1:].T, table[0]
        if np.array_equal(matrix, np.eye(table.shape[0] - 1)) and not offset.any():
            return shape[0].rhythm
        return Compose(Affine(matrix, offset), shape[0].rhythm)
    if kind == "simm":
        return SimmSpline(np.asarray(shape), table)
    if kind == "polynomial":
        return Polynomial(shape, table.T)
    if kind == "sine":
        (omega,) = shape
        return Fourier(table, period=2.0 * np.pi / float(omega))
    degree = int(shape[0])
    breaks = np.asarray(shape[1:])
    return PiecewisePolynomial(breaks, table.reshape(len(breaks) + 1, degree + 1, -1))
