"""Random musculotendon paths over the random trees of `_random_trees`.

Which bodies a path touches, and what its points are, comes from the shape's own seed; the
numbers come from the case's. So all cases of a shape share one compilation.
"""

import zlib
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from _random_trees import SHAPES, Shape, Wavy, _case
from jaxtyping import Array, Float

from empbody.model import ConditionalPoint, Model, MovingPoint, Path, PathPoint


class Case(NamedTuple):
    """A tree with paths, a state and tensions."""

    model: Model
    q: Float[Array, " nq"]
    qd: Float[Array, " nq"]
    tension: Float[Array, " nm"]


class Point(NamedTuple):
    """Structure of a path point; `inputs` are coordinates it depends on."""

    body: int
    kind: str
    inputs: tuple[int, ...] = ()


def random_points(seed: int, shape: Shape, n_bodies: int) -> tuple[Point, ...]:
    """Points on `n_bodies` bodies in a row, ground and repetition allowed.

    One or two points on each, fixed, moving with one or two coordinates, or conditional.
    The ends stay, so they are not conditional.
    """
    rng = np.random.default_rng(seed)
    bodies = [int(rng.integers(-1, shape.nb))]
    while len(bodies) < n_bodies:
        body = int(rng.integers(-1, shape.nb))
        if body != bodies[-1]:
            bodies.append(body)
    points = []
    for body in np.repeat(bodies, rng.integers(1, 3, size=n_bodies)):
        kind = str(rng.choice(["fixed", "moving", "conditional"], p=[0.5, 0.3, 0.2]))
        size = {"fixed": 0, "moving": min(shape.nq, int(rng.integers(1, 3))), "conditional": 1}
        inputs = rng.choice(shape.nq, size=size[kind], replace=False)
        points.append(Point(int(body), kind, tuple(int(i) for i in inputs)))
    for end in (0, -1):
        if points[end].kind == "conditional":
            points[end] = Point(points[end].body, "fixed")
    return tuple(points)


def special_points(shape: Shape) -> list[tuple[Point, ...]]:
    """Paths that random ones may miss."""
    a, b, c = 0, 1, shape.nb - 1
    fixed = [Point(body, "fixed") for body in (-1, a, b, c)]
    between = Point(b, "conditional", (0,))
    moving = Point(a, "moving", (shape.nq - 1,))
    return [
        (fixed[0], fixed[3]),
        (fixed[1], fixed[2], fixed[1]),  # goes to a body and comes back
        (fixed[0], fixed[1], between, between, fixed[1], fixed[3]),  # one body, or the same twice
        (moving, moving, fixed[1]),  # all on one body
    ]


def paths_of(shape: Shape, name: str) -> list[tuple[Point, ...]]:
    seed = zlib.crc32(name.encode())
    drawn = [random_points(seed + n, shape, n) for n in range(2, 7)]
    return special_points(shape) + drawn


def random_case(name: str, seed: int) -> Case:
    shape = SHAPES[name]
    rng = np.random.default_rng(seed)
    tree = _case(shape, rng)
    units = [
        Path(f"unit{k}", [_point(point, shape, rng) for point in points])
        for k, points in enumerate(paths_of(shape, name))
    ]
    tension = jnp.asarray(rng.uniform(0.0, 100.0, size=len(units)))
    return Case(tree.models.with_muscles(units), tree.q, tree.qd, tension)


def _point(
    point: Point, shape: Shape, rng: np.random.Generator
) -> PathPoint | MovingPoint | ConditionalPoint:
    body = "ground" if point.body < 0 else f"body{point.body}"
    names = tuple(f"q{i}" for i in point.inputs)
    if point.kind == "moving":
        n = len(names)
        numbers = [rng.normal(size=s) / 3 for s in ((3,), (3, n), (3, 3), (3, n))]
        return MovingPoint(body, Wavy(*(jnp.asarray(x) for x in numbers)), names)
    if point.kind == "conditional":
        middle = rng.normal()
        return ConditionalPoint(body, rng.normal(size=3) / 3, names[0], (middle - 1, middle + 1))
    return PathPoint(body, rng.normal(size=3) / 3)
