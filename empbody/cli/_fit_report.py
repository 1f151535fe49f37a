"""What `empbody fit` says: errors, poses, the summary for machines."""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from ..fitting import RhythmFit
from ..rhythms import AbstractRhythm, Named, Neural, Polynomial
from ._fit_task import Task, plain
from ._progress import Progress
from ._settings import cache_in_use


class Tested(NamedTuple):
    how: str
    rms: np.ndarray
    """rad, of each target"""
    everything: float


def mean_of(results: Sequence[Tested], how: str) -> Tested:
    rms = np.mean([r.rms for r in results], axis=0)
    return Tested(how, rms, float(np.mean([r.everything for r in results])))


def errors_summary(task: Task, train: Tested, tested: Tested | None) -> dict[str, Any]:
    def named(result: Tested) -> dict[str, float]:
        each = dict(zip(task.targets, np.degrees(result.rms).tolist(), strict=True))
        return each | {"all": math.degrees(result.everything)}

    return {
        "inputs": list(task.inputs),
        "targets": list(task.targets),
        "rmse_train_deg": named(train),
        "rmse_test_deg": None if tested is None else named(tested),
        "test": None if tested is None else tested.how,
    }


def errors_table(task: Task, train: Tested, tested: Tested | None) -> list[str]:
    head = f"root mean square error (deg): {'target':<24}{'fitted':>8}"
    lines = [head if tested is None else f"{head}{'test':>8}"]
    rows = [*zip(task.targets, train.rms, strict=True), ("all", train.everything)]
    tests = [None] * len(rows) if tested is None else [*tested.rms, tested.everything]
    for (name, x), t in zip(rows, tests, strict=True):
        shown = "" if t is None else f"{math.degrees(t):8.3f}"
        lines.append(f"{'':30}{name:<24}{math.degrees(x):8.3f}{shown}")
    if tested is not None:
        lines.append(f"test: {tested.how}")
    return lines


def noise_by_target(task: Task, values: Any) -> dict[str, float]:
    """Noise (rad) in degrees by target; of orientations, about axes and not of angles."""
    degrees, names = np.degrees(np.asarray(values)).tolist(), task.targets
    if task.arguments.orientation is not None:
        names = [f"orientation_{i // 3 + 1}_{'xyz'[i % 3]}" for i in range(len(degrees))]
    return dict(zip(names, degrees, strict=True))


def pose(task: Task, values: Sequence[float], **place: Any) -> dict[str, Any]:
    """Inputs (rad) for machines: degrees by name, the words that stand for them, the place."""
    names = plain(task.inputs)
    words = {}
    for name, column, value in zip(names, task.inputs, values, strict=True):
        for word, number in task.maps.get(column, {}).items():
            if abs(number - value) < 1e-9:
                words[name] = word
    degrees = np.degrees(np.asarray(values)).tolist()
    return (
        place
        | {"inputs_deg": dict(zip(names, degrees, strict=True))}
        | ({"words": words} if words else {})
    )


def pose_line(entry: Mapping[str, Any]) -> str:
    """The same for people."""
    words = entry.get("words", {})
    parts = [
        f"{name} {value:.1f}" + (f" ({words[name]})" if name in words else "")
        for name, value in entry["inputs_deg"].items()
    ]
    place = f"line {entry['line']}: " if "line" in entry else ""
    return f"  {place}{', '.join(parts)}"


def scaling(task: Task, rhythm: AbstractRhythm) -> dict[str, dict[str, float]] | None:
    """Centre and scale (rad) by input, of families whose coefficients are of scaled inputs."""
    bare = rhythm.rhythm if isinstance(rhythm, Named) else rhythm
    if not isinstance(bare, Polynomial | Neural):
        return None
    pairs = zip(np.asarray(bare.centre).tolist(), np.asarray(bare.scale).tolist(), strict=True)
    entries = ({"centre": a, "scale": b} for a, b in pairs)
    return dict(zip(plain(task.inputs), entries, strict=True))


def criteria(fit: RhythmFit, columns: int) -> dict[str, Any]:
    """AIC and BIC where they mean something, else why not."""
    report, why = fit.report, None
    if fit.prior is not None:
        why = "a prior was used; the criteria compare fits to data alone"
    elif report.rows * columns <= report.parameters + columns:
        why = "as many parameters as data"
    given = {"aic": report.aic, "bic": report.bic}
    return given if why is None else {"aic": None, "bic": None, "criteria_left_out": why}


def cut_down(task: Task, family: str, rhythm: AbstractRhythm, xs: np.ndarray | None) -> list[str]:
    """Why a family has fewer parameters than its name lets expect.

    `xs` are the inputs that it was sized to; None with a prior, which was sized before.
    """
    bare = rhythm.rhythm if isinstance(rhythm, Named) else rhythm
    kind, _, size = family.partition(":")
    size = size.partition(":")[0]
    if not size.isdigit():
        return []
    if isinstance(bare, Polynomial):
        most = [max(column) for column in zip(*bare.exponents, strict=True)]
        what = "powers up to {}"
    elif xs is not None and kind in ("spline", "fourier"):
        counts = [len(np.unique(np.round(column, 9))) for column in xs.T]
        most = [max(1, c - 1) if kind == "spline" else (c - 1) // 2 for c in counts]
        what = "{} intervals" if kind == "spline" else "harmonics up to {}"
    else:
        return []
    notes = []
    for i, (name, n) in enumerate(zip(plain(task.inputs), most, strict=True)):
        if n < int(size):
            why = "the prior's data had too few distinct values for more"
            if xs is not None:
                count = len(np.unique(np.round(xs[:, i], 9)))
                why = f"its {count} distinct values cannot determine more"
            notes.append(f"{family} has of {name} only {what.format(n)}: {why}")
    return notes


def finish_fit(
    task: Task,
    progress: Progress,
    summary: Mapping[str, Any],
    lines: Iterable[str],
    written: Sequence[Any] = (),
) -> int:
    """Print the summary, for people or machines; the exit status."""
    if not task.arguments.json:
        notes = [f"note: {note}" for note in summary["notes"]]
        done = [f"written: {', '.join(map(str, written))}"] if written else []
        print(*lines, *notes, *done, sep="\n")
        return 0
    head = {"command": "fit", "version": version("empbody")}
    if task.arguments.data is not None:
        head["data"] = str(task.arguments.data)
    if task.arguments.prior is not None:
        head["prior"] = str(task.arguments.prior)
    tail = {"compilation_cache": cache_in_use(), "total_wall_time_s": progress.elapsed()}
    json.dump({**head, **summary, **tail}, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")
    return 0
