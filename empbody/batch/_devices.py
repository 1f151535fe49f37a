"""Which devices and which chunks are this process's own."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.experimental import multihost_utils


def local_devices(devices: Sequence[Any] | None) -> list[Any]:
    """Those of the devices that belong to this process; its first one if none are given."""
    if devices is None:
        return jax.local_devices()[:1]
    mine = [device for device in devices if device.process_index == jax.process_index()]
    if not mine:
        raise ValueError(
            f"none of the {len(devices)} devices belongs to process {jax.process_index()}: give "
            "jax.devices(), which has those of all processes"
        )
    return mine


def own_share(chunks: Sequence[int]) -> Sequence[int]:
    """Every n-th of the chunks for one of n processes."""
    return chunks[jax.process_index() :: jax.process_count()]


def wait_for_others(where: str) -> None:
    """Until all processes have come here; each must come with the same words."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(where)
