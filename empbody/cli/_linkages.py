"""Kinematics of the four-bar and the five-bar along a desired trajectory."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..io import Table
from ..kinematics import (
    joint_jacobian,
    joint_variables,
    point_acceleration,
    point_position,
    point_velocity,
)
from ..model import Model
from ._case import why_not_closed
from ._classical import PointMotion
from ._errors import FAILURE, CommandError
from ._progress import Progress, Timed, timed
from ._trajectories import Hermite

_ORIGIN = (0.0, 0.0, 0.0)


class Kinematics(NamedTuple):
    """Joint variables and the motion of point p along a trajectory, row by row."""

    time: Float[np.ndarray, " rows"]
    q: Float[np.ndarray, "rows nq"]
    qd: Float[np.ndarray, "rows nq"]
    qdd: Float[np.ndarray, "rows nq"]
    joints: Float[np.ndarray, "rows nj"]
    slopes: Float[np.ndarray, "rows nj nq"]
    point: PointMotion
    """in the plane: x and y"""
    times: Timed


def follow(
    model: Model, path: Hermite, time: Float[np.ndarray, " rows"], progress: Progress
) -> Kinematics:
    """Kinematics along the desired trajectory by the library's fast path."""
    q, qd, qdd = path(time)
    arrays = tuple(jnp.asarray(x) for x in (q, qd, qdd))
    with progress.stage(f"kinematics of {time.size} rows"):
        found, times = timed(lambda: _rows(model, *arrays))
    joints, slopes, *point = (np.asarray(x) for x in found)
    if not np.all(np.isfinite(joints)):
        raise CommandError(why_not_closed(model, q, joints), FAILURE)
    planar = PointMotion(*(x[:, :2] for x in point))
    return Kinematics(time, q, qd, qdd, joints, slopes, planar, times)


@eqx.filter_jit
def _rows(
    model: Model,
    q: Float[Array, "rows nq"],
    qd: Float[Array, "rows nq"],
    qdd: Float[Array, "rows nq"],
):
    def row(x: Float[Array, " nq"], v: Float[Array, " nq"], a: Float[Array, " nq"]):
        return (
            joint_variables(model, x),
            joint_jacobian(model, x),
            point_position(model, x, "p", _ORIGIN),
            point_velocity(model, x, v, "p", _ORIGIN),
            point_acceleration(model, x, v, a, "p", _ORIGIN),
        )

    return jax.vmap(row)(q, qd, qdd)


@eqx.filter_jit
def joints_at(model: Model, q: Float[Array, "rows nq"]) -> Float[Array, "rows nj"]:
    """Joint variables of many rows."""
    return jax.vmap(lambda x: joint_variables(model, x))(q)


def table(name: str, found: Kinematics, coordinates: tuple[str, ...], joints: tuple[str, ...]):
    """Columns: q, qd, qdd, the joint variables, and px, py, vx, vy, ax, ay of point p."""
    labels = list(coordinates)
    labels += [c.replace("q", "qd", 1) for c in coordinates]
    labels += [c.replace("q", "qdd", 1) for c in coordinates]
    labels += [*joints, "px", "py", "vx", "vy", "ax", "ay"]
    columns = [found.q, found.qd, found.qdd, found.joints, *found.point]
    return Table(found.time, tuple(labels), np.hstack(columns), name=name)


def sizes(rows: Float[np.ndarray, "rows 2"]) -> Float[np.ndarray, " rows"]:
    return np.hypot(rows[:, 0], rows[:, 1])


def point_errors(found: PointMotion, classical: PointMotion) -> dict[str, Any]:
    """Largest differences of point p's motion, absolute and relative to its largest size."""
    errors: dict[str, Any] = {}
    for name, unit, ours, theirs in zip(
        ("position", "velocity", "acceleration"), ("m", "m_per_s", "m_per_s2"), found, classical,
        strict=True,
    ):  # fmt: skip
        worst = float(np.max(np.abs(ours - theirs)))
        errors[f"{name}_max_{unit}"] = worst
        errors[f"{name}_relative"] = worst / float(np.max(sizes(theirs)))
    return errors
