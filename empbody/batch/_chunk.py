"""The compiled part of a batch: some runs at once, on one device or on several."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from ..simulation._options import Options
from ..simulation._rates import rates
from ._arrays import as_arrays
from ._lanes import run_lanes
from ._runs import Begun, Run, begin, end, state_size, task_of

AXIS = "runs"


def _runs_on_one_device(
    own: Run, rows: Array, count: Array, shared: Run, options: Options, lanes: int
) -> tuple[dict[str, Array], Array, Array]:
    """Results by name, the rows as they were saved, and (steps of the runs, of the lanes)."""

    def whole(part: Run) -> Run:
        return eqx.combine(part, shared)

    begun = jax.vmap(lambda part: begin(whole(part), options))(own)

    def task(mine: tuple[Run, Begun]) -> Any:
        part, start = mine
        return task_of(whole(part), options, start.ready, start.muscles)

    # The state before the first step is in the lanes' book; no need to carry it twice.
    rest = eqx.tree_at(lambda b: b.state, begun, None)
    done = run_lanes((own, rest), task, rates, begun.state, rows, count[0], lanes)

    def finish(part: Run, start: Begun, state: Any, rows: Array) -> dict[str, Array]:
        return as_arrays(end(whole(part), options, start, state, rows))

    results = jax.vmap(finish)(own, rest, done.book, done.rows)
    mine = jnp.arange(rows.shape[0]) < count[0]
    busy = jnp.sum(jnp.where(mine, done.book.steps, 0))
    return results, done.rows, jnp.stack([busy, done.lane_steps])[None]


@eqx.filter_jit(donate="warn-except-first")
def _compiled(
    kept: tuple[Run, Int[Array, " devices"], Run, Options],
    rows: Float[Array, "runs nt ny"],
    lanes: int,
    mesh: Mesh | None,
) -> tuple[dict[str, Array], Array, Array]:
    own, count, shared, options = kept

    def work(own: Run, rows: Array, count: Array, numbers: Any) -> Any:
        shared, options = eqx.combine(numbers, rest)
        return _runs_on_one_device(own, rows, count, shared, options, lanes)

    numbers, rest = eqx.partition((shared, options), eqx.is_array)
    if mesh is None:
        return work(own, rows, count, numbers)
    split, same = PartitionSpec(AXIS), PartitionSpec()
    spread = jax.shard_map(
        work, mesh=mesh, in_specs=(split, split, split, same), out_specs=split, check_vma=False
    )
    return spread(own, rows, count, numbers)


class Engine:
    """Runs chunks of one size, one after the other, on the same memory."""

    def __init__(self, shared: Run, options: Options, size: int, lanes: int, devices: list):
        self._size, self._lanes, self._devices = size, lanes, devices
        self._mesh = Mesh(np.array(devices), (AXIS,)) if len(devices) > 1 else None
        self._shared, self._options = self._placed((shared, options), PartitionSpec())
        self._rows: Array | None = None

    def start(self, own: Run, count: int) -> tuple[dict[str, Array], Array]:
        """Begin a chunk; `own` has `size` runs, of which `count` are to be made."""
        n = len(self._devices)
        share = self._size // n
        counts = np.clip(count - share * np.arange(n), 0, share).astype(np.int32)
        own, counts = self._placed((own, counts), PartitionSpec(AXIS))
        if self._rows is None:
            self._rows = self._workspace(own)
        results, self._rows, steps = _compiled(
            (own, counts, self._shared, self._options), self._rows, self._lanes, self._mesh
        )
        return results, steps

    def _workspace(self, own: Run) -> Array:
        """Memory for the rows; every chunk saves into it and hands it on."""
        run = eqx.combine(own, self._shared)
        ny = state_size(run.model, run.excitation is not None)
        rows = np.zeros((self._size, run.ts.shape[-1], ny), run.ts.dtype)
        return self._placed(rows, PartitionSpec(AXIS))

    def _placed(self, tree: Any, spec: PartitionSpec) -> Any:
        where: Any = self._devices[0]
        if self._mesh is not None:
            where = NamedSharding(self._mesh, spec)
        arrays, rest = eqx.partition(tree, eqx.is_array)
        return eqx.combine(jax.device_put(arrays, where), rest)
