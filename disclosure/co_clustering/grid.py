"""The result of a co-clustering: a grid of row groups by part groups, and coarser grids."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from disclosure.co_clustering.merges import Merge, Partition, merged
from disclosure.co_clustering.recoding import Recoded
from disclosure.typing import Integers


@dataclass(frozen=True)
class GroupGrid:
    """Groups of rows by groups of parts.

    information: share of the finest grid's information over one cell that this one has, in [0, 1].
    """

    recoded: Recoded
    partition: Partition
    information: float = 1.0

    @cached_property
    def counts(self) -> Integers:
        """Return the number of pairs in each cell, (I, J)."""
        return count_cells(self.recoded, self.partition)

    @cached_property
    def cluster_sizes(self) -> Integers:
        """Return the number of rows of each cluster, (I,)."""
        return np.bincount(self.partition.rows)

    @property
    def smallest(self) -> int:
        """Number of rows of the smallest cluster."""
        return int(self.cluster_sizes.min())

    def parts_in(self, group: int) -> list[tuple[str, str]]:
        """Column and label of each part in a group of parts."""
        names = self.recoded.part_names
        return [names[part] for part in np.flatnonzero(self.partition.parts == group)]


@dataclass(frozen=True)
class CoClustering:
    """The finest grid that the search found, and the merges that lead from it to one cell.

    partition: the groups of the rows (n,) and of the parts. cost: in nats. merges: in order.
    """

    recoded: Recoded
    partition: Partition
    cost: float
    merges: tuple[Merge, ...]

    @property
    def null_cost(self) -> float:
        """The cost of one cell, in nats."""
        return self.merges[-1].cost if self.merges else self.cost

    @property
    def finest(self) -> GroupGrid:
        """The grid of least cost."""
        return self.after(0)

    def after(self, num_merges: int) -> GroupGrid:
        """Return the grid after some merges."""
        cost = self.merges[num_merges - 1].cost if num_merges else self.cost
        partition = merged(self.partition, self.merges[:num_merges])
        return GroupGrid(self.recoded, partition, self.information(cost))

    def information(self, cost: float) -> float:
        """Return the share of the finest grid's gain over one cell that a grid of this cost keeps,
        from 0 to 1."""
        gain = self.null_cost - self.cost
        return (self.null_cost - cost) / gain if gain > 0 else 0.0


def count_cells(recoded: Recoded, partition: Partition) -> Integers:
    """Count the pairs in each cell, (I, J)."""
    shape = tuple(int(axis.max()) + 1 for axis in partition.axes)
    cells = partition.rows[:, None] * shape[1] + partition.parts[recoded.codes]
    return np.bincount(cells.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
