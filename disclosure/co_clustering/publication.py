"""The forms of a co-clustering that may be published: COC, COC_HG, MICRO and SYNTH.

COC walks the cells of a cluster from the fullest on, until every column has a part, and publishes
these parts; COC_HG publishes the lowest node of a learnt tree above them. MICRO publishes each
column's most frequent part. Every class is as large as its cluster, so that the table is
k-anonymous on all columns, for k the smallest cluster. Part of the rows is published with values
that they do not have: `misreported` says how many.

The thesis leaves open which of equal cells comes first (here the one of the lower number), and
empty cells (which are never reached: the cells that are not empty hold all columns). It prints
bounds for its third class that differ from those of its grid (]0.8,1.65] for ]0.867,1.6]), and once
calls synthetic rows worse than these classes, against its figures.

SYNTH draws synthetic rows, column by column within a cluster. In cluster g, value v of a column, in
group p of parts, has the weight
`(n_v / N_p) (N_gp / N_g)`; the weights of a column's values are divided by their sum. Only the
counts of the grid and of the parts are read, no row. It is no differential privacy, and a row that
is drawn may equal a real one. The thesis finds that nobody can tell drawn rows from real ones: its
classifier, a naive Bayes, cannot see that columns were drawn apart; that of
`disclosure.rows.comparison.origin_test` can.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from disclosure.anonymize import Hierarchy
from disclosure.co_clustering.grid import GroupGrid
from disclosure.co_clustering.recoding import Intervals, Parts, Recoded
from disclosure.errors import TableError
from disclosure.typing import Booleans, Floats, Integers
from rappor_core.errors import shown


@dataclass(frozen=True)
class ClusterClasses:
    """The published rows, one for each cluster.

    of_row: (n,) the cluster of each row. holds: (clusters, parts) True for the parts that a
    cluster's row represents. labels: by column, the published text of each cluster.
    """

    recoded: Recoded
    of_row: Integers
    holds: Booleans
    labels: Mapping[str, tuple[str, ...]]

    @cached_property
    def counts(self) -> Integers:
        """Return the number of rows of each class, (clusters,)."""
        return np.bincount(self.of_row)

    @cached_property
    def misreported(self) -> dict[str, float]:
        """For each column, the share of rows whose own part is not among the published ones."""
        hits = self.holds[self.of_row[:, None], self.recoded.codes]
        shares = 1 - hits.mean(axis=0)
        return dict(zip(self.recoded.parts, shares.tolist(), strict=True))

    def to_table(self) -> dict[str, list[str]]:
        """Return the published rows in the order of the original ones, by column."""
        return {
            name: [labels[cluster] for cluster in self.of_row.tolist()]
            for name, labels in self.labels.items()
        }


def generalize_clusters(
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
        parts = recoded.parts_of(column)
        best = counts[:, list(parts)].argmax(axis=1) + parts.start
        holds[np.arange(len(counts)), best] = True
    return _classes(grid, holds, None)


def _column_of_part(recoded: Recoded) -> Integers:
    return np.repeat(np.arange(len(recoded.parts)), np.diff(recoded.starts))


def _classes(
    grid: GroupGrid, holds: Booleans, trees: Mapping[str, Hierarchy] | None
) -> ClusterClasses:
    recoded, labels = grid.recoded, {}
    for column, (name, kind) in enumerate(recoded.parts.items()):
        columns = slice(recoded.starts[column], recoded.starts[column + 1])
        chosen = [np.flatnonzero(line).tolist() for line in holds[:, columns]]
        if trees is None:
            labels[name] = tuple(kind.group_label(parts) for parts in chosen)
            continue
        nodes = [_lowest_above(trees[name], parts) for parts in chosen]
        labels[name] = tuple(trees[name].labels[node] for node in nodes)
        holds[:, columns] = trees[name].leaves[nodes]
    return ClusterClasses(recoded, grid.partition.rows, holds, labels)


def _lowest_above(tree: Hierarchy, parts: list[int]) -> int:
    """Return the lowest common ancestor of some leaves."""
    node = int(tree.encode([tree.paths[parts[0]][0]])[0])
    for part in parts[1:]:
        node = int(tree.fusions[node, tree.encode([tree.paths[part][0]])[0]])
    return node


def value_shares(grid: GroupGrid, cluster: int) -> dict[str, Floats]:
    """For each column, the probability of each of its values in a cluster of rows."""
    counts, groups = grid.counts[cluster], grid.partition.parts
    of_group = grid.counts.sum(axis=0)
    weights = grid.recoded.part_counts / of_group[groups] * counts[groups]
    shares = {}
    for column, name in enumerate(grid.recoded.parts):
        masses = weights[list(grid.recoded.parts_of(column))]
        shares[name] = masses / masses.sum()
    return shares


def synthesize(grid: GroupGrid, rng: np.random.Generator) -> dict[str, list[str]]:
    """Draw as many rows as the table has, from each cluster as many as it holds.

    Each column is drawn on its own. The rows are shuffled, so that their order reveals no cluster.
    The thesis's "k" of a grid is the size of its smallest cluster: a number of persons who share a
    density, not a guarantee. Give a generator that is seeded by the system, and use it once.
    """
    codes = np.empty_like(grid.recoded.codes)
    filled = 0
    for cluster, size in enumerate(grid.cluster_sizes.tolist()):
        for column, shares in enumerate(value_shares(grid, cluster).values()):
            drawn = rng.choice(len(shares), size, p=shares)
            codes[filled : filled + size, column] = drawn + grid.recoded.starts[column]
        filled += size
    return grid.recoded.labels_of(rng.permutation(codes))


def draw_numbers(
    rows: Mapping[str, Sequence[str]],
    parts: Mapping[str, Parts],
    ranges: Mapping[str, tuple[float, float]],
    rng: np.random.Generator,
) -> dict[str, list[str]]:
    """Replace each interval in drawn rows by a number drawn evenly within it.

    ranges: by column of numbers, its declared least and greatest number, which end the outer
        intervals: those of the data would tell of two persons. Where they and all cuts are whole,
        so are the numbers.

    Raises TableError for a column without intervals, and a range that its cuts leave.
    """
    drawn = {name: list(values) for name, values in rows.items()}
    for name, (low, high) in ranges.items():
        kind = parts.get(name)
        if not isinstance(kind, Intervals):
            raise TableError(f"column {shown(name)} has no intervals to draw numbers in")
        if not low <= min(kind.cuts, default=low) <= max(kind.cuts, default=low) < high:
            raise TableError(
                f"the range {low:g} to {high:g} of {shown(name)} does not hold its cuts"
            )
        whole = all(float(edge).is_integer() for edge in (low, *kind.cuts, high))
        edges = np.array([low - whole, *kind.cuts, high])
        place = {label: index for index, label in enumerate(kind.labels)}
        at = np.array([place[label] for label in rows[name]], dtype=np.int64)
        above, upto = edges[at], edges[at + 1]
        numbers = np.floor(rng.uniform(above, upto)) + 1 if whole else rng.uniform(above, upto)
        drawn[name] = [f"{number:.15g}" for number in numbers.tolist()]
    return drawn
