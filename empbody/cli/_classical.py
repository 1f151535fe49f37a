"""Kinematics by the constraint Jacobian in absolute coordinates: an independent check.

Every bar has the three coordinates x, y (its first end) and φ (its angle against the x
axis). Pins and drivers are constraints C(x, t) = 0, and C_x ẋ = -C_t, C_x ẍ = γ give the
motion (Shabana 2005). Written in NumPy with nothing of the formulation under test.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Rows = Float[np.ndarray, "rows 2"]


class Driver(NamedTuple):
    """What a coordinate drives: `point` along bar `bar` in height, or the bar's angle
    against the bar before when `point` is None. Bars count from 0."""

    bar: int
    point: float | None


class PointMotion(NamedTuple):
    position: Rows
    velocity: Rows
    acceleration: Rows


def classical_motion(
    lengths: tuple[float, ...],
    span: float,
    drivers: tuple[Driver, ...],
    motion: tuple[Float[np.ndarray, "rows nq"], ...],
    start: Float[np.ndarray, " bars"],
    point: tuple[int, float],
) -> PointMotion:
    """Motion of a point of a chain of bars from (0, 0) to (span, 0).

    - `motion`: q, q̇ and q̈ of the drivers, row by row; rows follow each other closely.
    - `start`: absolute angles of the bars in the first row, as a guess; they pick the
      assembly mode, later rows start from the one before.
    - `point`: its bar and how far along.
    """
    x = _from_angles(lengths, start)
    rows = []
    for q, qd, qdd in zip(*motion, strict=True):
        x = _assemble(x, lengths, span, drivers, q)
        jacobian = _jacobian(x, lengths, drivers)
        pins = jacobian.shape[0] - len(drivers)
        speed = np.linalg.solve(jacobian, np.concatenate([np.zeros(pins), qd]))
        gamma = np.concatenate([np.zeros(pins), qdd]) - _quadratic(x, speed, lengths, drivers)
        rows.append(_point(x, speed, np.linalg.solve(jacobian, gamma), *point))
    return PointMotion(*(np.array(column) for column in zip(*rows, strict=True)))


def _from_angles(lengths: tuple[float, ...], angles: np.ndarray) -> np.ndarray:
    ends = np.cumsum(np.array(lengths)[:, None] * _direction(angles), axis=0)
    starts = np.vstack([np.zeros((1, 2)), ends[:-1]])
    return np.column_stack([starts, angles]).ravel()


def _direction(angle: np.ndarray | float) -> np.ndarray:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def _along(bar: np.ndarray, distance: float) -> np.ndarray:
    return bar[:2] + distance * _direction(bar[2])


def _constraints(
    x: np.ndarray, lengths: tuple[float, ...], span: float, drivers: tuple[Driver, ...], q
) -> np.ndarray:
    bars = x.reshape(-1, 3)
    starts = [*bars[1:, :2], np.array([span, 0.0])]
    rows = [bars[0, :2]]
    rows += [
        _along(bar, length) - start
        for bar, length, start in zip(bars, lengths, starts, strict=True)
    ]
    for driver, value in zip(drivers, q, strict=True):
        bar = bars[driver.bar]
        if driver.point is not None:
            rows.append(_along(bar, driver.point)[1:] - value)
        else:
            before = bars[driver.bar - 1, 2] if driver.bar else 0.0
            rows.append(np.array([bar[2] - before - value]))
    return np.concatenate(rows)


def _jacobian(x: np.ndarray, lengths: tuple[float, ...], drivers: tuple[Driver, ...]) -> np.ndarray:
    n = len(lengths)
    bars = x.reshape(n, 3)
    jacobian = np.zeros((2 * n + 2 + len(drivers), 3 * n))
    jacobian[:2, :2] = np.eye(2)
    for i, length in enumerate(lengths):
        row = 2 * i + 2
        jacobian[row : row + 2, 3 * i : 3 * i + 2] = np.eye(2)
        jacobian[row : row + 2, 3 * i + 2] = length * _direction(bars[i, 2] + np.pi / 2)
        if i + 1 < n:
            jacobian[row : row + 2, 3 * i + 3 : 3 * i + 5] = -np.eye(2)
    for k, driver in enumerate(drivers):
        row, angle = 2 * n + 2 + k, 3 * driver.bar + 2
        if driver.point is not None:
            jacobian[row, angle - 1] = 1.0
            jacobian[row, angle] = driver.point * np.cos(bars[driver.bar, 2])
        else:
            jacobian[row, angle] = 1.0
            if driver.bar:
                jacobian[row, angle - 3] = -1.0
    return jacobian


def _quadratic(
    x: np.ndarray, speed: np.ndarray, lengths: tuple[float, ...], drivers: tuple[Driver, ...]
) -> np.ndarray:
    """(C_x ẋ)_x ẋ: what the turning of the bars adds to the accelerations."""
    angles, rates = x[2::3], speed[2::3]
    inward = -(rates**2)[:, None] * _direction(angles)
    rows = [np.zeros(2), (np.array(lengths)[:, None] * inward).ravel()]
    for driver in drivers:
        height = 0.0 if driver.point is None else driver.point * inward[driver.bar, 1]
        rows.append(np.array([height]))
    return np.concatenate(rows)


def _assemble(
    x: np.ndarray, lengths: tuple[float, ...], span: float, drivers: tuple[Driver, ...], q
) -> np.ndarray:
    for _ in range(30):
        step = np.linalg.solve(
            _jacobian(x, lengths, drivers), _constraints(x, lengths, span, drivers, q)
        )
        x = x - step
        if np.max(np.abs(step)) < 1e-14 * max(1.0, span):
            break
    return x


def _point(
    x: np.ndarray, speed: np.ndarray, push: np.ndarray, bar: int, distance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    place, rate, change = (y.reshape(-1, 3)[bar] for y in (x, speed, push))
    radial = distance * _direction(place[2])
    tangent = distance * _direction(place[2] + np.pi / 2)
    return (
        place[:2] + radial,
        rate[:2] + rate[2] * tangent,
        change[:2] + change[2] * tangent - rate[2] ** 2 * radial,
    )
