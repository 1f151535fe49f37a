"""Which link hangs on which: everything about a tree that is not a number."""

import functools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Topology:
    """Static structure of a tree of links.

    A link is what one joint variable moves. Bodies ride on links; several bodies may
    share one (welds) and links in a chain joint may carry none.
    """

    parents: tuple[int, ...]
    """Parent link of each link; -1 is the ground."""
    revolute: tuple[bool, ...]
    """Joint kind of each link: revolute, or else prismatic."""
    body_links: tuple[int, ...]
    """Link of each body; -1 is the ground."""
    massive: tuple[int, ...]
    """Bodies that have mass or inertia and ride on a moving link."""
    welded: tuple[bool, ...]
    """Whether each body's frame is placed on its link, rather than being the link's own."""

    @property
    def n_links(self) -> int:
        return len(self.parents)

    @property
    def massive_links(self) -> tuple[int, ...]:
        return tuple(self.body_links[b] for b in self.massive)

    def chain(self, link: int) -> tuple[int, ...]:
        """Links from the root to `link`, both included; empty for the ground (-1)."""
        found: list[int] = []
        while link >= 0:
            found.append(link)
            link = self.parents[link]
        return tuple(reversed(found))

    @functools.cached_property
    def order(self) -> tuple[int, ...]:
        """Links sorted so that parents come before children."""
        return tuple(sorted(range(self.n_links), key=lambda i: len(self.chain(i))))

    @functools.cached_property
    def ancestors(self) -> np.ndarray:
        """(nj, nj): 1 at (i, j) where j carries i, or is i."""
        out = np.zeros((self.n_links, self.n_links))
        for i in range(self.n_links):
            out[i, list(self.chain(i))] = 1.0
        return out

    @functools.cached_property
    def jumps(self) -> tuple[np.ndarray, ...]:
        """Pointer doubling: round k maps each link to its 2^k-th ancestor, or -1.

        Composing with the ancestor's transform in each round gives all world transforms
        in log2(depth) vectorised steps.
        """
        rounds = []
        jump = np.asarray(self.parents, dtype=np.int64)
        while (jump >= 0).any():
            rounds.append(jump)
            jump = np.where(jump >= 0, jump[jump], -1)
        return tuple(rounds)

    @property
    def is_deep(self) -> bool:
        """Whether some branch has more than 32 links."""
        return len(self.jumps) > 5
