"""The result of a co-clustering: a grid of row groups by part groups, and coarser grids."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from disclosure.co_clustering.merges import Merge, Partition, merged
from disclosure.co_clustering.recoding import Recoded
from disclosure.typing import Integers


@dataclass(frozen=True)
class GroupGrid:
    """A grid of groups of rows by groups of parts."""

    recoded: Recoded
    partition: Partition
    # The grid's fraction, in [0, 1], of the finest grid's information gain over one cell
    information: float = 1.0

    @cached_property
    def counts(self) -> Integers:
        """The number of pairs in each cell, (I, J)."""
        return count_cells(self.recoded, self.partition)

    @cached_property
    def cluster_sizes(self) -> Integers:
        """The number of rows in each cluster, (I,)."""
        return np.bincount(self.partition.rows)

    @property
    def smallest(self) -> int:
        """The number of rows in the smallest cluster."""
        return int(self.cluster_sizes.min())

    def parts_in(self, group: int) -> list[tuple[str, str]]:
        """Return the column and label of each part in a group of parts."""
        names = self.recoded.part_names
        return [names[part] for part in np.flatnonzero(self.partition.parts == group)]


@dataclass(frozen=True)
class CoClustering:
    """The finest grid found by the search, and the merges from it to one cell."""

    recoded: Recoded
    partition: Partition  # The groups of the rows, (n,), and of the parts
    cost: float  # In nats
    merges: tuple[Merge, ...]  # In order

    @property
    def null_cost(self) -> float:
        """The cost of one cell, in nats."""
        return self.merges[-1].cost if self.merges else self.cost

    @property
    def finest(self) -> GroupGrid:
        """The grid with the lowest cost."""
        return self.after(0)

    def after(self, num_merges: int) -> GroupGrid:
        """Return the grid after the first `num_merges` merges."""
        cost = self.merges[num_merges - 1].cost if num_merges else self.cost
        partition = merged(self.partition, self.merges[:num_merges])
        return GroupGrid(self.recoded, partition, self.information(cost))

    def information(self, cost: float) -> float:
        """Return the share (0 to 1) of the finest grid's gain over one cell at the given cost."""
        gain = self.null_cost - self.cost
        return (self.null_cost - cost) / gain if gain > 0 else 0.0


def count_cells(recoded: Recoded, partition: Partition) -> Integers:
    """Count the pairs in each cell, (I, J)."""
    shape = tuple(int(axis.max()) + 1 for axis in partition.axes)
    cells = partition.rows[:, None] * shape[1] + partition.parts[recoded.codes]
    return np.bincount(cells.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
