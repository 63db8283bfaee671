"""The cost of a grid, greedy merges of its groups, and moves of values between them.

Two axes of categories with V1 and V2 values and N pairs; I and J groups of values; G = I J cells:

    log V1 + log V2 + log B(V1, I) + log B(V2, J) + log C(N + G - 1, G - 1)
    + sum_i log C(N_i + m_i - 1, m_i - 1) + sum_j (the same)
    + log N! - sum_ij log N_ij! + sum_i log N_i! - sum_v log n_v! + sum_j log N_j! - sum_w log n_w!

B(V, I) is the number of partitions of V values into I groups at most, m_i the number of values of
group i, N_i its pairs, n_v the pairs of a value (after Boullé, "Data grid models for preparation
and modeling in supervised learning", 2011). The thesis uses this cost without printing it. The
change of cost of every pair is stored in one matrix for each axis and updated after a merge: O(I^2
+ J^2) per merge. The part that depends only on I and J is the same for all pairs of an axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import gammaln

from disclosure.typing import Booleans, Floats, Integers

# the change of the total cost, the axis, and the indices of two groups, the lower index first
Option: TypeAlias = tuple[float, int, int, int]
_MIN_GAIN = 1e-7  # nats, minimum gain of a move


def log_partitions(num_values: int, most_groups: int) -> Floats:
    """Return log B(num_values, i), i = 0..most_groups: partitions into at most i groups.

    log B(V, 0) is minus infinity. The recursion S(n, i) = i S(n-1, i) + S(n-1, i-1) is computed on
    logarithms, since all terms are positive. Time O(num_values * most_groups)."""
    with np.errstate(divide="ignore"):
        sizes = np.log(np.arange(most_groups + 1))
    stirling = np.full(most_groups + 1, -np.inf)
    stirling[0] = 0.0
    for _ in range(num_values):
        stirling[1:] = np.logaddexp(sizes[1:] + stirling[1:], stirling[:-1])
        stirling[0] = -np.inf
    total: Floats = np.logaddexp.accumulate(stirling)
    return total


class GridCost:
    """The cost of grids over one table of pairs.

    `log_factorials` is log n! for every n that two groups, or one counted twice, can contain."""

    def __init__(
        self,
        totals: tuple[Integers, Integers],
        most_groups: tuple[int, int],
    ) -> None:
        """Prepare tables from the pairs of each value of both axes, and the maximum I and J."""
        self.num_pairs = int(totals[0].sum())
        self.num_values = (len(totals[0]), len(totals[1]))
        self.log_factorials: Floats = gammaln(
            np.arange(1, 2 * (self.num_pairs + max(self.num_values)) + 2, dtype=float)
        )
        self._partitions = tuple(map(log_partitions, self.num_values, most_groups))
        self._data = self.log_factorials[self.num_pairs] - sum(
            float(self.log_factorials[total].sum()) for total in totals
        )

    def prior(self, num_rows: int, num_columns: int) -> float:
        """Return the part of the cost, in nats, that depends only on the numbers of groups."""
        cells, pairs = num_rows * num_columns, self.num_pairs
        cost = sum(np.log(self.num_values))
        cost += self._partitions[0][num_rows] + self._partitions[1][num_columns]
        cost += gammaln(pairs + cells) - gammaln(cells) - gammaln(pairs + 1)
        return float(cost)

    def groups(self, sizes: Integers, totals: Integers) -> Floats:
        """Return the cost of groups of an axis with m_i values (`sizes`) and N_i pairs (`totals`).

        It is log C(N_i + m_i - 1, m_i - 1) + log N_i!."""
        costs: Floats = self.log_factorials[totals + sizes - 1] - self.log_factorials[sizes - 1]
        return costs

    def total(self, counts: Integers, sizes: Sequence[Integers]) -> float:
        """Return the cost of a grid with counts (I, J); groups contain (I,) and (J,) values."""
        cost = self.prior(*counts.shape) + self._data - self.log_factorials[counts].sum()
        for axis in (0, 1):
            cost += self.groups(sizes[axis], counts.sum(axis=1 - axis)).sum()
        return float(cost)

    def joint(self, first: Integers, second: Integers) -> Floats:
        """Return the gain log C(a + b, a) of merging two cells with counts a and b."""
        table = self.log_factorials
        gains: Floats = table[first + second] - table[first] - table[second]
        return gains


@dataclass(frozen=True)
class Partition:
    """The group of each value of both axes, numbered from 0 without gaps."""

    rows: Integers
    parts: Integers

    @property
    def axes(self) -> tuple[Integers, Integers]:
        """The groups of the rows and the groups of the parts."""
        return self.rows, self.parts


@dataclass(frozen=True)
class Merge:
    """A merge of groups `kept` and `taken` of an axis (0: rows, 1: parts), and the resulting cost.

    The result is `kept`. Groups keep the numbers that they had before the first merge."""

    axis: int
    kept: int
    taken: int
    cost: float


class Agglomeration:
    """A grid that is merged step by step, from its groups down to one cell."""

    def __init__(self, cost: GridCost, counts: Integers, sizes: tuple[Integers, Integers]) -> None:
        """Start with the pairs of each cell (I, J), and the values of each group, (I,) and (J,)."""
        self.cost = cost
        self.counts = counts.copy()
        self.sizes = [size.copy() for size in sizes]
        self.totals = [counts.sum(axis=1 - axis) for axis in (0, 1)]
        self.names = [np.arange(length) for length in counts.shape]
        # [a, b]: the change of cost, without the prior, if a and b are merged; infinite for a = b
        self.changes = [
            np.array([self._changes_of(axis, place) for place in range(length)])
            for axis, length in enumerate(counts.shape)
        ]
        self.total = cost.total(counts, sizes)

    def run(self, most_rows: int = 1) -> list[Merge]:
        """Merge until one cell is left, or at most `most_rows` groups of rows."""
        merges = []
        while self.counts.size > 1 and (most_rows == 1 or len(self.counts) > most_rows):
            merges.append(self._step())
        return merges

    def merge_small_rows(self, k: int) -> list[Merge]:
        """Merge groups of fewer than k rows, cheapest first; groups of parts do not change.

        k is at most the number of rows."""
        merges = []
        while (small := self.sizes[0] < k).any():
            merges.append(self._step([self._cheapest(0, small)]))
        return merges

    def _step(self, options: list[Option] | None = None) -> Merge:
        axes = [axis for axis in (0, 1) if self.counts.shape[axis] > 1]
        change, axis, first, second = min(options or map(self._cheapest, axes))
        into, group = (int(self.names[axis][place]) for place in (first, second))
        self.total += change
        self._merge(axis, first, second)
        return Merge(axis, into, group, self.total)

    def _cheapest(self, axis: int, among: Booleans | None = None) -> Option:
        """Return the cheapest merge of an axis in which one group is in `among` (groups,)."""
        length = self.counts.shape[axis]
        chosen = np.arange(length) if among is None else np.flatnonzero(among)
        line, other = divmod(int(self.changes[axis][chosen].argmin()), length)
        ends = int(chosen[line]), other
        shape = [length - (axis == side) for side, length in enumerate(self.counts.shape)]
        change = float(self.changes[axis][ends])
        change += self.cost.prior(*shape) - self.cost.prior(*self.counts.shape)
        return change, axis, min(ends), max(ends)

    def _changes_of(self, axis: int, place: int) -> Floats:
        lines = self._lines(axis)
        sizes, totals = self.sizes[axis], self.totals[axis]
        alone = self.cost.groups(sizes, totals)
        both = self.cost.groups(sizes + sizes[place], totals + totals[place])
        changes: Floats = both - alone - alone[place]
        changes -= self.cost.joint(lines, lines[place]).sum(axis=1)
        changes[place] = np.inf
        return changes

    def _lines(self, axis: int) -> Integers:
        return self.counts if axis == 0 else self.counts.T

    def _merge(self, axis: int, first: int, second: int) -> None:
        lines = self._lines(axis)
        old = self._pair_gain(lines[first]) + self._pair_gain(lines[second])
        lines[first] += lines[second]
        self.changes[1 - axis] += old - self._pair_gain(lines[first])
        self.counts = np.delete(self.counts, second, axis=axis)
        changes = np.delete(self.changes[axis], second, axis=0)
        self.changes[axis] = np.delete(changes, second, axis=1)
        for numbers in (self.sizes, self.totals):
            numbers[axis][first] += numbers[axis][second]
        for several in (self.sizes, self.totals, self.names):
            several[axis] = np.delete(several[axis], second)
        if self.counts.shape[axis] > 1:
            fresh = self._changes_of(axis, first)
            self.changes[axis][first] = fresh
            self.changes[axis][:, first] = fresh

    def _pair_gain(self, line: Integers) -> Floats:
        """Return a matrix [p, q]: the gain if cells p and q of one line of cells are merged."""
        gains = self.cost.joint(line[:, None], line[None, :])
        np.fill_diagonal(gains, 0.0)
        return gains


def best_cut(start: float, merges: Sequence[Merge]) -> int:
    """Return the number of merges with the lowest cost; the smallest if tied."""
    costs = np.array([start, *(merge.cost for merge in merges)])
    return int(costs.argmin())


def merged(partition: Partition, merges: Sequence[Merge]) -> Partition:
    """Return the partition after some merges, with groups renumbered in order."""
    groups = []
    for axis, values in enumerate(partition.axes):
        into = np.arange(values.max() + 1)
        for merge in merges:
            if merge.axis == axis:
                into[into == merge.taken] = merge.kept
        groups.append(np.unique(into[values], return_inverse=True)[1].ravel())
    return Partition(*groups)


class AxisMoves:
    """Moves of rows (or parts) between their groups, while the other axis is fixed.

    An item is one value, or several equal values that move together. No move leaves a group with
    fewer values than `least`; only merges can empty groups."""

    def __init__(
        self,
        cost: GridCost,
        profiles: csr_matrix,
        weights: Integers,
        groups: Integers,
        least: int = 1,
    ) -> None:
        """Start at `groups` (items,), which is changed in place.

        `profiles` (items, J) are the pairs of each item in the groups of the other axis, `weights`
        (items,) the number of values of each item."""
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
        """Move every item once if that reduces the cost; return the change in cost, 0 or less.

        Each move is first evaluated as if it were the only move. Useful moves are then made in
        sequence, and each is evaluated again in the current state."""
        changes = self._all_changes()
        helps = np.flatnonzero(changes < -_MIN_GAIN)
        order = helps[np.argsort(changes[helps], kind="stable")]
        return sum(self._move(int(item)) for item in order)

    def _all_changes(self) -> Floats:
        """Return the change in cost from the best single move of each item, (items,)."""
        table = self.cost.log_factorials
        homes = self.groups
        of_home = self.counts[np.repeat(homes, np.diff(self.starts)), self.cells]
        leaving = np.add.reduceat(table[of_home] - table[of_home - self.pairs], self.starts[:-1])
        sizes, totals = self.sizes[homes], self.totals[homes]
        stays = sizes - self.weights < self.least
        rest = np.maximum(sizes - self.weights, 1)
        leaving += self.cost.groups(rest, totals - self.item_totals)
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
        cells, profile = self.cells[part], self.pairs[part]
        self._shift(home, cells, -profile, -weight)
        changes = self._changes(cells, profile, weight)
        best = int(changes.argmin())
        if changes[best] > changes[home] - _MIN_GAIN:
            best = int(home)
        self._shift(best, cells, profile, weight)
        self.groups[item] = best
        return float(changes[best] - changes[home])

    def _changes(self, columns: Integers, profile: Integers, weight: int) -> Floats:
        """Return the change in cost if an item joins each group, (I,)."""
        table = self.cost.log_factorials
        cells = self.counts[:, columns]
        changes: Floats = (table[cells] - table[cells + profile]).sum(axis=1)
        changes += self.cost.groups(self.sizes + weight, self.totals + profile.sum())
        changes -= self.cost.groups(self.sizes, self.totals)
        return changes

    def _shift(self, group: int, columns: Integers, profile: Integers, weight: int) -> None:
        self.counts[group, columns] += profile
        self.sizes[group] += weight
        self.totals[group] += profile.sum()
