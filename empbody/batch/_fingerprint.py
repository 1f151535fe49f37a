"""A hash of what a batch is given, the same in every process."""

import dataclasses
import functools
import hashlib
import inspect
import types
from typing import Any

import jax
import numpy as np


def fingerprint(value: Any) -> str:
    """SHA-256 of numbers, names and code within a value.

    Functions count by their code, their defaults and what they close over, and not by what
    they call.
    """
    hasher = hashlib.sha256()
    _feed(hasher, value, ())
    return hasher.hexdigest()


def _feed(hasher: Any, value: Any, above: tuple[int, ...]) -> None:
    """Add a value; `above` are the objects that it is part of."""
    hasher.update(f"<{type(value).__module__}.{type(value).__qualname__}>".encode())
    if value is None or isinstance(value, str | bytes | bool | int | float | complex):
        hasher.update(repr(value).encode())
        return
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        array = np.asarray(value)
        hasher.update(f"{array.dtype.str}{array.shape}".encode())
        hasher.update(np.ascontiguousarray(array).tobytes())
        return
    if isinstance(value, type | types.ModuleType):
        hasher.update(value.__name__.encode())
        return
    if id(value) in above:
        return
    parts = _parts(value)
    hasher.update(str(len(parts)).encode())
    for part in parts:
        _feed(hasher, part, (*above, id(value)))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, types.CodeType):
        # Code that stands inside is among the constants; places in the file do not count.
        return [value.co_code, value.co_consts, value.co_names, value.co_varnames]
    function = inspect.unwrap(value) if callable(value) else value
    if isinstance(function, types.FunctionType):
        cells = [_contents(cell) for cell in function.__closure__ or ()]
        given = [function.__defaults__, function.__kwdefaults__]
        return [function.__module__, function.__qualname__, function.__code__, *given, *cells]
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    if hasattr(value, "__qualname__"):  # of C
        return [value.__qualname__]
    return [sorted(getattr(value, "__dict__", {}).items(), key=lambda pair: pair[0])]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
