"""Joints that glide over an ellipsoid, as chains whose slides follow their turns."""

from collections.abc import Callable, Sequence

import numpy as np

from ._expressions import Curve, Expression, apply, combine
from ._frames import finite
from ._functions import IDENTITY, Function, constant_function
from ._spec import AxisSpec
from ._xml import Node

_X, _Y, _Z = np.eye(3)


def ellipsoid(node: Node, names: Sequence[str]) -> list[AxisSpec]:
    """Steps of a joint whose child glides over an ellipsoid and turns with its normal."""
    radii = finite(node, "radii_x_y_z", 3, None)
    return _ellipsoid_steps(node, names[:3], radii)


def _ellipsoid_steps(node: Node, names: Sequence[str], radii: Sequence[float]) -> list[AxisSpec]:
    """Turns about X, Y, Z with the origin on an ellipsoid, at radii times the turned Z axis.

    The turned Z axis is (sin b, -sin a cos b, cos a cos b); products of sines are sums of
    sines of a + b and a - b, which need no curve of two variables.
    """
    a, b, _ = names

    def across(x: Sequence[Expression]) -> Expression:
        return apply(_wave(radii[0], "sin"), [x[0]])

    def halves(radius: float, kind: str) -> Callable[[Sequence[Expression]], Expression]:
        def make(x: Sequence[Expression]) -> Expression:
            both = [combine(0.0, [(1.0, x[0]), (sign, x[1])]) for sign in (1.0, -1.0)]
            wave = _wave(0.5 * radius, kind)
            return combine(0.0, [(1.0, apply(wave, [argument])) for argument in both])

        return make

    sideways = Function("ellipsoid", 2, halves(-radii[1], "sin"), node)
    outward = Function("ellipsoid", 2, halves(radii[2], "cos"), node)
    return [
        AxisSpec("translation1", False, _X, Function("ellipsoid", 1, across, node), (b,), node),
        AxisSpec("translation2", False, _Y, sideways, (a, b), node),
        AxisSpec("translation3", False, _Z, outward, (a, b), node),
        *(
            AxisSpec(f"rotation{i + 1}", True, direction, IDENTITY, (names[i],), node)
            for i, direction in enumerate((_X, _Y, _Z))
        ),
    ]


def _wave(amplitude: float, kind: str) -> Curve:
    values = (0.0, amplitude, 0.0) if kind == "cos" else (0.0, 0.0, amplitude)
    return Curve("sine", (1.0,), values, (1.0, 0.0, 0.0))


def scapulothoracic(node: Node, names: Sequence[str]) -> list[AxisSpec]:
    """A glide over the thorax's ellipsoid, then winging about an axis in its tangent plane.

    The ellipsoid's frame is turned a quarter about Z, so that abduction and elevation are
    positive; its radii are given in the unturned frame.
    """
    rx, ry, rz = finite(node, "thoracic_ellipsoid_radii_x_y_z", 3, None)
    ox, oy = finite(node, "scapula_winging_axis_origin", 2, (0.0, 0.0))
    angle = node.number("scapula_winging_axis_direction", 0.0)
    if not np.isfinite(angle):
        node.fail(f"the winging axis of {node.label} has the direction {angle}")
    winging = np.asarray([-np.sin(angle), np.cos(angle), 0.0])

    def fixed(label: str, turns: bool, direction: np.ndarray, value: float) -> AxisSpec:
        return AxisSpec(label, turns, direction, constant_function(value), (), node)

    return [
        fixed("quarter", True, _Z, 0.5 * np.pi),
        *_ellipsoid_steps(node, names[:3], (ry, rx, rz)),
        fixed("quarter_back", True, _Z, -0.5 * np.pi),
        fixed("to_winging_x", False, _X, ox),
        fixed("to_winging_y", False, _Y, oy),
        AxisSpec("winging", True, winging, IDENTITY, (names[3],), node),
        fixed("from_winging_x", False, _X, -ox),
        fixed("from_winging_y", False, _Y, -oy),
    ]
