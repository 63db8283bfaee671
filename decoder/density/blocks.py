"""Blocks of cells, for maps of more cells than deviations can be had for.

Within a block the windows of a series share their map, so that a block deviates as one cell would.
The lightest cells are merged first, each with its lightest neighbor: heavy cells stay by
themselves, and empty country becomes a few large blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from decoder.density.linear_system import LevelEquations
from decoder.typing import Floats, Indices


@dataclass(frozen=True)
class Blocks:
    """A partition of n cells into b blocks; the reserved values, last of both, are each by
    themselves.

    within: (n, b), sparse, the part of its block's share that each cell holds.  of_cell: (n,).
    laplacian: of the blocks that touch (b, b), None for no graph.
    """

    within: Any
    of_cell: Indices
    laplacian: Any | None

    @classmethod
    def of(cls, shared: Floats, laplacian: Any | None, most: int, reserved: int) -> Blocks:
        """Merge cells into at most `most` blocks, and add the reserved values.

        shared: map (n,), positive.  laplacian: of the neighbors (n, n), None for no graph.
        """
        size = len(shared) - reserved
        merged = _merged(shared[:size], laplacian, most)
        of_cell = np.append(merged, merged.max() + 1 + np.arange(reserved))
        parts = shared / np.bincount(of_cell, shared)[of_cell]
        cells = np.arange(len(shared))
        within = sparse.coo_array((parts, (cells, of_cell))).tocsr()
        return cls(within, of_cell, None if laplacian is None else _touching(laplacian, of_cell))

    def reduced(self, windows: Sequence[Sequence[LevelEquations]]) -> list[list[LevelEquations]]:
        """The readings of windows in the shares of the blocks."""
        designs: dict[int, Any] = {}

        def of(one: LevelEquations) -> LevelEquations:
            if id(one.design) not in designs:
                designs[id(one.design)] = (one.design @ self.within).tocsr()
            return replace(one, design=designs[id(one.design)])

        return [[of(one) for one in window] for window in windows]

    def summed(self, shares: Floats) -> Floats:
        """The shares (b,) of the blocks in a map (n,)."""
        return np.bincount(self.of_cell, shares).astype(np.float64)

    def precision(self, precision: Any) -> Any:
        """The precision of the blocks' log shares (b, b), from that of the cells (n, n), where
        all cells of a block move alike."""
        size = len(self.of_cell)
        both = sparse.coo_array((np.ones(size), (np.arange(size), self.of_cell))).tocsr()
        return (both.T @ precision @ both).tocsr()


def _merged(shares: Floats, laplacian: Any | None, most: int) -> Indices:
    """The block of each cell, from 0, (n,). A cell without neighbors goes to the next lightest."""
    size = len(shares)
    into, near = list(range(size)), [set[int]() for _ in range(size)]
    if laplacian is not None:
        edges = laplacian[:size, :size].tocoo()
        for one, other in zip(edges.row.tolist(), edges.col.tolist(), strict=True):
            near[one] |= {other} - {one}
    entries = list(zip(shares.tolist(), range(size), strict=True))
    queue = entries.copy()
    heapify(queue)

    def lightest() -> int:
        while True:
            entry = heappop(queue)
            if entry is entries[entry[1]]:  # not from before a merger
                return entry[1]

    for _ in range(size - most):
        cell = lightest()
        other = min((entries[one] for one in near[cell]), default=(0.0, -1))[1]
        other = lightest() if other < 0 else other
        into[cell] = other
        for one in near[cell] - {other}:
            near[one].add(other)
            near[other].add(one)
        for one in near[cell]:
            near[one].discard(cell)
        entries[other], entries[cell] = (entries[other][0] + entries[cell][0], other), (0.0, -1)
        heappush(queue, entries[other])
    roots = np.array(into)
    while (roots[roots] != roots).any():
        roots = roots[roots]
    return np.asarray(np.unique(roots, return_inverse=True)[1], dtype=np.intp)


def _touching(laplacian: Any, of_cell: Indices) -> Any:
    """Laplacian (b, b) of the graph of blocks with cells that are neighbors."""
    edges, size = laplacian.tocoo(), int(of_cell.max()) + 1
    one, other = of_cell[edges.row], of_cell[edges.col]
    apart = one != other
    adjacency = sparse.coo_array((apart[apart], (one[apart], other[apart])), (size, size)).tocsr()
    found: Any = csgraph.laplacian(adjacency.astype(bool).astype(float))
    return found.tocsr()
