"""What a model is told when it is built in single precision; docs/float32.md has the figures."""

import warnings
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ._path import AbstractUnit
from ._surface import Surface, WrapEllipsoid, WrapTorus
from ._topology import Topology

_DEEP = 8
"""Massive links above each other from which forward dynamics loses its digits."""


def hint(topology: Topology, units: Sequence[AbstractUnit], surfaces: Sequence[Surface]) -> None:
    """Warn of what is not to be relied upon in single precision."""
    if jnp.zeros(()).dtype == jnp.float64:
        return
    used = {wrap.surface for unit in units for wrap in unit.wraps}
    curved = [s.name for s in surfaces if isinstance(s, WrapEllipsoid | WrapTorus)]
    found = [name for name in curved if name in used]
    links = list(topology.massive_links)
    depth = int(np.max(np.sum(topology.ancestors[np.ix_(links, links)], axis=1))) if links else 0
    doubts = []
    if found:
        doubts.append(f"strings over ellipsoids and tori ({found[0]!r}) are often wrong")
    if depth > _DEEP:
        doubts.append(f"forward dynamics of {depth} bodies in a chain loses its digits")
    if doubts:
        warnings.warn(
            f"this model is built in single precision, where {' and '.join(doubts)}; call "
            'jax.config.update("jax_enable_x64", True) first',
            stacklevel=3,
        )
