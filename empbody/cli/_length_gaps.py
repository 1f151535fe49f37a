"""Muscles whose lengths differ from OpenSim's, told so that a reader can judge which is right."""

import dataclasses

import numpy as np

_SHOWN = 12


@dataclasses.dataclass(frozen=True)
class Gap:
    """Where the two lengths of a muscle are farthest apart (m)."""

    muscle: str
    here: float
    opensim: float
    pose: int

    @property
    def size(self) -> float:
        return abs(self.here - self.opensim)


class Gaps:
    """For each muscle, the pose where lengths are farthest apart."""

    def __init__(self) -> None:
        self.found: dict[str, Gap] = {}
        self.straight: dict[str, float] = {}

    def see(self, pose: int, names: list[str], here: np.ndarray, opensim: np.ndarray) -> None:
        for name, a, b in zip(names, here.tolist(), opensim.tolist(), strict=True):
            gap = Gap(name, a, b, pose)
            if name not in self.found or not gap.size <= self.found[name].size:
                self.found[name] = gap

    def worst(self, bound: float) -> list[Gap]:
        """Those above a bound, the largest first."""
        apart = [gap for gap in self.found.values() if not gap.size <= bound]
        return sorted(apart, key=lambda gap: -gap.size)

    def words(self, apart: list[Gap], total: int) -> list[str]:
        if not apart:
            return []
        out = [
            f"{total - len(apart)} of {total} muscles have the same length at all poses; the "
            "others, where they are farthest apart (mm):",
            f"  {'muscle':<16} {'here':>9} {'OpenSim':>9} {'straight':>9}   pose",
        ]
        for gap in apart[:_SHOWN]:
            line = self.straight.get(gap.muscle)
            last = "        -" if line is None else f"{1e3 * line:9.3f}"
            lengths = f"{1e3 * gap.here:9.3f} {1e3 * gap.opensim:9.3f} {last}"
            out.append(f"  {gap.muscle:<16} {lengths}   {gap.pose + 1}")
        if len(apart) > _SHOWN:
            out.append(f"  ... and {len(apart) - _SHOWN} more, in --json")
        out.append(
            "a length far above the straight one belongs to a path that went the long way round; "
            "differences of some 0.01 mm are OpenSim's approximation on ellipsoids and tori"
        )
        return out
