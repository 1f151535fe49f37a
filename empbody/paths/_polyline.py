"""Paths as lines in the ground frame, to draw: straight pieces and geodesics over surfaces."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics._arguments import coordinates
from ..model import Model
from ._effective import sample_strings
from ._report import require_ranges
from ._string import Strings
from ._torus_curve import torus_curve

Points = Float[np.ndarray, "n 3"]
Vector = Float[np.ndarray, "3"]


def path_polylines(
    model: Model, q: Float[Array, " nq"] | Float[np.ndarray, " nq"], points_per_arc: int = 25
) -> dict[str, Points]:
    """Every musculotendon unit by name as a line of points in the ground frame (m), from origin
    to insertion.

    The line goes through the path points that count at this pose and, on each surface that
    it lies on, through `points_per_arc` points from touch-down to lift-off, both included, evenly
    spaced along the geodesic. Their number differs from unit to unit and from pose to pose;
    so this is for drawing and writing to files, one pose at a time, and is not to be used under
    `jit`, `vmap` or `grad` (see `effective_points` for something that is).

    **Raises:** `ValueError` where q is outside a moving point's range.
    """
    if points_per_arc < 2:
        raise ValueError(f"points_per_arc is {points_per_arc}; an arc has at least its two ends")
    require_ranges(model, q)
    found = _strings(model, jnp.asarray(q, dtype=float))
    layout, plan = model.paths.layout, found.plan
    world = np.asarray(found.points.world)[..., 0].T
    alive = {point: bool(here[0]) for point, here in found.points.alive.items()}
    lines = {}
    for unit, name in enumerate(layout.names):
        pieces = []
        for point in layout.points_of(unit):
            if not alive.get(point, True):
                continue
            if point in plan.stretches:
                row = plan.stretches.index(point)
                pieces += [_arc(found, k, points_per_arc) for k in _in_contact(found, row)]
            pieces.append(world[point][None])
        lines[name] = np.concatenate(pieces)
    return lines


@eqx.filter_jit
def _strings(model: Model, q: Array) -> Strings:
    (q,) = coordinates(model, q=q)
    return sample_strings(model, q)[0]


def _in_contact(found: Strings, row: int) -> list[int]:
    """Slots that lift a stretch, in order along the string."""
    t = found.touches
    if t is None:
        return []
    on, first, last = (np.asarray(x)[:, 0] for x in (t.on, t.first, t.last))
    slots = [k for k, own in enumerate(found.plan.rows) if own == row and on[k]]
    return sorted(slots, key=lambda k: (not first[k], bool(last[k])))


def _arc(found: Strings, slot: int, count: int) -> Points:
    """Points of the geodesic over one surface.

    It is followed from the end where the free piece, which is tangent to it, is longer; the
    little by which it misses the other end is spread over its length.
    """
    surfaces, t = found.slots, found.touches
    assert surfaces is not None
    assert t is not None
    centre = np.asarray(surfaces.centre)[:, slot, 0]
    turned = np.asarray(surfaces.rotation)[:, :, slot, 0]
    p, q, before, after = (
        (np.asarray(x)[:, slot, 0] - centre) @ turned for x in (t.p, t.q, t.before, t.after)
    )
    shape = _Shape(found.plan.kinds[slot], np.asarray(surfaces.size)[:, slot, 0])
    arc = float(np.asarray(t.arc)[slot, 0])
    if shape.kind == "torus":  # is always whole
        points = torus_curve((before, after), (p, q), arc, shape.size, count)
        return points @ turned.T + centre
    shift, shape = _what_is_left(found, slot, shape)
    backwards = np.linalg.norm(after - q) > np.linalg.norm(p - before)
    start, end, heading = (q, p, q - after) if backwards else (p, q, p - before)
    if not np.any(heading):  # both ends of the stretch are on the surface
        heading = end - start
    points = _followed(shape, start - shift, heading, arc, count)
    missed = end - shift - points[-1]
    points = shape.onto(points + np.linspace(0.0, 1.0, count)[:, None] * missed) + shift
    points[0], points[-1] = start, end
    return (points[::-1] if backwards else points) @ turned.T + centre


def _what_is_left(found: Strings, slot: int, shape: "_Shape") -> tuple[Vector, "_Shape"]:
    """What is left of the surface, and how far it has moved (see `Left`)."""
    left = found.left
    shift, scale = np.asarray(left.shift)[:, slot, 0], float(np.asarray(left.scale)[slot, 0])
    return shift * shape.size, _Shape(shape.kind, shape.size * scale)


class _Shape:
    """A surface F = 0 about the origin."""

    def __init__(self, kind: str, size: Vector) -> None:
        self.kind, self.size = kind, size
        self.flat = np.array([1.0, 1.0, 0.0 if kind == "cylinder" else 1.0])

    def round(self, x: np.ndarray) -> np.ndarray:
        return self.flat * x / self.size

    def slopes(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        """F / 2 and half its gradient."""
        scaled = self.round(x)
        return 0.5 * (np.sum(scaled**2, axis=-1) - 1.0), scaled / self.size

    def bend(self, x: Vector, v: Vector) -> Vector:
        """Second derivative by arc length of the geodesic through x with unit tangent v."""
        _, gradient = self.slopes(x)
        return -np.sum(self.round(v) ** 2) / (gradient @ gradient) * gradient

    def onto(self, x: Points) -> Points:
        """The nearest points of the surface, for points that are close."""
        for _ in range(3):
            value, gradient = self.slopes(x)
            x = x - (value / np.sum(gradient**2, axis=-1))[..., None] * gradient
        return x


_STEPS = 64


def _followed(shape: _Shape, start: Vector, heading: Vector, length: float, count: int) -> Points:
    """The geodesic from a point in a direction: `count` points evenly spaced up to `length`."""
    _, normal = shape.slopes(start)
    heading = heading - (heading @ normal) / (normal @ normal) * normal
    steps = -(-_STEPS // (count - 1))  # between two points
    h = length / (steps * (count - 1))
    x, v = start, heading / max(float(np.linalg.norm(heading)), 1e-300)
    points = [x]
    for k in range(steps * (count - 1)):
        # Runge and Kutta's method.
        a1 = shape.bend(x, v)
        x2, v2 = x + 0.5 * h * v, v + 0.5 * h * a1
        a2 = shape.bend(x2, v2)
        x3, v3 = x + 0.5 * h * v2, v + 0.5 * h * a2
        a3 = shape.bend(x3, v3)
        x4, v4 = x + h * v3, v + h * a3
        a4 = shape.bend(x4, v4)
        x, v = x + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        if (k + 1) % steps == 0:
            points.append(x)
    return np.stack(points)
