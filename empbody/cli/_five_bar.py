"""`empbody run five-bar`: the manuscript's second kinematic case (section 3-4 B, Figs. 8-11)."""

import functools
import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import viz
from ..io import Table
from ..kronecker._projection import Projected
from ..models import FiveBarLoop, five_bar
from ..rhythms import AbstractRhythm, Implicit, Molecule
from ._case import Options, Result, check_changes, start, times
from ._classical import Driver, classical_motion
from ._forward import forward, linkage_words
from ._linkages import follow, joints_at, point_errors, sizes, table
from ._progress import Progress
from ._trajectories import FIVE_BAR

_LENGTHS = ("l0", "l1", "l2", "l3", "l4", "lp")
_GRAVITY = (0.0, -9.80665, 0.0)
_RELEASE = (0.4, 0.8)


def run_five_bar(options: Options, progress: Progress) -> Result:
    """Point p along the desired trajectory; then a fall from rest under gravity."""
    changes = check_changes(options.changes, _LENGTHS)
    lengths = {n: inspect.signature(five_bar).parameters[n].default for n in _LENGTHS} | changes
    with progress.stage(f"closing the loop over the torus ({options.rhythm} rhythm)"):
        model = five_bar(
            options.mode,
            options.rhythm,
            order=options.order,
            gravity=_GRAVITY,
            **changes,  # pyright: ignore[reportArgumentType]
        )
        loop = _closed(model.rhythm)
        if loop is None:
            loop = _closed(five_bar(options.mode, **changes).rhythm)  # pyright: ignore[reportArgumentType]
    q0 = start(model, options.q0, _RELEASE)
    found = follow(model, FIVE_BAR, np.linspace(0.0, 4.0, 401), progress)
    with progress.stage("the same by the constraint Jacobian"):
        classical = classical_motion(
            tuple(lengths[n] for n in ("l1", "l2", "l3", "l4")), lengths["l0"],
            (Driver(0, None), Driver(1, None)), (found.q, found.qd, found.qdd),
            np.cumsum(found.joints[0]), (2, lengths["lp"]),
        )  # fmt: skip
    errors = point_errors(found.point, classical)
    with progress.stage("gradients by projection and by numerical differentiation"):
        q = jnp.asarray(found.q)
        projected, differenced = (np.asarray(x) for x in _gradient_sizes(loop, q))
        errors["gradients_projection_to_differences_max"] = float(
            np.max(np.abs(projected - differenced))
        )
        axis = np.linspace(-np.pi, np.pi, 121)
        grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        fourth = np.asarray(joints_at(model, jnp.asarray(grid)))[:, 3].reshape(axis.size, axis.size)
    numbers: list[Any] = [lengths[n] for n in ("l0", "l1", "l2", "l3", "l4")]
    ends: Any = FiveBarLoop(*numbers)
    fall = forward(model, ends, q0, times(options, 2.0, 401), options, progress)
    names = model.joint_names
    columns = np.hstack([fall.q, fall.qd, fall.joints])
    speeds, pushes = (
        (sizes(x), sizes(y)) for x, y in zip(found.point[1:], classical[1:], strict=True)
    )
    return Result(
        tables={
            "trajectory.sto": table("five-bar", found, ("q1", "q2"), names),
            "forward.sto": Table(
                fall.time, ("q1", "q2", "qd1", "qd2", *names), columns, name="five-bar"
            ),
        },
        figures={
            "fig08_desired_trajectories.png": functools.partial(
                viz.coordinates_over_time, found.time, found.q, names=["$q_1$", "$q_2$"],
                unit="rad", knots=(FIVE_BAR.knots, FIVE_BAR.values),
            ),
            "fig09_point_motion.png": functools.partial(
                viz.point_motion, found.time, speeds, pushes,
                names=(f"{options.rhythm} rhythm", "constraint Jacobian"), length="m",
                title="Five-bar: speed and acceleration of point p, "
                "and the difference from the constraint Jacobian",
            ),
            "fig10_gradients.png": functools.partial(
                viz.gradients, found.time,
                [(projected[:, k], differenced[:, k]) for k in range(2)],
                labels=[rf"$|\nabla\theta_{i}|$ (rad/rad)" for i in (3, 4)],
                names=("projection", "differences"),
                title="Five-bar: gradients of joints 3 and 4 by two routes",
            ),
            "fig11_manifold.png": functools.partial(
                viz.joint_manifold, axis, axis, fourth, name=r"$\theta_4$", path=found.q,
                title=r"Five-bar: joint 4 over the torus of $(q_1, q_2)$",
            ),
        },
        summary={
            "mode": options.mode,
            "reference": "computed: constraint Jacobian in absolute coordinates (NumPy)",
            "errors": errors,
            "kinematics_wall_times_s": found.times.as_json(),
            "forward": {
                "case": "released from rest under gravity, uniform rods of 1 kg/m",
                "q0": q0.tolist(), "q0_unit": "rad", "duration_s": float(fall.time[-1]),
                **fall.summary,
            },
        },
        lines=linkage_words(errors, fall.summary, "under gravity", "rad"),
    )  # fmt: skip


def _closed(rhythm: AbstractRhythm) -> Any:
    """The loop closure (`Implicit`) within a rhythm, or None."""
    leaves = jax.tree.leaves(rhythm, is_leaf=lambda x: isinstance(x, Implicit))
    return next((x for x in leaves if isinstance(x, Implicit)), None)


@eqx.filter_jit
def _gradient_sizes(loop: Implicit, q: Float[Array, "rows 2"]):
    """|∇θ3|, |∇θ4| by projection and by differences, each (rows, 2)."""
    routes = (Projected(loop), Molecule(loop))
    return [jax.vmap(lambda x, r=r: jnp.linalg.norm(r.jacobian(x), axis=1))(q) for r in routes]
