"""Thousands of simulations in one call: stacks of models, lanes, devices, files."""

from ._batch import Batch
from ._map_batch import map_batch
from ._simulate_batch import load_batch, simulate_batch
from ._stack import stack_models, stack_size, unstack_models
from ._store import BatchFolderError

__all__ = [
    "Batch",
    "BatchFolderError",
    "load_batch",
    "map_batch",
    "simulate_batch",
    "stack_models",
    "stack_size",
    "unstack_models",
]
