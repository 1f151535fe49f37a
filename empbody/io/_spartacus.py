"""Curves of the Spartacus collection of shoulder kinematics, from a folder as downloaded.

Moissenet, Puchaud, Naaïm, Holzer, Begon (2024), doi:10.5281/zenodo.11455521. An index file
has one row per curve set; each of its three angles is a file of two columns, the arm's angle
and the joint's angle in degrees, without a header.
"""

import csv
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from . import _text
from ._errors import FileFormatError

INDEX_NAMES = ("dataset_clean_of_joint_data.csv", "dataset_clean.csv")
PLANES = {
    "frontal plane elevation": 0.0,
    "scapular plane elevation": 40.0,
    "sagittal plane elevation": 90.0,
}
"""Motions that are elevations in a plane, and that plane (degrees; 90 is forward flexion)."""
ANGLES = {
    "scapulothoracic": ("st_protraction", "st_medial_rotation", "st_tilt"),
    "sternoclavicular": ("sc_protraction", "sc_elevation", "sc_rotation"),
}
"""Joints that move with the arm's elevation, and their angles in order of turning (YXZ)."""
_CURVES = ("dof_1st_euler", "dof_2nd_euler", "dof_3rd_euler")
_NEEDED = ("dataset_authors", "humeral_motion", "joint", "euler_sequence", "shoulder_id", "side",
           "folder", *_CURVES)  # fmt: skip
_MISSING = ("", "nan", "none", "na")


class Skipped(NamedTuple):
    """A row of the index that was not read, and why."""

    line: int
    subject: str
    motion: str
    reason: str


class SpartacusCurves(NamedTuple):
    """Rows of one joint: inputs plane and elevation, targets its three angles; rad.

    Where a study has no curve of an angle, its target is 0 and its weight 0: hand `weights`
    to the fit.
    """

    inputs: Float[np.ndarray, "n 2"]
    targets: Float[np.ndarray, "n 3"]
    weights: Float[np.ndarray, "n 3"]
    subjects: np.ndarray
    """Study and shoulder of each row, (n,)."""
    motions: np.ndarray
    """Humeral motion of each row, (n,)."""
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]
    skipped: tuple[Skipped, ...]


def read_spartacus(
    folder: str | os.PathLike[str],
    joint: str = "scapulothoracic",
    *,
    studies: Iterable[str] | None = None,
    planes: Mapping[str, float] | None = None,
    sequences: Iterable[str] | None = ("yx'z''",),
    left: str = "skip",
    means: bool = False,
    relative: bool = False,
) -> SpartacusCurves:
    """Read the curves of one joint from a folder of the Spartacus collection.

    **Arguments:**

    - `folder`: the download, or the folder in it that holds `dataset/` and `data/`. The index
      is `dataset_clean_of_joint_data.csv` (or `dataset_clean.csv`).
    - `joint`: "scapulothoracic" or "sternoclavicular".
    - `studies`: words to find in `dataset_authors` or `folder`, such as "Henninger"; all if
      absent.
    - `planes`: plane of elevation (degrees) for each humeral motion that is read; others are
      skipped.
    - `sequences`: Euler sequences that are read; others turn about other axes and are
      skipped. None reads all as they stand: names and signs are then yours to check.
    - `left`: "skip" left shoulders, "mirror" them (the signs of the first two angles change),
      or take them "as_is".
    - `means`: whether to read curves that are means over subjects.
    - `relative`: whether to read angles that count from the first pose.

    Angles are those that the study printed. The collection's own program also corrects for
    bone frames that are not the ISB's; that is not done here. Arm angles that are all
    negative are turned positive. Where the curves of one set have different arm angles, they
    are interpolated linearly to those of the first, in the range that all cover.

    **Raises:** `FileFormatError`, naming file and line: index or curves missing, columns
    missing, cells that are no numbers; and where nothing is left to read.
    """
    if joint not in ANGLES:
        raise ValueError(f"joint = {joint!r}; one of {', '.join(ANGLES)} is expected")
    if left not in ("skip", "mirror", "as_is"):
        raise ValueError(f'left = {left!r}; "skip", "mirror" or "as_is" is expected')
    index, data = _places(pathlib.Path(folder))
    known = dict(PLANES if planes is None else planes)
    wanted = None if sequences is None else {_sequence(s) for s in sequences}
    words = None if studies is None else [s.lower() for s in studies]
    parts, skipped, joints = [], [], []
    for line, row in _rows(index):
        if not _chosen(row, words):
            continue
        if row["joint"].lower() != joint:
            joints += [row["joint"]] * (row["joint"] not in joints)
            continue
        words_of_name = (row["dataset_authors"], row["folder"].split("/")[-1], row["shoulder_id"])
        subject = " ".join(word for word in words_of_name if word)
        reason = _reason(row, known, wanted, left, means, relative)
        if reason:
            skipped.append(Skipped(line, subject, row["humeral_motion"], reason))
            continue
        elevation, angles, seen = _curve_set(index, line, data, row)
        if left == "mirror" and row["side"].lower() == "left":
            angles = angles * np.array([[-1.0, -1.0, 1.0]])
        parts.append((subject, row["humeral_motion"], elevation, angles, seen))
    if not parts:
        why = "; ".join(f"line {s.line}: {s.reason}" for s in skipped[:4])
        why = why or f"the joints of these rows are {_text.some(joints)}" * bool(joints)
        raise FileFormatError(
            index, f"no curves of the {joint} joint to read" + (f" ({why})" if why else "")
        )
    counts = [len(p[2]) for p in parts]
    plane = np.repeat([known[p[1]] for p in parts], counts)
    inputs = np.radians(np.stack([plane, np.concatenate([p[2] for p in parts])], axis=1))
    return SpartacusCurves(
        inputs=inputs,
        targets=np.radians(np.concatenate([p[3] for p in parts])),
        weights=np.repeat(np.array([p[4] for p in parts], dtype=float), counts, axis=0),
        subjects=np.repeat([p[0] for p in parts], counts),
        motions=np.repeat([p[1] for p in parts], counts),
        input_names=("plane", "elevation"),
        target_names=ANGLES[joint],
        skipped=tuple(skipped),
    )


def _places(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The index file and the folder with the studies' folders."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; point at a download of the collection")
    for base in (folder, folder / "spartacus", folder.parent):
        for name in INDEX_NAMES:
            for index in (base / "dataset" / name, base / name):
                if index.is_file():
                    places = (base / "data", base.parent / "data", base)
                    return index, next(p for p in places if p.is_dir())
    raise FileFormatError(folder, f"no index {' or '.join(INDEX_NAMES)} in it or in dataset/")


def _rows(index: pathlib.Path) -> list[tuple[int, dict[str, str]]]:
    lines = _text.read_lines(index)
    header = [cell.strip() for cell in next(csv.reader(lines[:1]), [])]
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise FileFormatError(
            index, f"no column {missing[0]!r}; there are {_text.some(header)}", line=1
        )
    rows = []
    for line, text in enumerate(lines[1:], start=2):
        if not text.strip():
            continue
        cells = [cell.strip() for cell in next(csv.reader([text]))]
        if len(cells) != len(header):
            raise FileFormatError(
                index, f"{len(cells)} cells under {len(header)} labels", line=line
            )
        rows.append((line, dict(zip(header, cells, strict=True))))
    return rows


def _chosen(row: Mapping[str, str], words: list[str] | None) -> bool:
    text = f"{row['dataset_authors']} {row['folder']}".lower()
    return words is None or any(word in text for word in words)


def _sequence(text: str) -> str:
    return re.sub(r"[^xyz]", "", text.lower())


def _reason(
    row: Mapping[str, str],
    planes: Mapping[str, float],
    sequences: set[str] | None,
    left: str,
    means: bool,
    relative: bool,
) -> str:
    """Why a row is not read; empty if it is."""
    if row["humeral_motion"] not in planes:
        return f"{row['humeral_motion']!r} is no elevation in a known plane"
    if sequences is not None and _sequence(row["euler_sequence"]) not in sequences:
        return f"Euler sequence {row['euler_sequence'] or 'not given'}"
    if left == "skip" and row["side"].lower() == "left":
        return "left shoulder"
    if not means and row.get("is_data_mean", "").lower() == "true":
        return "mean over subjects"
    if not relative and row.get("rotation_absolute", "").lower() == "false":
        return "angles count from the first pose"
    if all(row[name].lower() in _MISSING for name in _CURVES):
        return "no curves of angles"
    return ""


def _curve_set(
    index: pathlib.Path, line: int, data: pathlib.Path, row: Mapping[str, str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arm angles (n,), joint angles (n, 3) in degrees, and which of the three there are."""
    curves: list[np.ndarray | None] = []
    for name in _CURVES:
        if row[name].lower() in _MISSING:
            curves.append(None)
            continue
        path = data / row["folder"] / row[name]
        if not path.is_file():
            raise FileFormatError(index, f"there is no file {path}", line=line, column=name)
        curves.append(_curve(path))
    there = [c for c in curves if c is not None]
    low, high = max(c[:, 0].min() for c in there), min(c[:, 0].max() for c in there)
    at = there[0][:, 0]
    at = at[(at >= low) & (at <= high)]
    if not len(at):
        raise FileFormatError(index, "the curves of this set share no arm angles", line=line)
    angles = np.zeros((len(at), 3))
    for k, curve in enumerate(curves):
        if curve is not None:
            angles[:, k] = _values(curve, there[0], at)
    return at, angles, np.array([c is not None for c in curves])


def _values(curve: np.ndarray, first: np.ndarray, at: np.ndarray) -> np.ndarray:
    if len(curve) == len(first) and np.allclose(curve[:, 0], first[:, 0], atol=1e-6):
        # Raising and lowering pass the same arm angle twice: rows stay rows.
        low, high = at.min(), at.max()
        return curve[(first[:, 0] >= low) & (first[:, 0] <= high), 1]
    order = np.argsort(curve[:, 0], kind="stable")
    return np.interp(at, curve[order, 0], curve[order, 1])


def _curve(path: pathlib.Path) -> np.ndarray:
    """Arm angle and joint angle, degrees."""
    rows = []
    for line, text in enumerate(_text.read_lines(path), start=1):
        cells = [c for c in re.split(r"[,;\s]+", text.strip()) if c]
        if not cells:
            continue
        if len(cells) != 2:
            raise FileFormatError(path, f"{len(cells)} numbers; two are expected", line=line)
        pair = _text.numbers(path, line, cells, ("arm angle", "joint angle"))
        if not np.isfinite(pair).all():
            raise FileFormatError(path, "a number is not finite", line=line)
        rows.append(pair)
    if not rows:
        raise FileFormatError(path, "the file has no numbers")
    curve = np.array(rows)
    if np.abs(curve).max() > 360.0:
        raise FileFormatError(path, f"an angle of {np.abs(curve).max():g} degrees")
    if (curve[:, 0] <= 0).all():
        curve[:, 0] = -curve[:, 0]
    return curve
