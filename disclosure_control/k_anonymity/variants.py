"""Faster k-anonymity algorithms with more loss: one pass over all pairs, and packets of similar
rows.

The text proposes both without figures. Its one pass lets each row choose an ancestor alone, so that
a published class need not have k rows: here classes are counted again after the pass, and what is
below k is suppressed. Its packets run k-means on a matrix of dissimilarities, which takes rows of
distances for coordinates: here they are clustered by average linkage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from disclosure_control.errors import TableError
from disclosure_control.k_anonymity.anonymise import SUPPRESSED, Anonymised, Greedy
from disclosure_control.k_anonymity.columns import Columns, Rows
from disclosure_control.k_anonymity.costs import FusionCosts
from disclosure_control.typing import Integers

Ancestors = list[Rows]
MapBlocks = Callable[[Callable[[Integers], Ancestors], Iterable[Integers]], Iterable[Ancestors]]
_BLOCK = 256


def anonymise_in_one_pass(
    table: Mapping[str, Sequence[str]],
    columns: Columns,
    k: int,
    *,
    map_blocks: MapBlocks | None = None,
) -> Anonymised:
    """Send each row to its nearest ancestor that k rows share; suppress what is then below k.

    An ancestor is the fusion with some other row; the rows that share it are those whose fusion
    with the row is this ancestor, and the row itself.

    map_blocks: applies a function to blocks of classes; threads of this process if None, or the map
        of a cluster. The result does not depend on it. Time O(classes^2).
    """
    rows, first, of_row, counts = _classes(table, columns, k)
    classes = rows.take(first)
    costs = FusionCosts(columns)

    def choose(block: Integers) -> Ancestors:
        return [_nearest_ancestor(classes, counts, costs, int(i), k) for i in block]

    blocks = [np.arange(s, min(s + _BLOCK, len(first))) for s in range(0, len(first), _BLOCK)]
    if map_blocks is None:
        with ThreadPoolExecutor() as pool:
            chosen = [row for found in pool.map(choose, blocks) for row in found]
    else:
        chosen = [row for found in map_blocks(choose, blocks) for row in found]
    return _recount(_concatenate(chosen), of_row, k)


def anonymise_in_packets(
    table: Mapping[str, Sequence[str]], columns: Columns, k: int, *, packet_size: int = 1000
) -> Anonymised:
    """Cluster packets of at most `packet_size` similar classes; fuse; finish greedily.

    Classes are sorted by their columns and cut into packets; each is clustered by average linkage
    of row distances into clusters of about k rows. Memory O(packet_size^2).
    """
    rows, first, of_row, counts = _classes(table, columns, k)
    if packet_size < 2:
        raise TableError(f"a packet has 2 classes or more, not {packet_size}")
    classes = rows.take(first)
    order = np.array(sorted(range(len(first)), key=classes.key))
    fused: list[Rows] = []
    cluster_of = np.empty(len(first), dtype=np.int64)
    for start in range(0, len(first), packet_size):
        packet = order[start : start + packet_size]
        for members in _clusters(classes.take(packet), counts[packet], k):
            cluster_of[packet[members]] = len(fused)
            fused.append(classes.take(packet[members]).fuse_all())
    joined = _concatenate(fused)
    distinct, of_cluster = joined.distinct()
    of_row = of_cluster[cluster_of[of_row]]
    return Greedy(joined.take(distinct), np.bincount(of_row), k).run(of_row)


def _classes(
    table: Mapping[str, Sequence[str]], columns: Columns, k: int
) -> tuple[Rows, Integers, Integers, Integers]:
    rows = Rows.encode(table, columns)
    if not 1 <= k <= len(rows):
        raise TableError(f"k must be in 1 to {len(rows)}, the rows, not {k}")
    first, of_row = rows.distinct()
    return rows, first, of_row, np.bincount(of_row).astype(np.int64)


def _nearest_ancestor(rows: Rows, counts: Integers, costs: FusionCosts, i: int, k: int) -> Rows:
    if counts[i] >= k:
        return rows.take(np.array([i]))
    distance = costs.distances(rows, i)[0]
    fused = _fuse_with(rows, i)
    parts = [*fused.nodes.values(), *fused.low.values(), *fused.high.values()]
    order = np.lexsort([*parts, distance])
    changed = np.zeros(len(order), dtype=bool)
    for part in parts:
        changed[1:] |= part[order][1:] != part[order][:-1]
    group = np.cumsum(changed)
    shared = np.bincount(group, weights=counts[order])
    shared[group[order == i][0] == np.arange(len(shared))] -= counts[i]
    enough = np.flatnonzero(shared + counts[i] >= k)
    if not len(enough):
        return fused.fuse_all()
    return fused.take(order[np.flatnonzero(group == enough[0])[:1]])


def _fuse_with(rows: Rows, i: int) -> Rows:
    nodes = {n: rows.tree(n).fusions[codes[i]][codes] for n, codes in rows.nodes.items()}
    low = {name: np.minimum(values, values[i]) for name, values in rows.low.items()}
    high = {name: np.maximum(values, values[i]) for name, values in rows.high.items()}
    return Rows(rows.columns, nodes, low, high)


def _clusters(rows: Rows, counts: Integers, k: int) -> list[Integers]:
    """Positions of the classes of each cluster."""
    if len(rows) == 1:
        return [np.zeros(1, dtype=np.int64)]
    costs = FusionCosts(rows.columns)
    matrix = np.array([np.add(*costs.distances(rows, i)) for i in range(len(rows))])
    condensed = matrix[np.triu_indices(len(rows), 1)]
    wanted = max(1, min(len(rows), int(counts.sum()) // k))
    labels = fcluster(linkage(condensed, "average"), wanted, "maxclust")
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _concatenate(rows: list[Rows]) -> Rows:
    first = rows[0]
    return Rows(
        first.columns,
        {name: np.concatenate([r.nodes[name] for r in rows]) for name in first.nodes},
        {name: np.concatenate([r.low[name] for r in rows]) for name in first.low},
        {name: np.concatenate([r.high[name] for r in rows]) for name in first.high},
    )


def _recount(published: Rows, of_row: Integers, k: int) -> Anonymised:
    """Count the classes that rows chose, and suppress those below k."""
    first, of_class = published.distinct()
    counts = np.bincount(of_class[of_row], minlength=len(first))
    kept = np.flatnonzero(counts >= k)
    number = np.full(len(first), SUPPRESSED)
    number[kept] = np.arange(len(kept))
    final = number[of_class[of_row]]
    return Anonymised(final, published.take(first[kept]), counts[kept], np.zeros(0))
