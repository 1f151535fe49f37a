"""What a measurement ran on, and what else ran there meanwhile."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import sys
import time
from typing import Any, NamedTuple

from .._cores import usable_cores

PEERS = {
    "Pinocchio": "pin",
    "MuJoCo": "mujoco",
    "OpenSim": "opensim",
    "SUNDIALS (scikit-sundae)": "scikit-sundae",
    "SciPy": "scipy",
}
"""Peers and their names on the package index."""


def machine() -> dict[str, Any]:
    """Processor, cores, threads, versions and today's date."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "xla_threads": int(os.environ.get("NPROC", "0")) or usable_cores(),
        "memory_mb": _memory(),
        "system": platform.system(),
        "python": platform.python_version(),
        "empbody": version("empbody"),
        "jax": version("jax"),
        "jaxlib": version("jaxlib"),
    }


def peers() -> dict[str, str | None]:
    """Version of each peer; None where it is not installed."""
    return {name: version(package) for name, package in PEERS.items()}


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def load() -> list[float] | None:
    """Load averages of 1, 5 and 15 minutes: how many processes wanted a core."""
    try:
        return [round(x, 2) for x in os.getloadavg()]
    except OSError:
        return None


class Clock(NamedTuple):
    """A moment: on the wall, in this process and its children, on all cores."""

    wall: float
    own: float
    busy: float | None

    @staticmethod
    def now() -> "Clock":
        return Clock(time.perf_counter(), sum(os.times()[:4]), _busy())

    def cores_since(self) -> dict[str, float | None]:
        """Mean number of cores kept busy since then, by this process and by all others."""
        now = Clock.now()
        wall = max(now.wall - self.wall, 1e-9)
        own = (now.own - self.own) / wall
        others = None
        if now.busy is not None and self.busy is not None:
            others = round(max((now.busy - self.busy) / wall - own, 0.0), 2)
        return {"cores_of_this_process": round(own, 2), "cores_of_others": others}


def peak_rss_mb() -> float | None:
    """Largest resident memory so far of this process, or of one that it waited for (MB)."""
    if sys.platform == "win32":
        return None
    import resource  # not there on Windows

    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = max(resource.getrusage(who).ru_maxrss for who in whose)
    return peak / (1e6 if sys.platform == "darwin" else 1e6 / 1024)


def _busy() -> float | None:
    """Seconds that all cores together have worked since the start, waiting apart."""
    try:
        first = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return None
    user, nice, system, _, _, irq, soft, *_ = map(int, first.split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def _cpu() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6)
    except (ValueError, OSError, AttributeError):
        return None
