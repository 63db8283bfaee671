"""The publishable forms of a co-clustering: COC, COC_HG, MICRO and SYNTH.

COC visits the cells of a cluster, fullest first, until every column has a part, and publishes these
parts; COC_HG publishes the lowest node of a learned tree above them. MICRO publishes each column's
most frequent part. Every class is as large as its cluster, so the table is k-anonymous on all
columns, where k is the size of the smallest cluster. Some rows are published with values that they
do not have; `misreported` is their fraction.

The thesis does not define the order of equal cells (here the lower number is first), and of empty
cells (which are never reached, since nonempty cells cover all columns). Its printed bounds for the
third class differ from its grid (]0.8,1.65] for ]0.867,1.6]), and it once calls synthetic rows
worse than these classes, contrary to its own figures.

SYNTH draws synthetic rows, column by column within a cluster. In cluster g, value v of a column, in
group p of parts, has the weight `(n_v / N_p) (N_gp / N_g)`; the weights of a column's values are
divided by their sum. Only the counts of the grid and of the parts are used, not the rows. This is
not differential privacy, and a drawn row may equal a real one. The thesis concludes that drawn rows
cannot be distinguished from real ones. However, its classifier, a naive Bayes, cannot detect that
columns were drawn separately; the classifier of `disclosure.rows.comparison.origin_test` can."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from disclosure.anonymize import Hierarchy
from disclosure.co_clustering.grid import GroupGrid
from disclosure.co_clustering.recoding import Intervals, Parts, Recoded
from disclosure.errors import TableError
from disclosure.files import sorted_rows
from disclosure.typing import Booleans, Floats, Integers
from rappor_core.errors import shown


class Form(StrEnum):
    """The forms in which a co-clustering can be published."""

    NOTHING = "nothing"
    SYNTH = "synth"
    COC = "coc"
    COC_HG = "coc-hg"
    MICRO = "micro"


@dataclass(frozen=True)
class ClusterClasses:
    """The published rows, one for each cluster."""

    recoded: Recoded
    of_row: Integers  # (n,) the cluster of each row
    holds: Booleans  # (clusters, parts) True for the parts that a cluster's row represents
    labels: Mapping[str, tuple[str, ...]]  # By column, the published text of each cluster

    @cached_property
    def counts(self) -> Integers:
        """The number of rows in each class, (clusters,)."""
        return np.bincount(self.of_row)

    @cached_property
    def misreported(self) -> dict[str, float]:
        """For each column, the fraction of rows whose own part is not among the published parts."""
        hits = self.holds[self.of_row[:, None], self.recoded.codes]
        shares = 1 - hits.mean(axis=0)
        return dict(zip(self.recoded.parts, shares.tolist(), strict=True))

    def to_table(self) -> dict[str, list[str]]:
        """Return the published rows in the original order, by column."""
        return {
            name: [labels[cluster] for cluster in self.of_row.tolist()]
            for name, labels in self.labels.items()
        }


def generalize_clusters(
    grid: GroupGrid, trees: Mapping[str, Hierarchy] | None = None
) -> ClusterClasses:
    """Publish clusters as COC, or as COC_HG with learned trees (`LearntHierarchies.trees`)."""
    columns = _column_of_part(grid.recoded)
    holds = np.zeros((len(grid.counts), grid.recoded.num_parts), dtype=bool)
    for cluster, counts in enumerate(grid.counts):
        for group in np.argsort(-counts, kind="stable"):
            holds[cluster, grid.partition.parts == group] = True
            if len(np.unique(columns[holds[cluster]])) == len(grid.recoded.parts):
                break
    return _classes(grid, holds, trees)


def micro_aggregate(grid: GroupGrid) -> ClusterClasses:
    """Publish clusters as MICRO: the most frequent part of each column, the first if tied."""
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
    node = int(tree.encode([tree.paths[parts[0]][0]])[0])
    for part in parts[1:]:
        node = int(tree.fusions[node, tree.encode([tree.paths[part][0]])[0]])
    return node


def value_shares(grid: GroupGrid, cluster: int) -> dict[str, Floats]:
    """Return, for each column, the probability of each value in a cluster of rows."""
    counts, groups = grid.counts[cluster], grid.partition.parts
    of_group = grid.counts.sum(axis=0)
    weights = grid.recoded.part_counts / of_group[groups] * counts[groups]
    shares = {}
    for column, name in enumerate(grid.recoded.parts):
        masses = weights[list(grid.recoded.parts_of(column))]
        shares[name] = masses / masses.sum()
    return shares


def synthesize(grid: GroupGrid, rng: np.random.Generator) -> dict[str, list[str]]:
    """Draw as many rows as the table has, in total and in each cluster.

    Columns are drawn independently. Rows are shuffled, so that their order reveals no cluster. The
    "k" of a grid in the thesis is the size of its smallest cluster: the number of people who share
    a density, not a guarantee. Pass a generator that is seeded by the system, and use it once."""
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
    """Replace each interval in drawn rows with a number drawn uniformly from it.

    Args:
        rows: The drawn rows, by column.
        parts: The parts of each column.
        ranges: The declared minimum and maximum of each number column, which bound the outer
            intervals; the data's own minimum and maximum would reveal two people. If these and all
            cuts are whole, the numbers are whole, too.
        rng: The random generator.

    Raises:
        TableError: A column has no intervals, or its cuts are outside the range.
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


def publish(
    grid: GroupGrid,
    form: Form,
    trees: Mapping[str, Hierarchy],
    ranges: Mapping[str, tuple[float, float]],
) -> tuple[dict[str, list[str]] | None, dict[str, float]]:
    """Return the rows to publish, and for each column the fraction of misreported rows.

    Args:
        grid: The clusters.
        form: The form; `NOTHING` has no rows.
        trees: The learned trees, for `COC_HG`.
        ranges: The ranges of number columns, for `SYNTH`; see `draw_numbers`.
    """
    if form is Form.NOTHING:
        return None, {}
    if form is Form.SYNTH:
        rng = np.random.default_rng()
        return sorted_rows(draw_numbers(synthesize(grid, rng), grid.recoded.parts, ranges, rng)), {}
    if form is Form.MICRO:
        classes = micro_aggregate(grid)
    else:
        classes = generalize_clusters(grid, trees if form is Form.COC_HG else None)
    return sorted_rows(classes.to_table()), classes.misreported
