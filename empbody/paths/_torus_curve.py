"""The course of a string over a torus, for drawing: where it lies on the tube, and where it
bridges the hole (see `_torus_string`)."""

import numpy as np

Vector = np.ndarray
Points = np.ndarray

_FINE = 400
"""Pieces of a geodesic, which follow each other by the midpoint rule."""


def torus_curve(
    ends: tuple[Vector, Vector],
    touched: tuple[Vector, Vector],
    arc: float,
    size: Vector,
    count: int,
) -> Points:
    """`count` points evenly spaced from touch-down to the last lift-off, in the torus's frame.

    `ends` are where the straight pieces before and after come from and go to."""
    tube, ring = float(size[0]), float(size[1])
    flip = np.array([1.0, 1.0, -1.0 if ends[0][2] > ends[1][2] else 1.0])
    (before, after), (p, q) = (x * flip for x in ends), (x * flip for x in touched)
    first, last = (float(np.arctan2(x[2], ring - np.hypot(x[0], x[1]))) for x in (p, q))
    c = _momentum(before, p, q, after)
    found = [_lengths_and_points(c, None, first, last, p, tube, ring)]
    for leaves in _bridges(c, tube, ring):
        if first <= -leaves and last >= leaves:
            found.append(_lengths_and_points(c, leaves, first, last, p, tube, ring))
    # The same momentum may belong to strings of both kinds: the length tells.
    lengths, points = min(found, key=lambda course: abs(course[0][-1] - arc))
    at = np.linspace(0.0, lengths[-1], count)
    even = np.stack([np.interp(at, lengths, x) for x in points.T], axis=1)
    even = even + np.linspace(0.0, 1.0, count)[:, None] * (q - even[-1])
    return even * flip


def _momentum(before: Vector, p: Vector, q: Vector, after: Vector) -> float:
    """About the axis, of unit speed along the longer of the straight pieces."""
    start, way = max(((p, p - before), (q, after - q)), key=lambda line: np.linalg.norm(line[1]))
    reach = float(np.linalg.norm(way))
    if reach == 0.0:
        start, way, reach = p, q - p, max(float(np.linalg.norm(q - p)), 1e-300)
    return float(start[0] * way[1] - start[1] * way[0]) / reach


def _bridges(c: float, tube: float, ring: float) -> list[float]:
    """Tube angles at which a string of this momentum may come down from a bridge: of
    c² = (R - r x)² (1 - r/(R x)), where x is the cosine."""
    square = np.poly1d([-tube, ring]) ** 2
    equation = square * np.poly1d([ring, -tube]) - np.poly1d([c * c * ring, 0.0])
    x = [float(root.real) for root in equation.roots if abs(root.imag) < 1e-9]
    return [float(np.arccos(value)) for value in x if tube / ring <= value <= 1.0]


def _lengths_and_points(
    c: float, leaves: float | None, first: float, last: float, p: Vector, tube: float, ring: float
) -> tuple[Vector, Points]:
    """Length so far and points of the string from p on."""
    theta = float(np.arctan2(p[1], p[0]))
    pieces = [(first, last)] if leaves is None else [(first, -leaves), (leaves, last)]
    lengths, points = [np.zeros(1)], [p[None]]
    for number, (start, end) in enumerate(pieces):
        if number == 1:
            theta += _angle_over(c, pieces[1][0], tube, ring)
        psi = np.linspace(start, end, _FINE + 1)
        middle = 0.5 * (psi[1:] + psi[:-1])
        step = tube * (end - start) / _FINE
        rho = ring - tube * np.cos(middle)
        pace = 1.0 / np.sqrt(np.maximum(rho**2 - c**2, 1e-12 * ring**2))
        angle = theta + np.concatenate([[0.0], np.cumsum(c * step * pace / rho)])
        away = ring - tube * np.cos(psi)
        here = np.stack([away * np.cos(angle), away * np.sin(angle), tube * np.sin(psi)], axis=1)
        gap = float(np.linalg.norm(here[0] - points[-1][-1]))
        run = np.concatenate([[0.0], np.cumsum(step * pace * rho)])
        lengths.append(lengths[-1][-1] + gap + run)
        points.append(here)
        theta = float(angle[-1])
    return np.concatenate(lengths), np.concatenate(points)


def _angle_over(c: float, leaves: float, tube: float, ring: float) -> float:
    """Ring angle of a bridge."""
    x = float(np.cos(leaves))
    sine = max(1.0 - tube / (ring * x), 0.0) ** 0.5
    half = tube * float(np.sin(leaves)) / (x * (tube / (ring * x)) ** 0.5)
    return 2.0 * float(np.copysign(np.arctan2(half, ring * sine), c))
