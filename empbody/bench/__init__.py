"""Benchmarks, as ratios to peers that run in the same process."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import (
    _batch,
    _fitting,
    _gradient,
    _ida,
    _moment_arms,
    _muscle_rhs,
    _opensim_dynamics,
    _pipeline,
    _shoulder,
    _squeezer,
    _trees,
)
from ._apart import crowded, measured_apart
from ._machine import Clock, load, machine, peak_rss_mb, peers
from ._timing import Figure, repeats_of
from ._trees import shoulder_sized as shoulder_sized


class Group(NamedTuple):
    """Figures that are measured together, beside the same peers."""

    words: str
    run: Callable[[], Mapping[str, Figure]]
    shared_out: bool = False
    """Whether its work is shared out among all threads (see `_apart`)."""


GROUPS: dict[str, Group] = {
    "rhs": Group("right-hand sides", _trees.run),
    "gradient": Group("gradient of a rollout", _gradient.run),
    "batch": Group("waiting in a batch", _batch.run),
    "muscles": Group("right-hand side with muscles", _muscle_rhs.run, True),
    "opensim": Group("forward dynamics beside OpenSim", _opensim_dynamics.run),
    "moment-arms": Group("moment arms", _moment_arms.run, True),
    "trial": Group("inverse kinematics and dynamics of a trial", _pipeline.run),
    "fitting": Group("rhythms of many subjects", _fitting.run),
    "squeezer": Group("squeezer: ODE against DAE", _squeezer.run),
    "ida": Group("squeezer: ODE against IDA", _ida.run),
    "shoulder": Group("shoulder: ODE against DAE", _shoulder.run),
}
"""By name, in the order in which they run. A new group is a line here."""


def run(
    progress: Any,
    only: Sequence[str] | None = None,
    repeats: int | None = None,
    after: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """All figures by key under "results", and the machine they were measured on.

    **Arguments:**

    - `progress`: `progress.stage(words)` is entered for each group.
    - `only`: names of `GROUPS`; all if None.
    - `repeats`: of every measurement; each has its own number if None.
    - `after`: called with what there is so far after each group, to keep it.

    A group that fails leaves its error under "groups"; the others are measured all the same.
    """
    results: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    begin, before = Clock.now(), load()
    found: dict[str, Any] = {"results": results, "groups": groups, "peers": peers()}
    for name in GROUPS if only is None else only:
        clock, started = Clock.now(), time.perf_counter()
        error = None
        with progress.stage(GROUPS[name].words), repeats_of(repeats):
            try:
                apart = GROUPS[name].shared_out and crowded()
                found_now = measured_apart(name, repeats) if apart else GROUPS[name].run()
                results.update(found_now)
            except Exception as failure:
                error = f"{type(failure).__name__}: {failure}"
        groups[name] = {
            "seconds": round(time.perf_counter() - started, 1),
            **clock.cores_since(),
            "peak_rss_mb": peak_rss_mb(),
        }
        if error is not None:
            groups[name]["error"] = error
        results["peak_rss_mb"] = _peak()
        loads = {"load_at_start": before, "load_at_end": load()}
        found["machine"] = machine() | loads | begin.cores_since()
        if after is not None:
            after(found)
    return found


def _peak() -> Figure:
    peak = peak_rss_mb()
    if peak is None:
        return Figure.missing("this system does not tell a process's peak memory")
    return Figure.of([peak])
