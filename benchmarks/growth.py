"""How cost grows with batch size, bodies, coordinates and muscles.

Run from the project's folder: `.venv/bin/python benchmarks/growth.py` (`--quick` for a trial).
Every point is measured in a process of its own, so that its peak memory is its own: time after
warm-up (median of repeats), the first call's time beyond that (building and compiling, no
cache), and peak resident memory. Results go to benchmarks/results/growth.json;
`benchmarks/report.py` draws them.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import sys
import time

RESULTS = pathlib.Path(__file__).parent / "results" / "growth.json"
_PATIENCE = 40.0
"""Seconds for one point; a point that is likely to take longer is skipped."""
_BUDGET = 570.0
"""Seconds for all points; those that come later are skipped."""
_ENOUGH = 0.4
"""Seconds of repeats after which there are enough of them."""
_BATCHES = (1, 4, 16, 64, 256, 1024, 4096, 16384)
_FEW_BATCHES = (1, 64, 1024, 16384)
_BODIES = (3, 10, 30, 100, 300)
_COORDINATES = (1, 3, 10, 30, 60)
_MUSCLES = (1, 3, 10, 30, 100, 300)


def series():
    """(axis, name of the work, what is fixed, sizes): one line for each curve."""
    coupled, many, small = {"coordinates": 3}, {"bodies": 60}, {"bodies": 12, "coordinates": 6}
    return [
        ("batch", "rhs", {}, _BATCHES),
        ("batch", "moment_arms", {}, _BATCHES),
        ("batch", "wrapped_moment_arms", {}, _FEW_BATCHES),
        ("batch", "simulation", {}, _BATCHES[::2] + _BATCHES[-1:]),
        ("batch", "gradient", {}, _FEW_BATCHES),
        ("batch", "sharing", {}, _BATCHES),
        ("batch", "fitting_subjects", {}, (4, 64, 1024, 16384)),
        ("bodies", "chain", {}, _BODIES),
        ("bodies", "rhs", coupled, _BODIES),
        ("bodies", "moment_arms", coupled | {"muscles": 15}, _BODIES),
        ("bodies", "simulation", coupled, _BODIES),
        ("bodies", "gradient", coupled, (3, 30, 300)),
        ("bodies", "fitting_rhythm", coupled, _BODIES),
        ("coordinates", "rhs", many, _COORDINATES),
        ("coordinates", "moment_arms", many | {"muscles": 60}, _COORDINATES),
        ("coordinates", "simulation", many, _COORDINATES),
        ("coordinates", "gradient", many, (1, 10, 60)),
        ("coordinates", "sharing", {"muscles": 120}, _COORDINATES),
        ("coordinates", "fitting_rhythm", {"bodies": 10}, _COORDINATES),
        ("muscles", "rhs", small, _MUSCLES),
        ("muscles", "moment_arms", small, _MUSCLES),
        ("muscles", "simulation", small, _MUSCLES),
        ("muscles", "gradient", small, (1, 30, 300)),
        ("muscles", "sharing", {"coordinates": 6}, _MUSCLES[2:]),
    ]


_ORDER = (
    "chain", "rhs", "sharing", "moment_arms", "fitting_rhythm", "fitting_subjects", "simulation",
    "wrapped_moment_arms", "gradient",
)  # fmt: skip
_SLOW = ("wrapped_moment_arms", "gradient")
"""Works that take long to compile: left out of a trial."""


def quick(sizes):
    """Three of the sizes, the largest left out."""
    most = len(sizes) - 2
    return tuple(sizes[i] for i in sorted({0, (most + 1) // 2, most}))


def measure(work, sizes, repeats, pipe):
    """In a process of its own: times of every curve of a work at one size."""
    import growth_work
    import jax

    from empbody.bench._machine import peak_rss_mb
    from empbody.bench._timing import seconds

    jax.config.update("jax_enable_x64", True)
    begin = time.perf_counter()
    bare = peak_rss_mb()
    calls = getattr(growth_work, work)(**sizes)
    built = time.perf_counter() - begin
    found = []
    for name, (call, units) in calls.items():
        first, once = seconds(call), seconds(call)
        found.append((name, call, units, built + max(first - once, 0.0), [once]))
        built = 0.0
    # All are warm by now. What takes seconds is measured twice.
    count = int(_ENOUGH / max(sum(samples[0] for *_, samples in found), 1e-6))
    for _ in range(max(1, min(repeats, count) - 1)):
        for _, call, _, _, samples in found:
            samples.append(seconds(call))
    rows = []
    for name, _, units, first, samples in found:
        us = [1e6 * t / units for t in samples]
        rows.append(
            {
                "curve": name,
                "us": statistics.median(us),
                "least_us": min(us),
                "most_us": max(us),
                "n": len(us),
                "compile_s": first,
            }
        )
    peak = peak_rss_mb()
    for row in rows:
        row |= {"peak_rss_mb": peak, "bare_rss_mb": bare}
    pipe.send(rows)


def alone(work, sizes, repeats, patience):
    """Rows of `measure` from a fresh process, or a reason why there are none."""
    kind = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(kind)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(work, sizes, repeats, there))
    process.start()
    there.close()
    rows = reason = None
    if here.poll(patience):
        try:
            rows = here.recv()
        except EOFError:
            process.join()
            reason = f"the process ended with code {process.exitcode}"
    else:
        reason = f"took longer than {patience:.0f} s"
        process.terminate()
    process.join()
    return rows, reason


def sweep(only, short, repeats, patience, budget):
    """All points, and those that were left out with the reason."""
    points, skipped = [], []
    end = time.perf_counter() + budget
    curves = series()
    if short:  # the quickest first, should time run out
        curves.sort(key=lambda curve: _ORDER.index(curve[1]))
    for axis, work, fixed, sizes in curves:
        if only not in (None, axis, f"{axis}:{work}"):
            continue
        if short and work in _SLOW and only != f"{axis}:{work}":
            where = {"axis": axis, "work": work, "size": sizes[0], "fixed": fixed}
            skipped.append(where | {"reason": "and larger: not part of a trial"})
            continue
        before = []
        for size in quick(sizes) if short else sizes:
            where = {"axis": axis, "work": work, "size": size, "fixed": fixed}
            expected = before[-1] * growth(before) if before else 0.0
            begin = time.perf_counter()
            if expected > patience or begin > end:
                words = f"likely to take {expected:.0f} s, from the sizes before"
                words = words if begin <= end else f"{budget:.0f} s for all points were over"
                skipped.append(where | {"reason": words})
                continue
            rows, reason = alone(work, fixed | {axis: size}, repeats, patience)
            spent = time.perf_counter() - begin
            if rows is None:
                skipped.append(where | {"reason": reason})
                before.append(10.0 * patience)
                said = reason
            else:
                points += [where | row | {"seconds": spent} for row in rows]
                before.append(spent)
                said = ", ".join(f"{r['us']:.3g} µs" for r in rows)
            print(f"{axis} {size}: {work}: {said} ({spent:.1f} s)", file=sys.stderr, flush=True)
    return points, skipped


def growth(before):
    """By how much the last size took longer than the one before it; at least as long."""
    return max(before[-1] / before[-2], 1.0) if len(before) > 1 else 1.0


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few sizes, few repeats: a trial")
    parser.add_argument(
        "--only", metavar="AXIS[:WORK]", help="batch, bodies, coordinates or muscles; bodies:chain"
    )
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--patience", type=float, default=_PATIENCE, help="seconds for a point")
    parser.add_argument("--budget", type=float, default=_BUDGET, help="seconds for all points")
    arguments = parser.parse_args(argv)
    known = {name for axis, work, *_ in series() for name in (axis, f"{axis}:{work}")}
    if arguments.only is not None and arguments.only not in known:
        parser.error(f"there is no {arguments.only}; choose from {', '.join(sorted(known))}")
    os.environ.setdefault("NPROC", "8")  # see empbody.cli._settings.own_process
    # Everything is imported before the first process starts, and nothing computed: a forked
    # process then starts at once, and with an untouched JAX.
    import growth_work  # noqa: F401
    import jax

    from empbody.bench._machine import Clock, load, machine, peers

    jax.config.update("jax_enable_x64", True)
    begin, before = Clock.now(), load()
    started = time.perf_counter()
    repeats = 3 if arguments.quick else 9
    limits = arguments.patience, arguments.budget
    points, skipped = sweep(arguments.only, arguments.quick, repeats, *limits)
    result = {
        "quick": arguments.quick,
        "points": points,
        "skipped": skipped,
        "seconds": time.perf_counter() - started,
        "machine": machine()
        | {"load_at_start": before, "load_at_end": load()}
        | begin.cores_since(),
        "peers": peers(),
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
