"""`empbody info`: what is in a model, and what was not honoured."""

import argparse
import dataclasses
import math
from typing import Any

import numpy as np

from ..model import Model
from ..pipeline import model_markers, turning
from ._models import default_pose, finish, load_model
from ._progress import Progress


def run(arguments: argparse.Namespace) -> int:
    progress = Progress(quiet=arguments.quiet)
    model = load_model(arguments, progress)
    markers = model_markers(model)
    report = getattr(model, "report", None)
    coordinates = _coordinates(model)
    total = float(np.sum(np.asarray(model.mass)))
    if report is not None and total == 0.0:
        report = _without_mass(report)
    summary = {
        "coordinates": coordinates,
        "joint_variables": list(model.joint_names),
        "bodies": [
            {"name": name, "mass_kg": float(mass)}
            for name, mass in zip(model.body_names, np.asarray(model.mass), strict=True)
        ],
        "total_mass_kg": total,
        "gravity_m_s2": np.asarray(model.gravity).tolist(),
        "muscles": list(model.muscle_names),
        "surfaces": [surface.name for surface in model.paths.layout.surfaces],
        "force_elements": len(model.forces),
        "markers": list(markers),
        "report": None if report is None else _as_json(report),
    }
    lines = [
        f"{_count(model.nq, 'coordinate')} {'drives' if model.nq == 1 else 'drive'} "
        f"{_count(model.nj, 'joint variable')} of {_count(model.nb, 'body', 'bodies')} "
        f"({total:.4g} kg)",
        *_table(coordinates),
        f"{_count(model.nm, 'muscle or path', 'muscles or paths')}, "
        f"{_count(len(summary['surfaces']), 'wrapping surface')}, "
        f"{_count(len(model.forces), 'other force element')}, {_count(len(markers), 'marker')}",
    ]
    if report is not None:
        lines += ["", str(report).rstrip()]
    return finish(arguments, "info", progress, summary, lines)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _without_mass(report: Any) -> Any:
    """One sentence instead of one for each body."""
    others = [words for words in report.warnings if " has no mass" not in words]
    return dataclasses.replace(report, warnings=("no body has mass: no dynamics", *others))


def _coordinates(model: Model) -> list[dict[str, Any]]:
    rows = []
    values = zip(
        model.coordinate_names,
        turning(model),
        default_pose(model),
        np.asarray(model.lower),
        np.asarray(model.upper),
        strict=True,
    )
    for name, turn, value, low, high in values:
        scale = math.degrees(1.0) if turn else 1.0
        ends = [float(x) * scale if math.isfinite(x) else None for x in (low, high)]
        unit = "deg" if turn else "m"
        default = float(value) * scale
        rows.append({"name": name, "unit": unit, "default": default, "range": ends})
    return rows


def _table(coordinates: list[dict[str, Any]]) -> list[str]:
    width = max(len(row["name"]) for row in coordinates)
    lines = []
    for row in coordinates:
        low, high = ("none" if x is None else f"{x:.6g}" for x in row["range"])
        unit = row["unit"]
        limits = "no limits" if low == high == "none" else f"limits {low} to {high}"
        lines.append(f"  {row['name']:<{width}}  default {row['default']:.6g} {unit}, {limits}")
    return lines


def _as_json(report: Any) -> dict[str, Any]:
    kinds = ("ignored", "approximated", "unsupported")
    return {
        "file": str(report.file),
        "file_version": report.version,
        "read": len(report.read),
        **{kind: [str(note) for note in getattr(report, kind)] for kind in kinds},
        "warnings": list(report.warnings),
    }
