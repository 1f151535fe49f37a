"""Springs and ligaments of a file: laws of tension for strings."""

from collections.abc import Callable

import numpy as np

from ...paths._tension import AbstractTension, CurveTension, ElasticTension, GivenTension
from ...rhythms import SimmSpline
from ._context import Context
from ._expressions import coordinate
from ._functions import read_function
from ._xml import Node

# Zajac (1989), as OpenSim's Ligament carries it where a file gives no curve.
_LIGAMENT = (
    (-5.0, 0.998, 0.999, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.601, 1.602, 5.0),
    (0.0, 0.0, 0.0, 0.0, 0.035, 0.12, 0.26, 0.55, 1.17, 2.0, 2.0, 2.0, 2.0),
)


def _path_spring(context: Context, node: Node) -> AbstractTension | None:
    numbers = [node.number(tag) for tag in ("stiffness", "resting_length")]
    numbers.append(node.number("dissipation", 0.0))
    if not np.all(np.isfinite(numbers)) or min(numbers) < 0.0:
        node.fail(f"numbers of {node.label} must be finite and not negative")
    return ElasticTension(*numbers)


def _ligament(context: Context, node: Node) -> AbstractTension | None:
    rest = node.number("resting_length", 0.0)
    force = node.number("pcsa_force", 0.0)
    if not (rest > 0.0 and np.isfinite(rest) and np.isfinite(force)):
        node.fail(f"resting_length of {node.label} is {rest:g} m; it must be positive")
    found = _pieces(node, "force_length_curve")
    if found is None:
        context.refuse(node, "its force_length_curve is no piecewise polynomial of the length")
        return None
    return CurveTension(rest, force, *found)


def _blankevoort(context: Context, node: Node) -> AbstractTension | None:
    """A parabola up to the transition strain, then a line."""
    stiffness, bend = node.number("linear_stiffness", 1.0), node.number("transition_strain", 0.06)
    rest, damping = node.number("slack_length", 0.0), node.number("damping_coefficient", 0.003)
    if not (rest > 0.0 and bend > 0.0 and np.all(np.isfinite([rest, bend, stiffness, damping]))):
        node.fail(f"slack_length and transition_strain of {node.label} must be positive")
    pieces = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.5 / bend], [0.5 * bend, 1.0, 0.0]]
    return CurveTension(rest, stiffness, np.asarray([1.0, 1.0 + bend]), np.asarray(pieces), damping)


def _path_actuator(context: Context, node: Node) -> AbstractTension | None:
    words = "it pulls only by a control, so its tension is zero here; its length is known"
    context.note("approximated", node, words)
    return GivenTension()


LAWS: dict[str, Callable[[Context, Node], AbstractTension | None]] = {
    "PathSpring": _path_spring,
    "Ligament": _ligament,
    "Blankevoort1991Ligament": _blankevoort,
    "PathActuator": _path_actuator,
}


def _pieces(node: Node, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """A curve as breaks and polynomials between and beyond them."""
    holder = node.child(name)
    if holder is None:
        holder = next((child for child in node.children if child.name == name), None)
    function = None if holder is None else read_function(holder)
    if function is None:
        return _spline_pieces(*(np.asarray(row) for row in _LIGAMENT))
    if function.arity not in (1, None):
        return None
    value = function.of([coordinate("length")])
    if value.is_affine:
        slope = value.slopes.get("length", 0.0)
        line = [value.offset + slope, slope]
        return np.asarray([1.0]), np.asarray([line, line])
    if len(value.weights) != 1 or value.slopes:
        return None
    ((atom, weight),) = value.weights.items()
    if [argument.coordinate for argument in atom.arguments] != ["length"]:
        return None
    numbers = atom.curve.scaled(weight, value.offset)
    if atom.curve.kind == "simm":
        return _spline_pieces(np.asarray(atom.curve.shape, dtype=float), numbers)
    if atom.curve.kind != "pieces":
        return None
    breaks = np.asarray(atom.curve.shape[1:], dtype=float)
    return breaks, numbers.reshape(len(breaks) + 1, -1)


def _spline_pieces(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    slopes = np.asarray(SimmSpline(x, y).slopes)[:, 0]
    h, secant = np.diff(x), np.diff(y) / np.diff(x)
    inner = np.column_stack(
        [
            y[:-1],
            slopes[:-1],
            (3.0 * secant - 2.0 * slopes[:-1] - slopes[1:]) / h,
            (slopes[:-1] + slopes[1:] - 2.0 * secant) / h**2,
        ]
    )
    first, last = [y[0], slopes[0], 0.0, 0.0], [y[-1], slopes[-1], 0.0, 0.0]
    return x, np.vstack([first, inner, last])
