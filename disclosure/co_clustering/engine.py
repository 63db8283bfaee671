"""Co-clustering by the MODL cost: start, greedy merges, post-optimization, and the dendrogram.

In a small table, every distinct row and every part starts as a separate group. In a larger table,
distinct rows are first gathered into a few hundred groups with similar parts, by a mixture of
products with hard assignments: each group has shares of parts, and each row is assigned to the
group under which it is most likely."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix

from disclosure.anonymize.diversity import DiversityRule, value_counts
from disclosure.co_clustering.grid import (
    CoClustering,
    GroupGrid,
    count_cells,
)
from disclosure.co_clustering.merges import (
    Agglomeration,
    AxisMoves,
    GridCost,
    Merge,
    Partition,
    best_cut,
    merged,
)
from disclosure.co_clustering.recoding import Recoded
from disclosure.errors import TableError
from disclosure.typing import Integers
from rappor_core.errors import shown

_ROUNDS = 6
_PRIOR = 0.5  # pairs added to each part of a group, so that no share is 0
MAX_GROUPS = 400  # the maximum number of row groups at the start
MAX_PARTS = 1_500  # the cost changes of all pairs of parts are kept in memory
_PASSES = 20  # maximum passes of moves
_FIRST_MOVES = 150  # groups of rows at which moves between merges begin
_FEWER = 0.8  # the factor on groups of rows from one round of moves to the next
_PATIENCE = 4  # rounds without a lower cost
_MIN_GAIN = 1e-6  # nats


def gather(pairs: csr_matrix, num_groups: int, rng: np.random.Generator) -> Integers:
    """Assign each distinct row to a group, numbered from 0 without gaps.

    Args:
        pairs: The count of each part in each row, (rows, parts).
        num_groups: The maximum number of groups, whose first members are drawn.
        rng: The random generator.
    """
    seeds = rng.choice(pairs.shape[0], num_groups, replace=False)
    profiles = pairs[seeds].toarray().astype(float)
    profiles /= profiles.max(axis=1, keepdims=True)
    groups = np.zeros(pairs.shape[0], dtype=np.int64)
    for _ in range(_ROUNDS):
        shares = profiles + _PRIOR * pairs.mean(axis=0).A1 / pairs.mean()
        shares = np.log(shares / shares.sum(axis=1, keepdims=True))
        groups = np.asarray((pairs @ shares.T).argmax(axis=1))
        members = csr_matrix(
            (np.ones(len(groups)), groups, np.arange(len(groups) + 1)),
            shape=(len(groups), len(profiles)),
        )
        profiles = (members.T @ pairs).toarray()
    return np.unique(groups, return_inverse=True)[1].ravel()


def co_cluster(recoded: Recoded, *, seed: int = 0, starts: int = 1) -> CoClustering:
    """Group rows and parts to minimize the MODL cost approximately, by greedy merges.

    Args:
        recoded: The pairs.
        seed: The seed of the first groups of a large table, which makes the result reproducible.
        starts: The number of attempts with different initial groups; the cheapest result is used.
            Tables with at most MAX_GROUPS distinct rows need only one start.

    Raises:
        TableError: There are no starts, or more than MAX_PARTS parts.
    """
    if starts < 1:
        raise TableError(f"a co-clustering needs at least one start, not {starts}")
    if recoded.num_parts > MAX_PARTS:
        lengths = {name: len(kind.labels) for name, kind in recoded.parts.items()}
        most = max(lengths, key=lengths.__getitem__)
        raise TableError(
            f"{recoded.num_parts} values and intervals, at most {MAX_PARTS}: leave column "
            f"{shown(most)} out, which has {lengths[most]}, or cut it into intervals"
        )
    rng = np.random.default_rng(seed)
    search = Search(recoded)
    tries = starts if len(search.weights) > MAX_GROUPS else 1
    results = [search.improve(search.first(rng)) for _ in range(tries)]
    best, _ = min(results, key=_second)
    return search.with_dendrogram(Partition(best.rows[search.of_row], best.parts))


def merge_small_clusters(model: CoClustering, k: int) -> GroupGrid:
    """Merge each cluster with fewer than k rows with the cheapest other cluster, then move rows.

    Groups of parts do not change, and no move leaves a cluster with fewer than k rows. The thesis
    truncates the dendrogram instead, which also merges groups of parts and large clusters. Raises
    TableError if there are fewer than k rows, or k is below 1."""
    if not 1 <= k <= model.recoded.num_rows:
        raise TableError(f"k must be in 1 to {model.recoded.num_rows} (the rows), not {k}")
    search = Search(model.recoded, int(model.partition.rows.max()) + 1)
    counts = model.finest.counts
    sizes = np.bincount(model.partition.rows), np.bincount(model.partition.parts)
    merges = Agglomeration(search.cost, counts, sizes).merge_small_rows(k)
    rows = merged(model.partition, merges).rows
    is_by_class = (rows == rows[search.first_of_class][search.of_row]).all()
    if merges and is_by_class:
        rows = search.move_rows(rows, model.partition.parts, k)
    grid = GroupGrid(model.recoded, Partition(rows, model.partition.parts))
    cost = search.cost.total(grid.counts, (grid.cluster_sizes, sizes[1]))
    return replace(grid, information=model.information(cost))


def merge_until_diverse(model: CoClustering, k: int, column: str, rule: DiversityRule) -> GroupGrid:
    """Merge clusters as `merge_small_clusters` does, until each meets a rule for one column.

    Raises TableError if the column is missing, or if even a single cluster of all rows violates the
    rule."""
    names = list(model.recoded.parts)
    if column not in names:
        raise TableError(f"no column {shown(column)}; the columns are {shown(names)}")
    values = model.recoded.codes[:, names.index(column)].astype(str).tolist()
    rule.check(values)
    while True:
        grid = merge_small_clusters(model, k)
        counts = value_counts(grid.partition.rows, values)
        law = counts.sum(axis=0) / counts.sum()
        failing = [size for size, count in zip(grid.cluster_sizes, counts, strict=True)
                   if not rule.is_met(count, law)]  # fmt: skip
        if not failing:
            return grid
        k = int(min(failing)) + 1


@dataclass
class Search:
    """The search for the cheapest grid, with the data that all candidate grids share."""

    recoded: Recoded
    most_groups: int = MAX_GROUPS

    def __post_init__(self) -> None:
        self.distinct, self.of_row, self.weights = self.recoded.classes
        classes, columns = self.distinct.shape
        self.first_of_class = np.zeros(classes, dtype=np.int64)
        self.first_of_class[self.of_row] = np.arange(len(self.of_row))
        ones = np.repeat(self.weights, columns)
        starts = np.arange(0, classes * columns + 1, columns)
        self.pairs = csr_matrix(
            (ones, self.distinct.ravel(), starts), shape=(classes, self.recoded.num_parts)
        )
        row_totals = np.full(self.recoded.num_rows, columns)
        most = min(max(self.most_groups, 1), self.recoded.num_rows)
        self.cost = GridCost((row_totals, self.recoded.part_counts), (most, self.recoded.num_parts))

    def first(self, rng: np.random.Generator) -> Partition:
        """Return the initial groups of distinct rows and of parts."""
        classes = len(self.weights)
        few = classes <= self.most_groups
        rows = np.arange(classes) if few else gather(self.pairs, self.most_groups, rng)
        return Partition(rows, np.arange(self.recoded.num_parts))

    def improve(self, start: Partition) -> tuple[Partition, float]:
        """Merge and move alternately until the cost no longer decreases.

        Merges cannot be undone, so the first groups of one axis are merged again under the groups
        that were found for the other axis."""
        best, cost = min(self._merge(start), self._descend(start), key=_second)
        few = len(self.weights) <= self.most_groups
        while True:
            moved = self._move(best, _PASSES)
            tries = [moved, Partition(moved.rows, start.parts)]
            tries += [Partition(start.rows, moved.parts)] if few else []
            after_merge, after = min(map(self._merge, tries), key=_second)
            if after > cost - _MIN_GAIN:
                return best, cost
            best, cost = after_merge, after

    def _descend(self, start: Partition) -> tuple[Partition, float]:
        """Merge step by step into fewer row groups, moving some rows after each step."""
        partition, num_groups = start, _FIRST_MOVES
        best, rounds = (start, np.inf), 0
        while num_groups > 1 and rounds < _PATIENCE:
            agglomeration = Agglomeration(self.cost, *self._grid(partition))
            merges = agglomeration.run(num_groups)
            partition = self._move(merged(partition, merges), 3)
            cost = self.cost.total(*self._grid(partition))
            rounds = 0 if cost < best[1] else rounds + 1
            best = min(best, (partition, cost), key=_second)
            num_groups = int(num_groups * _FEWER)
        return best

    def with_dendrogram(self, partition: Partition) -> CoClustering:
        """Return the result, including the merges from its groups to a single cell."""
        counts = count_cells(self.recoded, partition)
        sizes = (np.bincount(partition.rows), np.bincount(partition.parts))
        start = self.cost.total(counts, sizes)
        merges = tuple(Agglomeration(self.cost, counts, sizes).run())
        return CoClustering(self.recoded, partition, start, merges)

    def move_rows(self, rows: Integers, parts: Integers, least: int) -> Integers:
        """Move rows between groups while the cost falls, leaving at least `least` rows in each.

        Returns the groups of all rows, (n,)."""
        groups = rows[self.first_of_class].copy()
        profiles = self._by_parts(parts)
        for _ in range(_PASSES):
            moves = AxisMoves(self.cost, profiles, self.weights, groups, least)
            if moves.pass_over() > -_MIN_GAIN:
                break
        of_rows: Integers = groups[self.of_row]
        return of_rows

    def _merge(self, partition: Partition) -> tuple[Partition, float]:
        counts, sizes = self._grid(partition)
        start = self.cost.total(counts, sizes)
        merges: list[Merge] = Agglomeration(self.cost, counts, sizes).run()
        cut = best_cut(start, merges)
        return merged(partition, merges[:cut]), ([start] + [m.cost for m in merges])[cut]

    def _move(self, partition: Partition, passes: int) -> Partition:
        rows, parts = partition.rows.copy(), partition.parts.copy()
        ones = np.ones(len(parts), dtype=np.int64)
        for _ in range(passes):
            by_rows = AxisMoves(self.cost, self._by_parts(parts), self.weights, rows).pass_over()
            by_parts = AxisMoves(self.cost, self._by_rows(rows), ones, parts).pass_over()
            if by_rows + by_parts > -_MIN_GAIN:
                break
        return Partition(rows, parts)

    def _by_parts(self, parts: Integers) -> csr_matrix:
        """Count the pairs of each class of rows in each group of parts, (classes, J)."""
        return csr_matrix(self.pairs @ _indicator(parts))

    def _by_rows(self, rows: Integers) -> csr_matrix:
        """Count the pairs of each part in each group of rows, (parts, I)."""
        return csr_matrix(self.pairs.T @ _indicator(rows))

    def _grid(self, partition: Partition) -> tuple[Integers, tuple[Integers, Integers]]:
        counts = _indicator(partition.rows).T @ self._by_parts(partition.parts)
        sizes = np.bincount(partition.rows, weights=self.weights).astype(np.int64)
        return counts.toarray(), (sizes, np.bincount(partition.parts))


def _second(pair: tuple[Partition, float]) -> float:
    return pair[1]


def _indicator(groups: Integers) -> csr_matrix:
    length = len(groups)
    ones = np.ones(length, dtype=np.int64)
    return csr_matrix((ones, groups, np.arange(length + 1)), shape=(length, int(groups.max()) + 1))
