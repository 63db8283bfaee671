"""Complementary suppression: no suppressed number can be computed from those that are shown.

A table of values by strata with sums over either is a network: each cell is an edge between the sum
over its column and the sum over its row. Sums that nobody knows are one node together. A suppressed
cell can be computed exactly if, and only if, its edge is a bridge of the graph of suppressed cells
(Gusfield 1988, "A graph theoretic approach to statistical data security"). Each bridge is closed by
the path of shown cells that loses least, and those are suppressed too.

What it does not do: a suppressed number is still bounded by a total and by 0.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from publication.errors import ReleaseError
from publication.typing import Booleans, Floats, Integers

Pair = tuple[int, int]
_MANY = 64  # exposed cells, above which a faster rule that loses more is taken


@dataclass(frozen=True)
class Network:
    """Cells as edges. Arrays are (cells,).

    ends: (cells, 2) the two sums that a cell is part of; 0 is the node of all unknown sums.
    hidden: suppressed.  fixed: cannot be suppressed any more, as an earlier release shows it.
    cost: of suppressing a cell, 0 or more.
    secret: suppressed cells that must not be computed; None: all of them.
    """

    ends: Integers
    hidden: Booleans
    fixed: Booleans
    cost: Floats
    secret: Booleans | None = None

    def exposed(self, hidden: Booleans) -> Integers:
        """Which secret cells can be computed where these are suppressed: indices."""
        found = exposed_cells(self.ends, hidden)
        return found if self.secret is None else found[self.secret[found]]


def complement(network: Network) -> Integers:
    """Which further cells are to be suppressed.

    Raises:
        ReleaseError: a suppressed cell can be computed whatever else is suppressed.
    """
    hidden = network.hidden.copy()
    while len(exposed := network.exposed(hidden)):
        further = _second_cells(network, hidden) if len(exposed) > _MANY else []
        hidden[further or _cheapest_detour(network, hidden, int(exposed[0]))] = True
    return np.flatnonzero(hidden & ~network.hidden)


def exposed_cells(ends: Integers, hidden: Booleans) -> Integers:
    """Suppressed cells that can be computed exactly from the shown ones and the sums: indices."""
    between = np.flatnonzero(hidden & (ends[:, 0] != ends[:, 1]))
    pairs = np.sort(ends[between], axis=1)
    distinct, first, counts = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    cells = {tuple(pair): int(between[i]) for pair, i in zip(distinct.tolist(), first, strict=True)}
    single = counts == 1
    bridges = _bridges([tuple(pair) for pair in distinct.tolist()])
    return np.array(
        sorted(cells[pair] for pair, one in zip(cells, single, strict=True)
               if one and pair in bridges),
        dtype=np.int64,
    )  # fmt: skip


def _second_cells(network: Network, hidden: Booleans) -> list[int]:
    """For each sum with one suppressed cell, the cheapest other cell of it: many at once.

    Loses more than a detour for each, and takes no longer for many than for one.
    """
    cells = np.arange(len(hidden))
    across = network.ends[:, 0] != network.ends[:, 1]
    sums = np.concatenate([network.ends[:, 0], network.ends[:, 1]])
    owners = np.concatenate([cells, cells])
    open_ = hidden & across
    size = int(sums.max()) + 1
    alone = np.bincount(sums[open_[owners]], minlength=size) == 1
    if network.secret is not None:
        alone &= np.bincount(sums[(open_ & network.secret)[owners]], minlength=size) == 1
    alone[0] = False
    usable = (across & ~hidden & ~network.fixed)[owners] & alone[sums]
    order = np.flatnonzero(usable)
    order = order[np.lexsort((network.cost[owners[order]], sums[order]))]
    _, first = np.unique(sums[order], return_index=True)
    found: list[int] = np.unique(owners[order[first]]).tolist()
    return found


def _bridges(pairs: list[Pair]) -> set[Pair]:
    """Edges whose removal parts their component (Tarjan 1974); no two edges join the same nodes."""
    links: dict[int, list[int]] = defaultdict(list)
    for a, b in pairs:
        links[a].append(b)
        links[b].append(a)
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    found: set[Pair] = set()
    for root in links:
        if root in order:
            continue
        order[root] = lowest[root] = len(order)
        walk = [(root, -1, iter(links[root]))]
        while walk:
            node, parent, rest = walk[-1]
            for other in rest:
                if other not in order:
                    order[other] = lowest[other] = len(order)
                    walk.append((other, node, iter(links[other])))
                    break
                if other != parent:
                    lowest[node] = min(lowest[node], order[other])
            else:
                walk.pop()
                if parent >= 0:
                    lowest[parent] = min(lowest[parent], lowest[node])
                    if lowest[node] > order[parent]:
                        found.add((min(node, parent), max(node, parent)))
    return found


def _cheapest_detour(network: Network, hidden: Booleans, cell: int) -> list[int]:
    """Shown cells that close a cycle through a suppressed one, at the least cost (Dijkstra)."""
    ends = network.ends
    usable = (hidden | ~network.fixed) & (ends[:, 0] != ends[:, 1])
    usable[cell] = False
    links = _cheapest_links(ends, np.where(hidden, 0.0, network.cost + 1e-12), usable)
    start, goal = (int(end) for end in ends[cell])
    reached: dict[int, tuple[int, int]] = {}
    waiting = [(0.0, start, -1, start)]
    while waiting:
        cost, node, by, before = heapq.heappop(waiting)
        if node in reached:
            continue
        reached[node] = (by, before)
        if node == goal:
            break
        for other, edge, price in links[node]:
            if other not in reached:
                heapq.heappush(waiting, (cost + price, other, edge, node))
    if goal not in reached:
        raise ReleaseError(
            "a suppressed number can be computed from a total and from numbers that earlier "
            "releases show; publish without the total, or without this table"
        )
    path = []
    while goal != start:
        by, goal = reached[goal]
        path.append(by)
    return [edge for edge in path if not hidden[edge]]


def _cheapest_links(
    ends: Integers, cost: Floats, usable: Booleans
) -> dict[int, list[tuple[int, int, float]]]:
    """For each node: (other node, cell, cost) of the cheapest usable cell to each neighbour."""
    cells = np.flatnonzero(usable)
    cells = cells[np.argsort(cost[cells], kind="stable")]
    pairs, first = np.unique(np.sort(ends[cells], axis=1), axis=0, return_index=True)
    links: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
    for (a, b), at in zip(pairs.tolist(), first.tolist(), strict=True):
        edge = int(cells[at])
        price = float(cost[edge])
        links[a].append((b, edge, price))
        links[b].append((a, edge, price))
    return links
