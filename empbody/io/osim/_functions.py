"""Functions of a file as expressions: what OpenSim calls Function, by tag."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PPoly, make_interp_spline

from ._expressions import Curve, Expression, apply, combine, constant
from ._xml import Node

_MOST_KNOTS = 100_000


@dataclass(frozen=True, eq=False)
class Function:
    """A function of `arity` numbers (None: any); `of` substitutes expressions for them."""

    kind: str
    arity: int | None
    make: Callable[[Sequence[Expression]], Expression]
    node: Node | None = None

    def scaled(self, factor: float) -> "Function":
        """This function times a number."""
        if factor == 1.0:
            return self
        return Function(self.kind, self.arity, lambda x: self.of(x).times(factor), self.node)

    def of(self, arguments: Sequence[Expression]) -> Expression:
        if self.arity is not None and len(arguments) != self.arity:
            text = f"{self.kind} takes {self.arity} coordinates, {len(arguments)} are named"
            if self.node is None:
                raise ValueError(text)
            self.node.fail(text)
        return self.make(arguments)


IDENTITY = Function("identity", 1, lambda x: x[0])


def constant_function(value: float) -> Function:
    return Function("Constant", None, lambda _: constant(value))


def read_function(node: Node) -> Function | None:
    """The function that an element is or holds; None where it is empty.

    Files put functions in a holder (<function>, <x_location>, ...), or, as a property of
    its own type, name them by the element's tag.

    **Raises:** `UnsupportedElementError` for a function that is not known; `FileFormatError`
    for one that makes no sense.
    """
    if node.tag in _READERS:
        return _READERS[node.tag](node)
    held = [child for child in node.children if child.tag in _READERS]
    if held:
        return _READERS[held[0].tag](held[0])
    if node.children:
        tag, known = node.children[0].tag, ", ".join(_READERS)
        node.children[0].unsupported(f"the function {tag!r} is not known; known are {known}")
    return None


def _constant(node: Node) -> Function:
    value = _finite(node, "value", node.number("value", 0.0))
    return constant_function(value)


def _linear(node: Node) -> Function:
    coefficients = node.vector("coefficients", default=(1.0, 0.0))
    _all_finite(node, "coefficients", coefficients)
    if len(coefficients) < 2:
        node.fail(f"{node.tag} has {len(coefficients)} coefficients; slope and offset are expected")
    *slopes, offset = coefficients
    return Function(
        node.tag,
        len(slopes),
        lambda x: combine(offset, list(zip(slopes, x, strict=True))),
        node,
    )


def _simm_spline(node: Node) -> Function:
    x, y = _knots(node, 2)
    if len(x) == 2:
        return _line(node, x, y)
    curve = Curve("simm", tuple(x.tolist()), tuple(y.tolist()), (1.0,) * len(y))
    return _of_one(node, curve)


def _piecewise_linear(node: Node) -> Function:
    x, y = _knots(node, 1)
    if len(x) == 1:
        return constant_function(float(y[0]))
    if len(x) == 2:
        return _line(node, x, y)
    slopes = np.diff(y) / np.diff(x)
    pieces = np.empty((len(x) + 1, 2))
    pieces[0] = y[0], slopes[0]
    pieces[1:-1] = np.column_stack([y[:-1], slopes])
    pieces[-1] = y[-1], slopes[-1]
    return _of_one(node, _pieces(x, pieces))


def _piecewise_constant(node: Node) -> Function:
    """y_k from x_k on; y_0 before the first knot too."""
    x, y = _knots(node, 1)
    return _of_one(node, _pieces(x, np.concatenate([y[:1], y])[:, None]))


def _step(node: Node) -> Function:
    """A smooth step between two values, of fifth order between its two abscissae."""
    if node.child("x") is not None:
        return _piecewise_constant(node)  # what files before 3.0 call StepFunction
    start, end = node.number("start_time", 0.0), node.number("end_time", 1.0)
    low, high = node.number("start_value", 0.0), node.number("end_value", 1.0)
    for name, value in (("start", start), ("end", end), ("start value", low), ("end value", high)):
        _finite(node, name, value)
    if not start < end:
        node.fail(f"{node.label} starts at {start:g} and ends at {end:g}; it must start first")
    h, rise = end - start, high - low
    pieces = np.zeros((3, 6))
    pieces[0, 0], pieces[2, 0] = low, high
    pieces[1] = low, 0.0, 0.0, 10.0 * rise / h**3, -15.0 * rise / h**4, 6.0 * rise / h**5
    return _of_one(node, _pieces(np.asarray([start, end]), pieces))


def _gcv_spline(node: Node) -> Function:
    """Natural spline of degree 2 half_order - 1 through the points.

    Beyond the points the end pieces go on as the polynomials of degree half_order - 1 that
    natural ends leave.
    """
    half = node.integer("half_order", 3)
    if node.number("error_variance", 0.0) != 0.0:
        node.unsupported(
            f"{node.label} is smoothed (error_variance is not 0), which is not supported; "
            "replace it by the spline through its smoothed values"
        )
    if half not in (1, 2, 3, 4):
        node.fail(f"{node.label} has half_order {half}; 1 to 4 are expected")
    x, y = _knots(node, 2)
    if half == 1:
        return _piecewise_linear(node)
    if len(x) < 2 * half:
        node.fail(f"{node.label} has {len(x)} points; half_order {half} needs {2 * half}")
    degree = 2 * half - 1
    ends = [(order, 0.0) for order in range(half, degree)]
    try:
        inside = PPoly.from_spline(make_interp_spline(x, y, degree, bc_type=(ends, ends)))
    except (ValueError, np.linalg.LinAlgError) as error:
        node.fail(f"{node.label} cannot be interpolated: {error}")
    inner = slice(degree, len(inside.x) - 1 - degree)
    table = np.zeros((len(x) + 1, degree + 1))
    table[1:-1] = inside.c[::-1, inner].T
    powers = [_taylor(table[1], 0.0, degree), _taylor(table[-2], float(x[-1] - x[-2]), degree)]
    table[0, :half], table[-1, :half] = powers[0][:half], powers[1][:half]
    return _of_one(node, _pieces(x, table))


def _polynomial(node: Node) -> Function:
    """Coefficients from the highest power down."""
    coefficients = node.vector("coefficients")
    _all_finite(node, "coefficients", coefficients)
    if not 1 <= len(coefficients) <= 50:
        node.fail(f"{node.label} has {len(coefficients)} coefficients; 1 to 50 are read")
    rising = tuple(reversed(coefficients))
    if len(rising) == 1:
        return constant_function(rising[0])
    if len(rising) == 2:
        return Function(node.tag, 1, lambda x: combine(rising[0], [(rising[1], x[0])]), node)
    exponents = tuple((power,) for power in range(len(rising)))
    one = (1.0,) + (0.0,) * (len(rising) - 1)
    return _of_one(node, Curve("polynomial", exponents, rising, one))


def _multivariate_polynomial(node: Node) -> Function:
    """All monomials up to a total order; the last variable's power runs fastest."""
    dimension, order = node.integer("dimension", 0), node.integer("order", -1)
    if not 1 <= dimension <= 6 or not 0 <= order <= 20:
        node.fail(f"{node.label} has dimension {dimension} and order {order}; 1-6 and 0-20")
    exponents = total_degree(dimension, order)
    values = node.vector("coefficients", default=(0.0,) * len(exponents))
    _all_finite(node, "coefficients", values)
    if len(values) != len(exponents):
        node.fail(
            f"{node.label} has {len(values)} coefficients; dimension {dimension} and order "
            f"{order} make {len(exponents)}"
        )
    one = tuple(1.0 if not any(term) else 0.0 for term in exponents)
    curve = Curve("polynomial", exponents, values, one)
    if order > 1:
        return Function(node.tag, dimension, lambda x: apply(curve, x), node)
    by_term = dict(zip(exponents, values, strict=True))
    unit = [tuple(int(a == b) for b in range(dimension)) for a in range(dimension)]
    slopes = [by_term.get(term, 0.0) for term in unit]
    offset = by_term[(0,) * dimension]
    return Function(
        node.tag, dimension, lambda x: combine(offset, list(zip(slopes, x, strict=True))), node
    )


def _multiplier(node: Node) -> Function:
    holder = node.child("function")
    inner = None if holder is None else read_function(holder)
    if inner is None:
        node.fail(f"{node.label} holds no function")
    scale = _finite(node, "scale", node.number("scale", 1.0))
    return Function(node.tag, inner.arity, lambda x: inner.of(x).times(scale), node)


def _sine(node: Node) -> Function:
    amplitude, omega, phase, offset = (
        _finite(node, tag, node.number(tag, default))
        for tag, default in (("amplitude", 1.0), ("omega", 1.0), ("phase", 0.0), ("offset", 0.0))
    )
    if omega == 0.0 or amplitude == 0.0:
        return constant_function(amplitude * float(np.sin(phase)) + offset)
    # Fourier's rows are the constant, the cosine and the sine.
    values = (offset, amplitude * float(np.sin(phase)), amplitude * float(np.cos(phase)))
    return _of_one(node, Curve("sine", (omega,), values, (1.0, 0.0, 0.0)))


def _of_one(node: Node, curve: Curve) -> Function:
    return Function(node.tag, 1, lambda x: apply(curve, x), node)


def _line(node: Node, x: np.ndarray, y: np.ndarray) -> Function:
    slope = float((y[1] - y[0]) / (x[1] - x[0]))
    offset = float(y[0] - slope * x[0])
    return Function(node.tag, 1, lambda a: combine(offset, [(slope, a[0])]), node)


def _pieces(x: np.ndarray, table: np.ndarray) -> Curve:
    one = np.zeros_like(table)
    one[:, 0] = 1.0
    shape = (float(table.shape[1] - 1), *x.tolist())
    return Curve("pieces", shape, tuple(table.ravel().tolist()), tuple(one.ravel().tolist()))


def _taylor(piece: np.ndarray, at: float, degree: int) -> np.ndarray:
    """Coefficients of the same polynomial about another point."""
    polynomial = np.polynomial.Polynomial(piece)
    moved = polynomial(np.polynomial.Polynomial([at, 1.0])).coef
    return np.pad(moved, (0, degree + 1 - len(moved)))


def total_degree(dimension: int, order: int) -> tuple[tuple[int, ...], ...]:
    if dimension == 1:
        return tuple((power,) for power in range(order + 1))
    return tuple(
        (power, *rest)
        for power in range(order + 1)
        for rest in total_degree(dimension - 1, order - power)
    )


def _knots(node: Node, least: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(node.vector("x")), np.asarray(node.vector("y"))
    _all_finite(node, "x", x)
    _all_finite(node, "y", y)
    if len(x) != len(y):
        node.fail(f"{node.label} has {len(x)} abscissae x and {len(y)} values y")
    if not least <= len(x) <= _MOST_KNOTS:
        node.fail(f"{node.label} has {len(x)} points; {least} to {_MOST_KNOTS} are expected")
    if np.any(np.diff(x) <= 0.0):
        i = int(np.argmax(np.diff(x) <= 0.0))
        node.fail(
            f"abscissae of {node.label} do not increase: {x[i]:g} is followed by {x[i + 1]:g}"
        )
    return x, y


def _all_finite(node: Node, what: str, values: Sequence[float] | np.ndarray) -> None:
    for value in values:
        _finite(node, what, float(value))


def _finite(node: Node, what: str, value: float) -> float:
    if not np.isfinite(value):
        node.fail(f"{what} of {node.label} is {value}; a finite number is expected")
    return value


_READERS: dict[str, Callable[[Node], Function]] = {
    "Constant": _constant,
    "LinearFunction": _linear,
    "SimmSpline": _simm_spline,
    "NaturalCubicSpline": _simm_spline,
    "natCubicSpline": _simm_spline,
    "GCVSpline": _gcv_spline,
    "PiecewiseLinearFunction": _piecewise_linear,
    "PiecewiseLinear": _piecewise_linear,
    "PiecewiseConstantFunction": _piecewise_constant,
    "StepFunction": _step,
    "PolynomialFunction": _polynomial,
    "Polynomial": _polynomial,
    "MultivariatePolynomialFunction": _multivariate_polynomial,
    "MultiplierFunction": _multiplier,
    "Sine": _sine,
}
