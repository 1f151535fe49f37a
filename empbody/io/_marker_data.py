"""What a file of markers says."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from . import _text


@dataclasses.dataclass(frozen=True)
class Markers:
    """Positions of markers over time.

    `positions[i, j]` is where marker `names[j]` is at `time[i]`: metres, in the laboratory's
    axes, NaN where the marker was not seen. `time` in seconds, strictly increasing; `rate`
    in frames per second; `frames` are the file's own numbers of the rows.
    """

    time: Float[np.ndarray, " rows"]
    names: tuple[str, ...]
    positions: Float[np.ndarray, "rows n 3"]
    rate: float
    frames: Int[np.ndarray, " rows"] | None = None

    def __post_init__(self):
        rows, count = np.size(self.time), len(self.names)
        if np.shape(self.positions) != (rows, count, 3):
            raise ValueError(
                f"{rows} times and {count} names for positions of shape "
                f"{np.shape(self.positions)}; wanted ({rows}, {count}, 3)"
            )
        if self.frames is not None and np.shape(self.frames) != (rows,):
            raise ValueError(f"{np.size(self.frames)} frame numbers for {rows} rows")
        if len(set(self.names)) != count:
            twice = next(n for i, n in enumerate(self.names) if n in self.names[:i])
            raise ValueError(f"two markers are called {twice!r}")

    def marker(self, name: str) -> Float[np.ndarray, "rows 3"]:
        """Positions of one marker (m)."""
        if name not in self.names:
            raise ValueError(f"no marker {name!r}; there are {_text.some(self.names, 40)}")
        return self.positions[:, self.names.index(name)]

    def select(self, names: tuple[str, ...]) -> "Markers":
        """These markers only, in this order."""
        chosen = np.stack([self.marker(name) for name in names], axis=1)
        return dataclasses.replace(self, names=tuple(names), positions=chosen)
