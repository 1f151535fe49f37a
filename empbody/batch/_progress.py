"""How far a batch is."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tqdm


@contextlib.contextmanager
def counting(progress: Any, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """What is given is to be called with the number of runs that were done since."""
    if callable(progress):
        progress(done, total)

        def tell(more: int) -> None:
            nonlocal done
            done += more
            progress(done, total)

        yield tell
        return
    if not isinstance(progress, bool):
        raise ValueError(f"progress = {progress!r}: True, False or a function of (done, total)")
    with tqdm.tqdm(total=total, initial=done, unit="run", disable=not progress) as bar:

        def advance(more: int) -> None:
            bar.update(more)

        yield advance
