"""The published forms COC, COC_HG and MICRO: one row for each cluster of rows.

COC walks the cells of a cluster from the fullest on, until every column has a part, and publishes
these parts; COC_HG publishes the lowest node of a learnt tree above them. MICRO publishes each
column's most frequent part. Every class is as large as its cluster, so that the table is
k-anonymous on all columns, for k the smallest cluster. Part of the rows is published with values
that they do not have: `misreported` says how many.

The thesis leaves open which of equal cells comes first (here the one of the lower number), and
empty cells (which are never reached: the cells that are not empty hold all columns). It prints
bounds for its third class that are not those of its own grid (]0.8,1.65] for ]0.867,1.6]), and once
calls synthetic rows worse than these classes, against its figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from disclosure.anonymize import Hierarchy
from disclosure.co_clustering.grid import GroupGrid
from disclosure.co_clustering.recoding import Recoded
from disclosure.typing import Booleans, Integers


@dataclass(frozen=True)
class ClusterClasses:
    """The published rows, one for each cluster.

    of_row: (n,) the cluster of each row. holds: (clusters, parts) True for the parts that a
    cluster's row stands for. labels: by column, the published text of each cluster.
    """

    recoded: Recoded
    of_row: Integers
    holds: Booleans
    labels: Mapping[str, tuple[str, ...]]

    @cached_property
    def counts(self) -> Integers:
        """Number of rows of each class, (clusters,)."""
        return np.bincount(self.of_row)

    @cached_property
    def misreported(self) -> dict[str, float]:
        """For each column, the share of rows whose own part is not among the published ones."""
        held = self.holds[self.of_row[:, None], self.recoded.codes]
        shares = 1 - held.mean(axis=0)
        return dict(zip(self.recoded.parts, shares.tolist(), strict=True))

    @property
    def leaf_loss(self) -> float:
        """Mean over rows and columns of (parts published - 1) / (parts of the column - 1)."""
        losses = []
        for column in range(len(self.recoded.parts)):
            own = self.holds[:, list(self.recoded.parts_of(column))]
            losses.append((own.sum(axis=1) - 1) / max(own.shape[1] - 1, 1))
        return float(self.counts @ np.mean(losses, axis=0) / self.counts.sum())

    def to_table(self) -> dict[str, list[str]]:
        """The published rows in the order of the original ones, by column."""
        return {
            name: [labels[cluster] for cluster in self.of_row.tolist()]
            for name, labels in self.labels.items()
        }

    def spread(self, rng: np.random.Generator) -> dict[str, list[str]]:
        """Draw plain rows for the measures: each row takes one of its published parts, all
        equally likely."""
        codes = np.empty_like(self.recoded.codes)
        for cluster in range(len(self.counts)):
            rows = np.flatnonzero(self.of_row == cluster)
            for column in range(codes.shape[1]):
                own = np.array(self.recoded.parts_of(column))
                choices = own[self.holds[cluster, own]]
                codes[rows, column] = rng.choice(choices, len(rows))
        return self.recoded.labels_of(codes)


def generalise_clusters(
    grid: GroupGrid, trees: Mapping[str, Hierarchy] | None = None
) -> ClusterClasses:
    """Publish clusters as COC, or as COC_HG where learnt trees are given
    (`LearntHierarchies.trees`)."""
    columns = _column_of_part(grid.recoded)
    holds = np.zeros((len(grid.counts), grid.recoded.num_parts), dtype=bool)
    for cluster, counts in enumerate(grid.counts):
        for group in np.argsort(-counts, kind="stable"):
            holds[cluster, grid.partition.parts == group] = True
            if len(np.unique(columns[holds[cluster]])) == len(grid.recoded.parts):
                break
    return _classes(grid, holds, trees)


def micro_aggregate(grid: GroupGrid) -> ClusterClasses:
    """Publish clusters as MICRO: in each column the most frequent part, the first among equals."""
    recoded = grid.recoded
    counts = np.zeros((len(grid.counts), recoded.num_parts), dtype=np.int64)
    np.add.at(counts, (grid.partition.rows[:, None], recoded.codes), 1)
    holds = np.zeros(counts.shape, dtype=bool)
    for column in range(len(recoded.parts)):
        own = recoded.parts_of(column)
        best = counts[:, list(own)].argmax(axis=1) + own.start
        holds[np.arange(len(counts)), best] = True
    return _classes(grid, holds, None)


def _column_of_part(recoded: Recoded) -> Integers:
    return np.repeat(np.arange(len(recoded.parts)), np.diff(recoded.starts))


def _classes(
    grid: GroupGrid, holds: Booleans, trees: Mapping[str, Hierarchy] | None
) -> ClusterClasses:
    recoded, labels = grid.recoded, {}
    for column, (name, kind) in enumerate(recoded.parts.items()):
        own = slice(recoded.starts[column], recoded.starts[column + 1])
        chosen = [np.flatnonzero(line).tolist() for line in holds[:, own]]
        if trees is None:
            labels[name] = tuple(kind.group_label(parts) for parts in chosen)
            continue
        nodes = [_lowest_above(trees[name], parts) for parts in chosen]
        labels[name] = tuple(trees[name].labels[node] for node in nodes)
        holds[:, own] = trees[name].leaves[nodes]
    return ClusterClasses(recoded, grid.partition.rows, holds, labels)


def _lowest_above(tree: Hierarchy, parts: list[int]) -> int:
    """The lowest common ancestor of some leaves."""
    node = int(tree.encode([tree.paths[parts[0]][0]])[0])
    for part in parts[1:]:
        node = int(tree.fusions[node, tree.encode([tree.paths[part][0]])[0]])
    return node
