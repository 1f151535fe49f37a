"""Benchmarks, as ratios to peers that run in the same process."""

import os
import platform
from typing import Any

import jax

from . import (
    _fitting,
    _gradient,
    _moment_arms,
    _muscle_rhs,
    _pipeline,
    _shoulder,
    _squeezer,
    _trees,
)
from ._trees import shoulder_sized as shoulder_sized


def run(progress: Any) -> dict[str, Any]:
    """All figures by key; `progress.stage(words)` is entered for each part."""
    results: dict[str, Any] = {}
    with progress.stage("right-hand sides"):
        results |= _trees.run()
    with progress.stage("gradient of a rollout"):
        results |= _gradient.run()
    with progress.stage("right-hand side with muscles"):
        results |= _muscle_rhs.run()
    with progress.stage("moment arms"):
        results |= _moment_arms.run()
    with progress.stage("inverse kinematics and dynamics of a trial"):
        results |= _pipeline.run()
    with progress.stage("rhythms of many subjects"):
        results |= _fitting.run()
    with progress.stage("squeezer: ODE against DAE"):
        results |= _squeezer.run()
    with progress.stage("shoulder: ODE against DAE"):
        results |= _shoulder.run()
    machine = {
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "jax": jax.__version__,
    }
    return {"results": results, "machine": machine}
