"""Timing on a noisy machine: warm up, block, interleave with the peer, take medians."""

import contextlib
import contextvars
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.compilation_cache import compilation_cache


class Figure(dict):
    """One measured number: value, spread (interquartile range), and the peer's, if any."""

    @staticmethod
    def of(samples: Sequence[float], **more: Any) -> "Figure":
        """Median of the samples; a single sample has no spread."""
        low, _, high = statistics.quantiles(samples, n=4) if len(samples) > 1 else (0.0,) * 3
        spread = high - low if len(samples) > 1 else None
        return Figure(value=statistics.median(samples), spread=spread, n=len(samples), **more)

    @staticmethod
    def ratio(over: Sequence[float], under: Sequence[float], **more: Any) -> "Figure":
        """Quotients of samples that were taken in turn, so that a busy moment hits both."""
        return Figure.of([a / b for a, b in zip(over, under, strict=True)], **more)

    @staticmethod
    def missing(reason: str, **more: Any) -> "Figure":
        return Figure(value=None, reason=reason, **more)


def seconds(work: Callable[[], Any]) -> float:
    """Duration of one call, waiting for its result."""
    begin = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - begin


def at_length(work: Callable[[], Any], times: int) -> Callable[[], Any]:
    """The same several times, waiting for each result.

    After a peer that keeps one processor busy, threads that have slept wake up on the same one,
    and the system needs some ten milliseconds to move them: most of a short work."""

    def run() -> Any:
        for _ in range(times - 1):
            jax.block_until_ready(work())
        return work()

    return run


_asked: contextvars.ContextVar[int | None] = contextvars.ContextVar("repeats", default=None)


@contextlib.contextmanager
def repeats_of(count: int | None) -> Iterator[None]:
    """Within it every measurement is repeated so often; None leaves each its own number."""
    token = _asked.set(count)
    try:
        yield
    finally:
        _asked.reset(token)


def repeats_or(default: int) -> int:
    """How often to repeat a measurement that asks for `default`."""
    asked = _asked.get()
    return default if asked is None else asked


def interleaved(works: Sequence[Callable[[], Any]], repeats: int) -> list[list[float]]:
    """Durations of several works in turn, so that the machine's moods hit all alike."""
    for work in works:
        jax.block_until_ready(work())
    samples: list[list[float]] = [[] for _ in works]
    for _ in range(repeats_or(repeats)):
        for work, times in zip(works, samples, strict=True):
            times.append(seconds(work))
    return samples


def compile_seconds(function: Callable, *arguments: Any) -> float:
    """Time of tracing and compiling alone, without any persistent cache."""
    kept = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    try:
        jax.clear_caches()
        begin = time.perf_counter()
        jax.jit(function).lower(*arguments).compile()
        return time.perf_counter() - begin
    finally:
        jax.config.update("jax_compilation_cache_dir", kept)
        compilation_cache.reset_cache()


def compile_figure(function: Callable, *arguments: Any, repeats: int = 3) -> Figure:
    """`compile_seconds`, several times."""
    return Figure.of([compile_seconds(function, *arguments) for _ in range(repeats_or(repeats))])


def in_a_loop(acceleration: Callable, nq: int, steps: int) -> Callable[[], Any]:
    """Work that evaluates a right-hand side `steps` times in one compiled loop, each time
    at a state that depends on the result before."""

    @jax.jit
    def loop(q: jax.Array, qd: jax.Array) -> tuple[jax.Array, jax.Array]:
        def advance(_: Any, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            q, qd = state
            return q + 1e-6 * qd, qd + 1e-6 * acceleration(q, qd)

        return jax.lax.fori_loop(0, steps, advance, (q, qd))

    q, qd = 0.1 * jnp.ones(nq), 0.2 * jnp.ones(nq)
    return lambda: loop(q, qd)


def in_a_batch(acceleration: Callable, nq: int, batch: int) -> Callable[[], Any]:
    """Work that evaluates a right-hand side once for a batch of random states."""
    rng = np.random.default_rng(0)
    q, qd = jnp.asarray(rng.normal(size=(2, batch, nq)))
    run = jax.jit(jax.vmap(acceleration))
    return lambda: run(q, qd)
