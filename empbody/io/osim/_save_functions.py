"""Rhythms as functions that a file can hold: polynomials and splines."""

import itertools
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ...model import Model
from ...rhythms import AbstractRhythm, Affine, Compose, Identity, Polynomial, SimmSpline, Stack
from ._document import text
from ._functions import total_degree

_KNOTS = 401
Terms = Mapping[tuple[tuple[str, int], ...], float]
"""Coefficients by the powers of the coordinates, sorted by name; () is the constant."""


@dataclass(frozen=True)
class Form:
    """A polynomial of coordinates, or a spline of one."""

    terms: Terms
    spline: tuple[str, np.ndarray, np.ndarray] | None = None
    """Coordinate, knots and values; added to the terms, which are then a constant."""

    @property
    def inputs(self) -> tuple[str, ...]:
        if self.spline is not None:
            return (self.spline[0],)
        return tuple(dict.fromkeys(name for powers in self.terms for name, _ in powers))


def form_of(rhythm: AbstractRhythm, k: int, names: Sequence[str]) -> Form | None:
    """Output k of a rhythm as a form; None where it is none."""
    if isinstance(rhythm, Identity):
        return Form({((names[k], 1),): 1.0})
    if isinstance(rhythm, Affine):
        matrix, offset = np.asarray(rhythm.matrix), np.asarray(rhythm.offset)
        return sum_of(
            float(offset[k]),
            [(float(w), Form({((n, 1),): 1.0})) for n, w in zip(names, matrix[k], strict=True)],
        )
    if isinstance(rhythm, Polynomial):
        return _polynomial(rhythm, k, names)
    if isinstance(rhythm, SimmSpline):
        return Form({}, (names[0], np.asarray(rhythm.breaks), np.asarray(rhythm.values)[:, k]))
    if isinstance(rhythm, Stack):
        place = k if rhythm.order is None else rhythm.order[k]
        for part, inputs in zip(rhythm.rhythms, rhythm.inputs, strict=True):
            count = len(inputs) if part.n_out is None else part.n_out
            if place < count:
                return form_of(part, place, [names[i] for i in inputs])
            place -= count
        return None
    if isinstance(rhythm, Compose) and isinstance(rhythm.outer, Affine):
        matrix, offset = np.asarray(rhythm.outer.matrix), np.asarray(rhythm.outer.offset)
        parts = []
        for i in np.flatnonzero(matrix[k]):
            inner = form_of(rhythm.inner, int(i), names)
            if inner is None:
                return None
            parts.append((float(matrix[k, i]), inner))
        return sum_of(float(offset[k]), parts)
    return None


def sum_of(offset: float, parts: Sequence[tuple[float, Form]]) -> Form | None:
    """offset + Σ weight · form; None where it is neither a polynomial nor one spline."""
    terms: dict = {(): offset} if offset else {}
    splines = [(w, form) for w, form in parts if form.spline is not None and w != 0.0]
    for weight, form in parts:
        for powers, value in form.terms.items():
            terms[powers] = terms.get(powers, 0.0) + weight * value
    terms = {powers: value for powers, value in terms.items() if value != 0.0}
    if not splines:
        return Form(terms)
    ((weight, form),) = splines[:1]
    if len(splines) > 1 or any(powers for powers in terms):
        return None
    assert form.spline is not None
    name, x, y = form.spline
    return Form({}, (name, x, weight * y + terms.get((), 0.0)))


def _polynomial(rhythm: Polynomial, k: int, names: Sequence[str]) -> Form:
    """Powers of (q - centre) / scale multiplied out."""
    centre, scale = np.asarray(rhythm.centre), np.asarray(rhythm.scale)
    total: dict = {}
    for exponents, factor in zip(rhythm.exponents, np.asarray(rhythm.coefficients)[k], strict=True):
        choices = [range(e + 1) for e in exponents]
        for powers in itertools.product(*choices):
            value = float(factor)
            for e, p, c, s in zip(exponents, powers, centre, scale, strict=True):
                value *= math.comb(e, p) * (-float(c)) ** (e - p) / float(s) ** e
            key = tuple(sorted((n, p) for n, p in zip(names, powers, strict=True) if p))
            total[key] = total.get(key, 0.0) + value
    return Form({powers: value for powers, value in total.items() if value != 0.0})


def sampled(rhythm: AbstractRhythm, k: int, model: Model, name: str) -> tuple[Form, float]:
    """Output k as a spline of one coordinate over its range, and the error between knots."""
    i = model.coordinate_names.index(name)
    low, high = float(model.lower[i]), float(model.upper[i])
    if not np.all(np.isfinite([low, high])):
        raise ValueError(f"the coordinate {name!r} has no range over which to sample its rhythm")
    x = np.linspace(low, high, _KNOTS)
    between = 0.5 * (x[1:] + x[:-1])
    base = np.asarray(model.default_q, dtype=np.float64)

    def at(values: np.ndarray) -> np.ndarray:
        q = np.tile(base, (len(values), 1))
        q[:, i] = values
        return np.asarray(jax.vmap(rhythm)(jnp.asarray(q, dtype=float)))[:, k]

    y = at(x)
    met = np.asarray(jax.vmap(SimmSpline(x, y[:, None]))(jnp.asarray(between)[:, None]))[:, 0]
    return Form({}, (name, x, y)), float(np.max(np.abs(met - at(between))))


def write_form(
    holder: ElementTree.Element, form: Form, inputs: Sequence[str] | None = None
) -> ElementTree.Element:
    """Add the element of a function of `inputs` (those of the form, if not given)."""
    names = list(form.inputs if inputs is None else inputs) or [""]
    if form.spline is not None:
        made = ElementTree.SubElement(holder, "SimmSpline")
        for tag, values in (("x", form.spline[1]), ("y", form.spline[2])):
            ElementTree.SubElement(made, tag).text = text(values)
        return made
    order = max((sum(p for _, p in powers) for powers in form.terms), default=0)
    if order <= 1:
        made = ElementTree.SubElement(holder, "LinearFunction")
        values = [form.terms.get(((n, 1),), 0.0) for n in names] + [form.terms.get((), 0.0)]
    elif len(names) == 1:
        made = ElementTree.SubElement(holder, "PolynomialFunction")
        values = [form.terms.get(((names[0], p),), 0.0) for p in range(order, 0, -1)]
        values.append(form.terms.get((), 0.0))
    else:
        made = ElementTree.SubElement(holder, "MultivariatePolynomialFunction")
        values = [
            form.terms.get(
                tuple(sorted((n, p) for n, p in zip(names, powers, strict=True) if p)), 0.0
            )
            for powers in total_degree(len(names), order)
        ]
        ElementTree.SubElement(made, "dimension").text = str(len(names))
        ElementTree.SubElement(made, "order").text = str(order)
    ElementTree.SubElement(made, "coefficients").text = text(values)
    return made
