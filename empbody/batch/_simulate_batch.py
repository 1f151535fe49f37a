"""`simulate_batch`: thousands of simulations in one call."""

import dataclasses
import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..model import Model
from ..simulation import SimulationError, Solution
from ..simulation._explain import explain
from ..simulation._options import Options, as_options
from . import _inputs
from ._batch import Batch
from ._chunk import Engine
from ._devices import local_devices, own_share, wait_for_others
from ._fingerprint import fingerprint
from ._progress import counting
from ._runs import Run, drive_of
from ._store import Plan, Store
from ._trajectories import FORMATS

_BATCH_SIZE = 1024
_LANES_ON_CPU, _LANES_ELSEWHERE = 32, 1024


def simulate_batch(
    model: Model,
    q0: Any,
    qd0: Any,
    ts: Any,
    *,
    tau: Any = None,
    excitation: Any = None,
    muscle_state: Any = None,
    parameters: Any = None,
    model_axes: Any = None,
    solver: str | diffrax.AbstractSolver = "tsit5",
    rtol: Any = 1e-8,
    atol: Any = 1e-8,
    dt0: Any = None,
    fixed_step: Any = None,
    max_step: Any = None,
    max_steps: int = 16384,
    event: Any = None,
    find_root: bool = True,
    monitors: Sequence[str] | Mapping[str, str | Callable] = (),
    batch_size: int = _BATCH_SIZE,
    lanes: int | None = None,
    devices: Sequence[Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    format: str = "sto",
    progress: bool | Callable[[int, int], None] = False,
    throw: bool = False,
) -> Batch:
    """Run `simulate` many times, each run with its own numbers and its own steps.

    Every argument of a run may have a leading axis of runs or be the same for all. Runs are
    stepped on a fixed number of lanes, and a lane whose run has ended takes the next one, so
    that nobody waits for the slowest. Not differentiable: use `jax.vmap` of `simulate` for
    gradients.

    **Arguments:**

    - `model`: one for all runs, or a stack of them from `stack_models`.
    - `q0`, `qd0`: (nq,) or (runs, nq); rad or m, and per second.
    - `ts`: times to save at (s), (nt,) or (runs, nt).
    - `tau`: none, (nq,), (runs, nq), or a function `tau(t, q, qd)` or
      `tau(t, q, qd, parameters)`.
    - `excitation`: none, (nm,), (runs, nm), or a function of (t, q, qd), of
      (t, q, qd, parameters) or of (t, q, qd, muscles, parameters), of which a run sees its
      own. Without `parameters`: as in `simulate`.
    - `muscle_state`: `HillState` with arrays (nm,) or (runs, nm), as in `simulate`.
    - `parameters`: arrays with a leading axis of runs, in any structure.
    - `model_axes`: which arrays of `model` differ between runs, where not all of them do: a
      model with 0 and None in their places, as `in_axes` of `jax.vmap`.
    - `solver`, `rtol`, `atol`, `dt0`, `fixed_step`, `max_step`, `max_steps`, `event`,
      `find_root`, `monitors`: as in `simulate`, the same for all runs.
    - `batch_size`: runs in memory at a time. Rounded up to a multiple of the devices.
    - `lanes`: runs that are stepped at a time, on each device; 32 on a CPU and 1024 elsewhere
      if absent. The more runs each lane has in a chunk, the less lanes wait at its end.
    - `devices`: to spread each chunk of `batch_size` runs over, such as `jax.devices()`; one
      if absent. Under `jax.distributed` each process does its share of the chunks on those of
      the devices that are its own, and `out` is needed.
    - `out`: folder to write to. A batch that was interrupted continues where it stopped when
      it is called again with the same arguments.
    - `format`: "sto" for one file for each run, "zarr" for one store (extra `zarr`).
    - `progress`: show a bar, or a function of (runs done, runs in all).
    - `throw`: raise `SimulationError` in the end if a run failed. A failed run never touches
      others; see `Batch.failed` and `Batch.reason`.

    **Returns:** a `Batch`: `batch[i]` is the `Solution` of run i.

    **Raises:** `ValueError` for wrong shapes, names and times; `BatchFolderError` where `out`
    holds another batch.
    """
    runs, varying, count = _inputs.as_runs(
        model, model_axes, q0, qd0, ts, tau, excitation, muscle_state, parameters
    )
    first = _inputs.check(runs, varying, count)
    options = as_options(
        first,
        jnp.asarray(runs.ts[0] if varying.ts else runs.ts),
        solver=solver,
        event=event,
        monitors=monitors,
        rtol=rtol,
        atol=atol,
        dt0=dt0,
        fixed_step=fixed_step,
        max_step=max_step,
        max_steps=max_steps,
        find_root=find_root,
    )
    if varying.ts and np.ndim(fixed_step):
        raise ValueError(
            "times to step to suit one ts: give one ts for all runs, or one fixed_step"
        )
    if format not in FORMATS:
        raise ValueError(f"there is no format {format!r}; choose from {sorted(FORMATS)}")
    mine = local_devices(devices)
    if lanes is None:
        lanes = _LANES_ON_CPU if mine[0].platform == "cpu" else _LANES_ELSEWHERE
    if batch_size < 1 or lanes < 1:
        raise ValueError(f"batch_size = {batch_size} and lanes = {lanes}: at least one of each")
    size = -(-min(batch_size, count) // len(mine)) * len(mine)
    lanes = min(lanes, size // len(mine))
    plan = Plan(format, count, size, _hashes(runs, options, lanes) if out is not None else {})
    work = _Work(runs, varying, options, plan, first)
    engine = Engine(_inputs.shared_part(runs, varying), options, size, lanes, mine)
    if out is None:
        batch = Batch.of_arrays(work.in_memory(engine, progress), work.explain)
    else:
        batch = Batch.of_store(work.to_folder(engine, out, progress), work.explain)
    if throw and len(batch.failed):
        run = int(batch.failed[0])
        raise SimulationError(
            f"{len(batch.failed)} of {count} runs failed; run {run}: {batch.reason(run)}"
        )
    return batch


def load_batch(folder: str | os.PathLike[str]) -> Batch:
    """A complete batch from its folder.

    **Raises:** `BatchFolderError` where there is none, or one that is not complete.
    """
    return Batch.of_store(Store.open(folder))


@dataclasses.dataclass(frozen=True)
class _Work:
    runs: Run
    varying: Run
    options: Options
    plan: Plan
    model: Model
    """Of the first run, for names."""

    def explain(self, run: int, solution: Solution) -> str:
        given = _inputs.one_run(self.runs, self.varying, run)
        start, rate = np.asarray(given.q0), np.asarray(given.qd0)
        drive = drive_of(given)
        return explain(solution, given.model, start, rate, self.options, drive)

    def chunks(self, engine: Engine, numbers: Sequence[int], keep: Callable) -> None:
        """Run chunks and hand each one's arrays to `keep`, while the next is on its way."""
        ahead = None
        for chunk in numbers:
            first, stop = self.plan.span(chunk)
            own = _inputs.chunk_of(self.runs, self.varying, first, stop, self.plan.batch_size)
            results, steps = engine.start(own, stop - first)
            if ahead is not None:
                keep(*ahead)
            # The copy lets go of the device's memory, and waits for the chunk to be done.
            arrays = {name: np.array(array)[: stop - first] for name, array in results.items()}
            arrays["lane_steps"] = np.sum(np.array(steps)[:, 1], keepdims=True)
            ahead = chunk, arrays
        if ahead is not None:
            keep(*ahead)

    def in_memory(self, engine: Engine, progress: Any) -> dict[str, np.ndarray]:
        if jax.process_count() > 1:
            raise ValueError(
                "with several processes each has a part of the runs: give a folder that all of "
                "them can write to as out"
            )
        parts: list[dict[str, np.ndarray]] = []
        with counting(progress, self.plan.runs, 0) as tell:

            def keep(chunk: int, arrays: dict[str, np.ndarray]) -> None:
                parts.append(arrays)
                tell(self.plan.span(chunk)[1] - self.plan.span(chunk)[0])

            self.chunks(engine, range(self.plan.chunks), keep)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def to_folder(self, engine: Engine, out: str | os.PathLike[str], progress: Any) -> Store:
        store = Store.prepare(out, self.plan)
        missing = store.missing()
        wait_for_others("empbody batch: what is missing")  # before anyone writes
        left = sum(stop - first for first, stop in map(self.plan.span, missing))
        with counting(progress, self.plan.runs, self.plan.runs - left) as tell:

            def keep(chunk: int, arrays: dict[str, np.ndarray]) -> None:
                store.write(chunk, self.model, arrays)
                tell(self.plan.span(chunk)[1] - self.plan.span(chunk)[0])

            self.chunks(engine, own_share(missing), keep)
        wait_for_others("empbody batch: done")
        return store


def _hashes(runs: Run, options: Options, lanes: int) -> dict[str, str]:
    """Of everything that the results depend on, by the name under which it was given."""
    parts: dict[str, Any] = {field.name: getattr(runs, field.name) for field in _fields(runs)}
    for field in _fields(options):
        if field.name not in ("adjoint", "meter", "dense"):
            parts["event" if field.name == "events" else field.name] = getattr(options, field.name)
    names = ("empbody", "jax", "jaxlib", "diffrax")
    versions = {name: importlib.metadata.version(name) for name in names}
    parts |= {"lanes": lanes, "version of a package": versions}
    return {name: fingerprint(part) for name, part in parts.items()}


def _fields(module: eqx.Module) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(module)
