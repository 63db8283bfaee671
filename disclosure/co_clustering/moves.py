"""Post-optimization: move a value to another group where that lowers the cost, until none does."""

import numpy as np
from scipy.sparse import csr_matrix

from disclosure.co_clustering.merges import GridCost
from disclosure.typing import Floats, Integers

_MIN_GAIN = 1e-7  # nats


class AxisMoves:
    """Moves of rows (or parts) between their groups, while the groups of the other axis stay as
    they are.

    An item is one value, or several equal ones that move together. No move leaves a group with
    fewer values than `least`: emptying groups is for merges.
    """

    def __init__(
        self,
        cost: GridCost,
        profiles: csr_matrix,
        weights: Integers,
        groups: Integers,
        least: int = 1,
    ) -> None:
        """profiles: (items, J) pairs of each item in the groups of the other axis. weights:
        (items,) values of each. groups: (items,) where they are; changed in place."""
        self.cost = cost
        self.cells = profiles.indices.astype(np.int64)
        self.pairs = profiles.data
        self.starts = profiles.indptr
        self.item_totals = np.add.reduceat(self.pairs, self.starts[:-1])
        self.weights = weights
        self.groups = groups
        self.least = least
        length = int(groups.max()) + 1
        self.counts = np.zeros((length, profiles.shape[1]), dtype=np.int64)
        of_pair = np.repeat(groups, np.diff(self.starts))
        np.add.at(self.counts, (of_pair, self.cells), self.pairs)
        self.sizes = np.bincount(groups, weights=weights).astype(np.int64)
        self.totals = self.counts.sum(axis=1)

    def pass_over(self) -> float:
        """Move every item once for which that helps. Returns the change of cost, 0 or less.

        The change of each move is first computed as if it were the only one; those that help are
        then made one after the other, each judged again where it finds the others.
        """
        changes = self._all_changes()
        helps = np.flatnonzero(changes < -_MIN_GAIN)
        order = helps[np.argsort(changes[helps], kind="stable")]
        return sum(self._move(int(item)) for item in order)

    def _all_changes(self) -> Floats:
        """(items,) the change of cost of the best single move of each item."""
        table = self.cost.log_factorials
        homes = self.groups
        of_home = self.counts[np.repeat(homes, np.diff(self.starts)), self.cells]
        leaving = np.add.reduceat(table[of_home] - table[of_home - self.pairs], self.starts[:-1])
        sizes, totals = self.sizes[homes], self.totals[homes]
        stays = sizes - self.weights < self.least
        left = np.maximum(sizes - self.weights, 1)
        leaving += self.cost.groups(left, totals - self.item_totals)
        leaving -= self.cost.groups(sizes, totals)
        best = np.full(len(homes), np.inf)
        for group, counts in enumerate(self.counts):
            cells = counts[self.cells]
            joining = np.add.reduceat(table[cells] - table[cells + self.pairs], self.starts[:-1])
            size, total = self.sizes[group], self.totals[group]
            joining += self.cost.groups(size + self.weights, total + self.item_totals)
            joining -= self.cost.groups(self.sizes, self.totals)[group]
            np.minimum(best, np.where(homes == group, np.inf, joining), out=best)
        return np.where(stays, 0.0, best + leaving)

    def _move(self, item: int) -> float:
        home, weight = self.groups[item], self.weights[item]
        if self.sizes[home] - weight < self.least:
            return 0.0
        part = slice(self.starts[item], self.starts[item + 1])
        shown, profile = self.cells[part], self.pairs[part]
        self._shift(home, shown, -profile, -weight)
        changes = self._changes(shown, profile, weight)
        best = int(changes.argmin())
        if changes[best] > changes[home] - _MIN_GAIN:
            best = int(home)
        self._shift(best, shown, profile, weight)
        self.groups[item] = best
        return float(changes[best] - changes[home])

    def _changes(self, shown: Integers, profile: Integers, weight: int) -> Floats:
        """(I,) the change of cost if an item joins each group."""
        table = self.cost.log_factorials
        cells = self.counts[:, shown]
        found: Floats = (table[cells] - table[cells + profile]).sum(axis=1)
        found += self.cost.groups(self.sizes + weight, self.totals + profile.sum())
        found -= self.cost.groups(self.sizes, self.totals)
        return found

    def _shift(self, group: int, shown: Integers, profile: Integers, weight: int) -> None:
        self.counts[group, shown] += profile
        self.sizes[group] += weight
        self.totals[group] += profile.sum()
