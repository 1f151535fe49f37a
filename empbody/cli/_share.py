"""`empbody share`: which muscles bear the moments of a motion."""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..io import Table
from ..muscles import HillMuscles
from ..pipeline import inverse_dynamics_along
from ..sharing import outcomes, share_frames
from ._errors import CommandError
from ._models import finish, load_model, save_table, writable
from ._motions import end_notes, load_motion
from ._progress import Progress


def run(arguments: argparse.Namespace) -> int:
    out = writable(arguments.out, ".sto", ".mot", ".csv")
    if not (np.isfinite(arguments.reserve) and arguments.reserve >= 0):
        raise CommandError(f"--reserve {arguments.reserve:g}: a number from 0 up is needed")
    progress = Progress(quiet=arguments.quiet)
    model = load_model(arguments, progress)
    if not isinstance(model.muscles, HillMuscles):
        raise CommandError(f"{arguments.model} has no muscles that could give force")
    motion, notes = load_motion(model, arguments, progress)
    smoothing = {"lowpass": arguments.lowpass, "spline": arguments.spline}
    with progress.counting("inverse dynamics") as count:
        need = inverse_dynamics_along(
            model, motion, **smoothing, elements=arguments.elements, progress=count
        )
    notes += end_notes(need)
    options: dict[str, Any] = {
        "cost": arguments.cost,
        "reserves": arguments.reserve or None,
        "passive": not arguments.no_passive,
    }
    with progress.counting("sharing among muscles") as count:
        frames = (jnp.asarray(x) for x in (need.q, need.qd, need.tau))
        found = share_frames(model, *frames, progress=count, **options)
    found = jax.tree.map(np.asarray, found)
    labels = [f"{name}_activation" for name in model.muscle_names]
    labels += [f"{name}_force" for name in model.muscle_names]
    labels += [f"{name}_reserve" for name in model.coordinate_names]
    columns = np.concatenate([found.activations, found.forces, found.reserves], axis=1)
    save_table(out, Table(need.time, tuple(labels), columns, name="Muscle sharing"))
    found_as = outcomes(found.status)
    notes += _notes(found_as, need.time.size)
    peak = {
        name: {"activation": float(a), "force_N": float(f)}
        for name, a, f in zip(
            model.muscle_names, found.activations.max(axis=0), found.forces.max(axis=0), strict=True
        )
    }
    reserves = np.max(np.abs(found.reserves), axis=0)
    summary = {
        "out": str(out),
        "rows": need.time.size,
        "time_s": [float(need.time[0]), float(need.time[-1])],
        "cost": arguments.cost,
        "outcomes": found_as,
        "largest": peak,
        "largest_reserve": dict(zip(model.coordinate_names, reserves.tolist(), strict=True)),
        "largest_residual": float(np.nanmax(np.abs(found.residual))),
        "notes": notes,
    }
    busy = sorted(peak.items(), key=lambda item: -item[1]["activation"])[:10]
    width = max(len(name) for name, _ in busy)
    lines = ["most active muscles: largest activation, force (N)"]
    lines += [f"  {n:<{width}}  {p['activation']:6.3f}  {p['force_N']:9.2f}" for n, p in busy]
    lines += [f"note: {note}" for note in notes] + [f"{need.time.size} rows in {out}"]
    return finish(arguments, "share", progress, summary, lines)


def _notes(outcomes: dict[str, int], rows: int) -> list[str]:
    words = {
        "needs_reserves": "need reserves: the muscles alone cannot give these moments",
        "infeasible": "ask for more than the muscles can give; allow reserves with --reserve",
        "unsolved": "were not solved",
        "bad_input": "have no finite moments or moment arms",
    }
    return [f"{outcomes[k]} of {rows} rows {v}" for k, v in words.items() if k in outcomes]
