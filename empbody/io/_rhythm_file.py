"""Rhythm files: a fitted rhythm with its names, coefficients, data ranges and prior, as JSON."""

import datetime
import json
import os
import pathlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..fitting import Coefficients, PopulationFit, Prior, RhythmFit
from ..rhythms import (
    AbstractRhythm,
    Affine,
    Compose,
    Fourier,
    FourierTensor,
    Identity,
    Named,
    Neural,
    Polynomial,
    Spline,
    Stack,
    TensorSpline,
)
from ._atomic import replacing
from ._errors import FileFormatError

FORMAT = "empbody rhythm"
VERSION = 1


class RhythmFile(NamedTuple):
    """All that a rhythm file holds."""

    rhythm: Named
    family: str
    prior: Prior | None
    """Of a population: what it says about the next subject."""
    ranges: tuple[tuple[float, float], ...] | None
    """Least and largest value of each input in the data (rad)."""
    maps: dict[str, dict[str, float]]
    """Numbers (rad) that words in a column of the data stand for."""
    fit: dict[str, Any]
    provenance: dict[str, Any]


def save_rhythm(
    rhythm: Named | RhythmFit | PopulationFit,
    path: str | os.PathLike[str],
    *,
    family: str | None = None,
    maps: Mapping[str, Mapping[str, float]] | None = None,
    fit: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a rhythm file (.json, readable): a `Named` rhythm, or a fit with names.

    A fit brings standard errors, data ranges and, from a population, the prior. `fit` and
    `provenance` are kept as they are and read back. Numbers have all their digits.
    """
    named, spread, prior, called, ranges = _parts(rhythm)
    codec = Coefficients(named) if _countable(named) else None
    values = [] if codec is None else np.asarray(codec.vector()).tolist()
    labels = () if codec is None else codec.labels()
    table = []
    for i, (label, value) in enumerate(zip(labels, values, strict=True)):
        row: dict[str, Any] = {"label": label, "value": value}
        if spread is not None and len(spread) == len(labels):
            row["sd"] = float(spread[i])
        table.append(row)
    whole: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "inputs": [
            {"name": name, "unit": "rad"} | ({} if ranges is None else {"range": list(ranges[i])})
            for i, name in enumerate(named.inputs)
        ],
        "targets": [{"name": name, "unit": "rad"} for name in named.targets],
        "family": family or called,
        "rhythm": _encode(named.rhythm, None if codec is None else _holes(codec)),
        "coefficients": table,
    }
    if maps:
        whole["maps"] = {k: dict(v) for k, v in maps.items()}
    if prior is not None:
        whole["prior"] = {
            "about": "coefficients of subjects: normal about those above",
            "noise": np.asarray(prior.noise).tolist(),
            "covariance": np.asarray(prior.covariance).tolist(),
        }
    if fit:
        whole["fit"] = dict(fit)
    made = {
        "program": "empbody",
        "program_version": version("empbody"),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    whole["provenance"] = made | dict(provenance or {})
    text = _readable(whole)
    with replacing(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def load_rhythm(path: str | os.PathLike[str]) -> Named:
    """Read the rhythm of a rhythm file. Angles in rad.

    **Raises:** `FileFormatError` that names the file and what is wrong in it.
    """
    return read_rhythm_file(path).rhythm


def read_rhythm_file(path: str | os.PathLike[str]) -> RhythmFile:
    """Read a rhythm file whole, with its prior and what is known of its data."""
    path = pathlib.Path(path)
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        words = f"not a rhythm file (not JSON: {error.msg}); make one with empbody fit"
        raise FileFormatError(path, words, line=error.lineno) from None
    except UnicodeDecodeError:
        raise FileFormatError(path, "not a text file") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise FileFormatError(path, f'not a rhythm file: "format" is not "{FORMAT}"')
    if whole.get("version") != VERSION:
        raise FileFormatError(
            path, f"version {whole.get('version')!r} of the format; this program reads {VERSION}"
        )
    try:
        return _read(whole)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FileFormatError(path, missing) from error


def _parts(rhythm: Any) -> tuple[Named, Any, Prior | None, str, Any]:
    match rhythm:
        case Named():
            return rhythm, None, None, type(rhythm.rhythm).__name__, None
        case RhythmFit():
            spread = None if rhythm.covariance is None else np.asarray(rhythm.spread)
            found = (rhythm.rhythm, spread, None, rhythm.report.family, rhythm.ranges)
        case PopulationFit():
            prior = rhythm.prior
            spread = np.asarray(prior.spread)
            found = (rhythm.rhythm, spread, prior, rhythm.family, rhythm.ranges)
        case _:
            raise TypeError(
                f"{type(rhythm).__name__} cannot be saved; give a Named rhythm or a fit"
            )
    named, spread, prior, family, ranges = found
    if not isinstance(named, Named):
        raise ValueError(
            "a rhythm file needs names: fit with input_names= and target_names=, or wrap the "
            "rhythm in rhythms.Named"
        )
    return named, spread, prior, family, ranges


def _countable(rhythm: AbstractRhythm) -> bool:
    return bool(jax.tree.leaves(eqx.filter(rhythm, eqx.is_inexact_array)))


def _holes(codec: Coefficients) -> AbstractRhythm:
    """The bare rhythm with NaN for what stands in the table of coefficients."""
    empty = codec.rhythm(jnp.full(codec.size, jnp.nan))
    assert isinstance(empty, Named)
    return empty.rhythm


def _read(whole: dict[str, Any]) -> RhythmFile:
    rhythm = _decode(whole["rhythm"])
    inputs = tuple(str(entry["name"]) for entry in whole["inputs"])
    targets = tuple(str(entry["name"]) for entry in whole["targets"])
    for entry in (*whole["inputs"], *whole["targets"]):
        if entry.get("unit", "rad") != "rad":
            raise ValueError(f"{entry['name']} in {entry['unit']}; rad is expected")
    named = Named(rhythm, inputs, targets)
    table = whole["coefficients"]
    if table:
        codec = Coefficients(named)
        if len(table) != codec.size:
            raise ValueError(f"{len(table)} coefficients; this rhythm has {codec.size}")
        for row, label in zip(table, codec.labels(), strict=True):
            if row["label"] != label:
                raise ValueError(f"coefficient {row['label']!r} where {label!r} is expected")
        values = [row["value"] for row in table]
        if not all(isinstance(v, int | float) and np.isfinite(v) for v in values):
            raise ValueError("a coefficient is not a finite number")
        full = codec.rhythm(jnp.asarray(values, dtype=float))
        assert isinstance(full, Named)
        named = full
    prior = None
    if whole.get("prior") is not None:
        given = whole["prior"]
        prior = Prior(named, np.array(given["covariance"], float), np.array(given["noise"], float))
    ranges = None
    if all("range" in entry for entry in whole["inputs"]):
        ranges = tuple((float(e["range"][0]), float(e["range"][1])) for e in whole["inputs"])
    maps = {k: {a: float(b) for a, b in v.items()} for k, v in whole.get("maps", {}).items()}
    return RhythmFile(
        named,
        str(whole.get("family", "")),
        prior,
        ranges,
        maps,
        dict(whole.get("fit", {})),
        dict(whole.get("provenance", {})),
    )


def _encode(rhythm: Any, holes: Any) -> dict[str, Any]:
    """A rhythm by type and arguments; null for a number that the table of coefficients has."""
    holes = rhythm if holes is None else holes

    def numbers(name: str) -> Any:
        array = np.asarray(getattr(holes, name), dtype=float)
        return None if array.size and np.isnan(array).all() else array.tolist()

    shape = {"type": type(rhythm).__name__}
    match rhythm:
        case Identity():
            return shape
        case Affine():
            return shape | {"shape": list(rhythm.matrix.shape)}
        case Polynomial():
            return shape | {
                "exponents": [list(e) for e in rhythm.exponents],
                "outputs": rhythm.coefficients.shape[0],
                "centre": numbers("centre"),
                "scale": numbers("scale"),
            }
        case Spline():
            return shape | {
                "breaks": np.asarray(rhythm.breaks).tolist(),
                "shape": list(rhythm.coefficients.shape),
                "degree": rhythm.degree,
                "periodic": rhythm.periodic,
                "extrapolation": "error" if rhythm.range_error else "linear",
            }
        case TensorSpline():
            return shape | {
                "breaks": [np.asarray(b).tolist() for b in rhythm.breaks],
                "shape": list(rhythm.coefficients.shape),
                "degree": rhythm.degree,
                "periodic": list(rhythm.periodic),
                "extrapolation": "error" if any(rhythm.range_error) else "linear",
            }
        case Fourier() | FourierTensor():
            return shape | {
                "shape": list(rhythm.coefficients.shape),
                "winding": numbers("winding"),
                "period": numbers("period"),
            }
        case Neural():
            sizes = [rhythm.n_in, *(len(b) for b in rhythm.biases)]
            names = ("centre", "scale", "offset", "gain")
            return shape | {"sizes": sizes} | {name: numbers(name) for name in names}
        case Stack():
            return shape | {
                "parts": [
                    _encode(r, h) for r, h in zip(rhythm.rhythms, holes.rhythms, strict=True)
                ],
                "inputs": [list(i) for i in rhythm.inputs],
                "n_in": rhythm.n_in,
                "order": None if rhythm.order is None else list(rhythm.order),
            }
        case Compose():
            return shape | {
                "outer": _encode(rhythm.outer, holes.outer),
                "inner": _encode(rhythm.inner, holes.inner),
            }
        case Named():
            return shape | {
                "rhythm": _encode(rhythm.rhythm, holes.rhythm),
                "inputs": list(rhythm.inputs),
                "targets": list(rhythm.targets),
            }
    raise ValueError(f"a {type(rhythm).__name__} rhythm has no place in a rhythm file")


def _decode(entry: dict[str, Any]) -> AbstractRhythm:
    kind = entry["type"]
    match kind:
        case "Identity":
            return Identity()
        case "Affine":
            return Affine(np.zeros(entry["shape"]))
        case "Polynomial":
            zeros = np.zeros((int(entry["outputs"]), len(entry["exponents"])))
            return Polynomial(entry["exponents"], zeros, entry["centre"], entry["scale"])
        case "Spline" | "TensorSpline":
            zeros = np.zeros(entry["shape"])
            options = {"degree": entry["degree"], "extrapolation": entry["extrapolation"]}
            if kind == "Spline":
                return Spline(entry["breaks"], zeros, periodic=entry["periodic"], **options)
            first, second = entry["breaks"]
            periodic = (bool(entry["periodic"][0]), bool(entry["periodic"][1]))
            return TensorSpline((first, second), zeros, periodic=periodic, **options)
        case "Fourier":
            return Fourier(np.zeros(entry["shape"]), entry["winding"], entry["period"])
        case "FourierTensor":
            return FourierTensor(np.zeros(entry["shape"]), entry["winding"], entry["period"])
        case "Neural":
            names = ("centre", "scale", "offset", "gain")
            given = {name: entry[name] for name in names}
            return Neural(entry["sizes"], key=jax.random.key(0), **given)
        case "Stack":
            parts = [(_decode(p), i) for p, i in zip(entry["parts"], entry["inputs"], strict=True)]
            return Stack(parts, entry["n_in"], entry["order"])
        case "Compose":
            return Compose(_decode(entry["outer"]), _decode(entry["inner"]))
        case "Named":
            return Named(_decode(entry["rhythm"]), entry["inputs"], entry["targets"])
    raise ValueError(f"unknown type of rhythm {kind!r}")


def _readable(whole: Any, indent: int = 0) -> str:
    """JSON with one line for each row of numbers or flat entry, and all digits."""
    pad = " " * (indent + 2)
    if isinstance(whole, dict) and whole and not _flat(whole):
        rows = [f"{pad}{json.dumps(k)}: {_readable(v, indent + 2)}" for k, v in whole.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    if isinstance(whole, list) and whole and not _flat(whole):
        rows = [pad + _readable(v, indent + 2) for v in whole]
        return "[\n" + ",\n".join(rows) + "\n" + " " * indent + "]"
    return json.dumps(whole, allow_nan=False, ensure_ascii=False)


def _flat(value: dict[str, Any] | list[Any]) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict) and len(value) > 4:
        return False
    return not any(isinstance(v, dict) or (isinstance(v, list) and len(v) > 2) for v in inner)
