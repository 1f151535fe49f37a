"""Damaged .osim files load or are refused with our error that names the file.

Never another kind of error, a wait, or a model with NaN in it.
"""

import contextlib
import math
import pathlib
import signal

import equinox as eqx
import jax
import numpy as np
import pytest
from _osim_mutations import damaged

import empbody as eb

PATIENCE = 20.0
"""Seconds that a file may take."""
FINITE = ("axis", "translation", "rotation", "mass", "com", "inertia", "gravity")
GROUP = 50
FEW, MANY = 300, 10_000


class TooSlow(Exception):
    """A file took longer than PATIENCE."""


@contextlib.contextmanager
def limited(seconds: float):
    def stop(*_):
        raise TooSlow(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def flaw(path: pathlib.Path, **options) -> str | None:
    """What is wrong with the way in which a file is taken or refused; None if nothing is."""
    try:
        with limited(PATIENCE):
            model = eb.load(path, **options)
    except eb.io.FileFormatError as error:
        return None if path.name in str(error) else f"the file is not named: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    leaves = [np.asarray(x) for x in jax.tree.leaves(model) if eqx.is_inexact_array(x)]
    if any(np.isnan(leaf).any() for leaf in leaves):
        return "a model with NaN"
    for name in FINITE:
        if not np.isfinite(np.asarray(getattr(model, name))).all():
            return f"a model with infinite {name}"
    return None


def flaws(numbers, folder: pathlib.Path, loops: bool = False) -> dict[int, str]:
    found = {}
    for number in numbers:
        path = folder / f"damaged_{number}.osim"
        path.write_bytes(damaged(number, loops))
        options = {"unsupported": "skip"} if number % 3 == 0 else {}
        wrong = flaw(path, **options)
        if wrong is not None:
            found[number] = wrong
        path.unlink()
    return found


@pytest.mark.parametrize("group", range(FEW // GROUP))
def test_damaged_files(group: int, tmp_path: pathlib.Path):
    assert flaws(range(group * GROUP, (group + 1) * GROUP), tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("group", range(20))
def test_many_damaged_files(group: int, tmp_path: pathlib.Path):
    size = math.ceil((MANY - FEW) / 20)
    first = FEW + group * size
    assert flaws(range(first, first + size), tmp_path) == {}


@pytest.mark.slow
def test_damaged_loops(tmp_path: pathlib.Path):
    assert flaws(range(100), tmp_path, loops=True) == {}
