"""`empbody run four-bar`: the manuscript's first kinematic case (section 3-4 A, Figs. 4-6)."""

import functools
import inspect
from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import viz
from ..forces import CoordinateSpring
from ..io import Table
from ..models import FourBarLoop, four_bar
from ._case import Options, Result, check_changes, start, times
from ._classical import Driver, classical_motion
from ._forward import forward, linkage_words
from ._linkages import follow, joints_at, point_errors, sizes, table
from ._progress import Progress
from ._trajectories import FOUR_BAR

_LENGTHS = ("l0", "l1", "l2", "l3", "lcm2", "lp")
_STIFFNESS = 50.0  # N/m: an oscillation of some seconds that stays clear of the folds
_RELEASE = 1.0


def run_four_bar(options: Options, progress: Progress) -> Result:
    """Point p along the desired trajectory; then a release from rest on a spring."""
    changes = check_changes(options.changes, _LENGTHS)
    lengths = {n: inspect.signature(four_bar).parameters[n].default for n in _LENGTHS} | changes
    with progress.stage(f"closing the loop over its range ({options.rhythm} rhythm)"):
        model = four_bar(options.branch, options.rhythm, **changes)  # pyright: ignore[reportArgumentType]
    q0 = start(model, options.q0, (_RELEASE,))
    found = follow(model, FOUR_BAR, np.linspace(0.0, 4.0, 401), progress)
    bars = (lengths["l1"], lengths["l2"], lengths["l3"])
    with progress.stage("the same by the constraint Jacobian"):
        classical = classical_motion(
            bars, lengths["l0"], (Driver(1, lengths["lcm2"]),), (found.q, found.qd, found.qdd),
            np.cumsum(found.joints[0]), (2, lengths["lp"]),
        )  # fmt: skip
    errors = point_errors(found.point, classical)
    sweep = np.linspace(float(model.lower[0]), float(model.upper[0]), 401)
    over_range = np.asarray(joints_at(model, jnp.asarray(sweep)[:, None]))
    sprung = model.with_forces([CoordinateSpring("q", stiffness=_STIFFNESS)])
    numbers: list[Any] = [lengths[n] for n in ("l0", "l1", "l2", "l3", "lcm2")]
    loop: Any = FourBarLoop(*numbers)
    release = forward(sprung, loop, q0, times(options, 4.0, 401), options, progress)
    names = model.joint_names
    columns = np.hstack([release.q, release.qd, release.joints])
    speeds, pushes = (
        (sizes(x), sizes(y)) for x, y in zip(found.point[1:], classical[1:], strict=True)
    )
    return Result(
        tables={
            "trajectory.sto": table("four-bar", found, ("q",), names),
            "forward.sto": Table(release.time, ("q", "qd", *names), columns, name="four-bar"),
        },
        figures={
            "fig04_desired_trajectory.png": functools.partial(
                viz.coordinates_over_time, found.time, found.q, names=["$q$"], unit="m",
                knots=(FOUR_BAR.knots, FOUR_BAR.values),
            ),
            "fig05_joint_variables.png": functools.partial(
                viz.joint_variables, sweep, over_range,
                names=[rf"$\theta_{i}$" for i in (1, 2, 3)], q_label="$q$ (m)",
                title=f"Four-bar, branch {options.branch}: joint variables over the coordinate",
            ),
            "fig06_point_motion.png": functools.partial(
                viz.point_motion, found.time, speeds, pushes,
                names=(f"{options.rhythm} rhythm", "constraint Jacobian"), length="m",
                title="Four-bar: speed and acceleration of point p, "
                "and the difference from the constraint Jacobian",
            ),
        },
        summary={
            "branch": options.branch,
            "reference": "computed: constraint Jacobian in absolute coordinates (NumPy)",
            "errors": errors,
            "kinematics_wall_times_s": found.times.as_json(),
            "forward": {
                "case": f"released from rest on a spring of {_STIFFNESS:g} N/m on q",
                "q0": q0.tolist(), "q0_unit": "m", "duration_s": float(release.time[-1]),
                **release.summary,
            },
        },
        lines=linkage_words(errors, release.summary, "on a spring", "m"),
    )  # fmt: skip
