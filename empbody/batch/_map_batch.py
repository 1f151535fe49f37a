"""`map_batch`: any function of a model and one sample, for many samples."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..model import Model
from ._devices import local_devices
from ._progress import counting
from ._stack import varying_leaves

_AXIS = "samples"


def map_batch(
    function: Callable[..., Any],
    model: Model,
    *arrays: Any,
    model_axes: Any = None,
    batch_size: int = 4096,
    devices: Sequence[Any] | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Any:
    """`function(model, *rows)` for every row of the arrays, a chunk at a time.

        arms = eb.map_batch(eb.moment_arms, model, q)                        # (samples, nq, nm)
        tau = eb.map_batch(eb.inverse_dynamics, model, q, qd, qdd)           # (samples, nq)
        tau = eb.map_batch(eb.inverse_dynamics, eb.stack_models(subjects), q, qd, qdd)

    **Arguments:**

    - `function`: of a model and one sample; compiled once, by its identity, so give the same
      function object again and no lambda made anew.
    - `model`: one for all samples, or a stack from `stack_models` with one for each.
    - `arrays`: with a leading axis of samples; trees of arrays as well.
    - `model_axes`: as in `simulate_batch`.
    - `batch_size`: samples on the devices at a time; results are gathered in the host's memory.
      The last chunk is filled up, so that it needs no compiling.
    - `devices`: to spread each chunk over, such as `jax.local_devices()`; one if absent.
    - `progress`: show a bar, or a function of (samples done, samples in all).

    **Returns:** what `function` returns, as NumPy arrays with a leading axis of samples.
    """
    varying = varying_leaves(model, model_axes)
    own, shared = eqx.partition(model, varying)
    own, rest = jax.tree.map(np.asarray, own), jax.tree.map(np.asarray, arrays)
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves((own, rest))}
    if len(sizes) != 1 or sizes == {()}:
        raise ValueError(
            f"the leading axes of the arrays (and of the models, if stacked) are {sorted(sizes)}: "
            "one number of samples is expected"
        )
    ((count,),) = sizes
    if count < 1 or batch_size < 1:
        raise ValueError(f"{count} samples and batch_size = {batch_size}: at least one of each")
    mine = local_devices(devices)
    size = -(-min(batch_size, count) // len(mine)) * len(mine)
    mesh = Mesh(np.array(mine), (_AXIS,))
    everywhere = NamedSharding(mesh, PartitionSpec())
    numbers, static = eqx.partition(shared, eqx.is_array)
    shared = eqx.combine(jax.device_put(numbers, everywhere), static)
    parts = []
    with counting(progress, count, 0) as tell:
        for first in range(0, count, size):
            stop = min(first + size, count)
            rows = np.minimum(np.arange(first, first + size), stop - 1)
            chunk = jax.tree.map(lambda leaf, rows=rows: leaf[rows], (own, rest))
            chunk = jax.device_put(chunk, NamedSharding(mesh, PartitionSpec(_AXIS)))
            found = _compiled((function, shared, mesh), chunk)
            keep = stop - first
            parts.append(jax.tree.map(lambda x, keep=keep: np.array(x)[:keep], found))
            tell(keep)
    return jax.tree.map(lambda *same: np.concatenate(same), *parts)


@eqx.filter_jit(donate="all-except-first")
def _compiled(kept: tuple[Callable, Model, Mesh], chunk: tuple[Model, tuple]) -> Any:
    """The chunk's memory is given away: results may take its place."""
    function, shared, mesh = kept
    numbers, static = eqx.partition(shared, eqx.is_array)

    def work(numbers: Any, chunk: tuple[Model, tuple]) -> Any:
        def one(own: Model, row: tuple) -> Any:
            return function(eqx.combine(own, numbers, static), *row)

        return jax.vmap(one)(*chunk)

    if mesh.size == 1:
        return work(numbers, chunk)
    split = PartitionSpec(_AXIS)
    spread = jax.shard_map(
        work, mesh=mesh, in_specs=(PartitionSpec(), split), out_specs=split, check_vma=False
    )
    return spread(numbers, chunk)
