"""The result of a batch."""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..simulation import SimulationStatus, Solution
from ._arrays import as_solution, is_along_time
from ._store import BatchFolderError, Store


class Batch:
    """The runs of `simulate_batch`, in the order in which they were given.

    `batch[i]` is the `Solution` of run i, as `simulate` gives it; `len(batch)` is the number
    of runs. Of a batch that was written to a folder, trajectories are read when asked for.
    """

    def __init__(
        self,
        summary: Mapping[str, np.ndarray],
        trajectories: Callable[[int], dict[str, np.ndarray]],
        everything: Callable[[str], np.ndarray],
        explain: Callable[[int, Solution], str] | None,
        folder: pathlib.Path | None = None,
    ):
        self._summary = {n: a for n, a in summary.items() if n != "lane_steps"}
        self._lane_steps = int(np.sum(summary["lane_steps"]))
        self._trajectories, self._everything = trajectories, everything
        self._explain = explain
        self.folder = folder
        """Where it was written, if it was."""

    @staticmethod
    def of_arrays(
        arrays: Mapping[str, np.ndarray], explain: Callable[[int, Solution], str] | None
    ) -> "Batch":
        """A batch in memory."""
        along = [name for name in arrays if is_along_time(name)]
        summary = {name: array for name, array in arrays.items() if name not in along}

        def everything(name: str) -> np.ndarray:
            if name not in arrays:
                raise KeyError(f"{name!r} is not in the batch, which has {', '.join(along)}")
            return arrays[name]

        return Batch(summary, lambda i: {n: arrays[n][i] for n in along}, everything, explain)

    @staticmethod
    def of_store(store: Store, explain: Callable[[int, Solution], str] | None = None) -> "Batch":
        """A batch in a folder, complete."""
        missing = store.missing()
        if missing:
            size = store.plan.batch_size
            raise BatchFolderError(
                f"{store.folder} holds a batch that is not complete: {len(missing)} of its "
                f"{store.plan.chunks} chunks of {size} runs are missing; call simulate_batch again "
                "with the same arguments to continue it"
            )

        rest = store.trajectories, store.trajectory_of_all
        return Batch(store.summary(), *rest, explain, store.folder)

    def __len__(self) -> int:
        return self._summary["t_final"].shape[0]

    def __getitem__(self, run: Any) -> Solution:
        if not isinstance(run, int | np.integer):
            raise TypeError(
                "batch[i] takes the number of a run; for several, use batch.array(name)"
            )
        if not -len(self) <= run < len(self):
            raise IndexError(f"run {run} of a batch of {len(self)}")
        run = run % len(self)
        arrays = {name: array[run] for name, array in self._summary.items()}
        return as_solution(self._trajectories(run) | arrays)

    def __iter__(self) -> Iterator[Solution]:
        return (self[run] for run in range(len(self)))

    def array(self, name: str) -> np.ndarray:
        """A quantity of all runs, with a leading axis of runs: "q" (runs, nt, nq), "qd",
        "reached", "muscles/activation", "muscles/fibre", "excitation", "monitors/<name>",
        "t_final", "q_final", ..."""
        if name in self._summary:
            return self._summary[name]
        return self._everything(name)

    @property
    def succeeded(self) -> np.ndarray:
        """Which runs reached the end of ts or an event, (runs,)."""
        good = [SimulationStatus.done, SimulationStatus.event]
        return np.isin(self._summary["status"], [_code(item) for item in good])

    @property
    def failed(self) -> np.ndarray:
        """Numbers of the runs that did not."""
        return np.flatnonzero(~self.succeeded)

    def reason(self, run: int) -> str | None:
        """Why a run failed, in one sentence; None if it did not."""
        if self.succeeded[run]:
            return None
        solution = self[run]
        if self._explain is None:
            return SimulationStatus[solution.status]
        return self._explain(run % len(self), solution)

    @property
    def stats(self) -> dict[str, Any]:
        """num_steps, num_accepted_steps, num_rejected_steps, max_steps of each run, (runs,);
        lane_steps, the steps that all lanes made, idle ones included; waiting_fraction, the
        share of these on which a lane had no work."""
        names = [name for name in self._summary if name.startswith("stats/")]
        found: dict[str, Any] = {n.removeprefix("stats/"): self._summary[n] for n in names}
        used = int(np.sum(found["num_steps"]))
        waiting = 1.0 - used / self._lane_steps if self._lane_steps else 0.0
        return found | {"lane_steps": self._lane_steps, "waiting_fraction": waiting}

    def __repr__(self) -> str:
        failed = len(self.failed)
        where = "" if self.folder is None else f" in {self.folder}"
        return f"Batch({len(self)} runs, {failed} failed{where})"


def _code(item: Any) -> int:
    return int(np.asarray(item._value))
