"""Words about long work, on standard error."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import jax
import tqdm

T = TypeVar("T")
_REPEATS = 5
_PATIENCE = 1.0  # s


class Progress:
    """Says which stage of a command is under way and how long it took."""

    def __init__(self, quiet: bool = False):
        self._quiet = quiet
        self.started = time.perf_counter()

    @contextlib.contextmanager
    def stage(self, what: str) -> Iterator[None]:
        """Report a stage when it starts and its duration when it ends well."""
        begin = time.perf_counter()
        self._write(f"{what} ...")
        try:
            yield
        except BaseException:
            self._write("\n")
            raise
        self._write(f" {time.perf_counter() - begin:.1f} s\n")

    @contextlib.contextmanager
    def counting(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """A stage whose rows are counted: call what is given with those done and all."""
        if not self.bar:
            with self.stage(what):
                yield lambda done, total: None
            return
        with tqdm.tqdm(desc=what, unit="row", file=sys.stderr, leave=True) as bar:

            def count(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield count

    @property
    def bar(self) -> bool:
        """Whether a moving bar makes sense: someone is watching a terminal."""
        return not self._quiet and sys.stderr.isatty()

    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    def _write(self, text: str) -> None:
        if not self._quiet:
            sys.stderr.write(text)
            sys.stderr.flush()


class Timed(NamedTuple):
    """Wall times of a compiled function (s)."""

    first: float
    """the first call: compiling (or fetching from the cache) and running"""
    run: float
    """the fastest of a few more"""

    def as_json(self) -> dict[str, float]:
        return {"compile": max(self.first - self.run, 0.0), "run": self.run}


def timed(work: Callable[[], T]) -> tuple[T, Timed]:
    """Result of `work` and its wall times: the first call apart from later ones."""
    begin = time.perf_counter()
    result = jax.block_until_ready(work())
    first = time.perf_counter() - begin
    later: list[float] = []
    while len(later) < _REPEATS and sum(later) < _PATIENCE:
        begin = time.perf_counter()
        jax.block_until_ready(work())
        later.append(time.perf_counter() - begin)
    return result, Timed(first, min(later))
