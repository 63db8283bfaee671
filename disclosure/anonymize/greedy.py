"""Greedy anonymization, which repeatedly merges the first class below k with the cheapest class.

It differs from the published program in two ways. Rows that become equal by merging form one class
again (the program may generalize them further needlessly). A last class below k is merged with a
different class (the program merges it with itself and loses it)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from disclosure.anonymize.columns import Columns, Hierarchy, Rows
from disclosure.anonymize.diversity import DiversityRule, value_counts
from disclosure.errors import TableError
from disclosure.typing import Booleans, Floats, Integers

_TIE = 1e-9
SUPPRESSED = -1
NO_RULE = DiversityRule()


@dataclass(frozen=True)
class FusionCosts:
    """The costs `n_i * d(i, parent) + n_j * d(j, parent)` of merging one class i with each j.

    This weighted form is from the program that accompanies the text; the text says only "distance".
    """

    columns: Columns

    @cached_property
    def _tables(self) -> dict[str, tuple[Floats, Floats]]:
        """For each tree column, [a, b]: the distances from a and from b to their merged node."""
        tables = {}
        for name, kind in self.columns.kinds.items():
            if isinstance(kind, Hierarchy):
                fused, nodes = kind.fusions, np.arange(len(kind.labels))
                height = kind.heights[fused] / kind.height * self.columns.weight(name)
                first = np.where(fused == nodes[:, None], 0.0, height)
                second = np.where(fused == nodes[None, :], 0.0, height)
                tables[name] = first, second
        return tables

    def of(self, rows: Rows, counts: Integers, i: int) -> Floats:
        """Return the cost of merging class i with each class, (m,)."""
        first, second = np.zeros(len(rows)), np.zeros(len(rows))
        for name, codes in rows.nodes.items():
            of_first, of_second = self._tables[name]
            first += of_first[codes[i]][codes]
            second += of_second[codes[i]][codes]
        for name, low in rows.low.items():
            high = rows.high[name]
            fused = np.maximum(high, high[i]) - np.minimum(low, low[i])
            width = fused * (self.columns.weight(name) / self.columns.span(name))
            first += np.where(fused == high[i] - low[i], 0.0, width)
            second += np.where(fused == high - low, 0.0, width)
        costs: Floats = counts[i] * first + counts * second
        return costs


@dataclass(frozen=True)
class Anonymized:
    """A table in which every published row appears at least k times."""

    of_row: Integers  # (N,) the class of each row; SUPPRESSED if it is not published
    classes: Rows  # The published classes
    counts: Integers  # (classes,) number of rows in each
    merge_costs: Floats  # The cost of each merge, in order

    @property
    def published(self) -> Booleans:
        """Flags of the published rows, (N,)."""
        flags: Booleans = self.of_row != SUPPRESSED
        return flags

    @property
    def completeness(self) -> float:
        """The share of suppressed rows (the name is the literature's)."""
        return float((~self.published).mean())

    @property
    def leaf_loss(self) -> float:
        """The mean over rows and columns of (leaves below - 1) / (leaves - 1); 1 if suppressed."""
        suppressed = len(self.of_row) - int(self.counts.sum())
        return float((self.counts @ self.classes.leaf_loss() + suppressed) / len(self.of_row))

    def to_table(self) -> dict[str, list[str]]:
        """Return the published rows in the original order, with `*` for suppressed rows."""
        return {
            name: ["*" if c == SUPPRESSED else labels[c] for c in self.of_row.tolist()]
            for name, labels in self.classes.labels().items()
        }


def anonymize(
    table: Mapping[str, Sequence[str]],
    columns: Columns,
    k: int,
    *,
    suppression_budget: float = 0.0,
    sensitive: Sequence[str] | None = None,
    rule: DiversityRule = NO_RULE,
) -> Anonymized:
    """Generalize rows so that every combination of identifying values occurs at least k times.

    Args:
        table: The columns by name; columns not named in `columns` are ignored.
        columns: The tree or range of each identifying column, and weights.
        k: The minimum number of rows in a class. With 2, an attacker's guess is right half of the
            time.
        suppression_budget: The fraction of rows, in [0, 1), that may be suppressed. A class is
            suppressed if merging it costs more than all its rows are worth.
        sensitive: A column (N,) whose values should differ within a class.
        rule: The diversity that every class must have in the sensitive column.

    Raises:
        TableError: There are fewer than k rows, k is below 1, the budget is outside [0, 1), a value
            is not in its tree or range, or the rule cannot be met (possibly after suppression).
    """
    rows = Rows.encode(table, columns)
    if not 1 <= k <= len(rows) or not 0 <= suppression_budget < 1:
        raise TableError(
            f"k must be in 1 to {len(rows)} (the rows), and the suppression budget in [0, 1), not "
            f"{k} and {suppression_budget}"
        )
    first, of_row = rows.distinct()
    counts = np.bincount(of_row).astype(np.int64)
    suppressible = int(suppression_budget * len(rows) + 1e-9)
    values = np.array(counts)[:, None]  # a single value, on which no rule depends
    if sensitive is not None:
        if len(sensitive) != len(rows):
            raise TableError(f"{len(rows)} rows, but {len(sensitive)} sensitive values")
        rule.check(sensitive)
        values = value_counts(of_row, sensitive)
    return _Greedy(rows.take(first), counts, k, suppressible, values, rule).run(of_row)


class _Greedy:
    """The greedy algorithm, in time O(classes^2) and memory O(classes)."""

    def __init__(
        self,
        rows: Rows,
        counts: Integers,
        k: int,
        suppressible: int,
        table: Integers,
        rule: DiversityRule,
    ) -> None:
        """Store distinct `rows`, their `counts` (m,), and the budget of `suppressible` rows.

        `table` (m, values) counts a sensitive column, to which `rule` applies."""
        self.rows, self.counts, self.k, self.suppressible = rows, counts, k, suppressible
        self.said, self.rule = table, rule
        self.law = table.sum(axis=0) / table.sum()
        self.costs = FusionCosts(rows.columns)
        self.ids = np.arange(len(rows))  # the original class at each place
        self.parent = np.arange(len(rows))  # of each original class; itself if it stays
        self.places = {rows.key(place): place for place in range(len(rows))}
        self.merge_costs: list[float] = []
        self.dead = 0

    def run(self, of_row: Integers) -> Anonymized:
        """Merge until every class has k rows; `of_row` is the original class of each row."""
        place = 0
        while place < len(self.counts):
            few = self.counts[place] < self.k
            if self.counts[place] and (few or not self.rule.is_met(self.said[place], self.law)):
                self._settle(place)
                place = self._compact(place)
            else:
                place += 1
        return self._result(of_row)

    def _settle(self, place: int) -> None:
        other, cost = self._cheapest(place)
        worth = self.counts[place] * sum(map(self.rows.columns.weight, self.rows.columns.kinds))
        others = int(self.counts.sum() - self.counts[place])
        if self.counts[place] <= self.suppressible and cost > worth and others >= self.k:
            self.suppressible -= int(self.counts[place])
            del self.places[self.rows.key(place)]
            self._remove(place, SUPPRESSED)
        else:
            self.merge_costs.append(cost)
            self._merge(place, other)

    def _cheapest(self, place: int) -> tuple[int, float]:
        """Return the cheapest class to merge with (ties: below k, then first), and the cost."""
        costs = self.costs.of(self.rows, self.counts, place)
        costs[self.counts == 0] = np.inf
        costs[place] = np.inf
        if np.isinf(costs).all():
            raise TableError(
                "the remaining rows do not meet the rule even as a single class; suppress fewer"
            )
        ties = np.flatnonzero(costs <= costs.min() + _TIE)
        below = ties[self.counts[ties] < self.k]
        other = int(below[0] if len(below) else ties[0])
        return other, float(costs[other])

    def _merge(self, place: int, other: int) -> None:
        """Merge two classes at `place`, and also any class that equals the result."""
        for side in (place, other):
            del self.places[self.rows.key(side)]
        self._join(place, other)
        self.rows.fuse(place, other)
        fused = self.rows.key(place)
        if fused in self.places:
            self._join(place, self.places[fused])
        self.places[fused] = place

    def _join(self, place: int, other: int) -> None:
        self.counts[place] += self.counts[other]
        self.said[place] += self.said[other]
        self._remove(other, int(self.ids[place]))

    def _remove(self, place: int, into: int) -> None:
        self.parent[self.ids[place]] = into
        self.counts[place] = 0
        self.dead += 1

    def _compact(self, place: int) -> int:
        """Remove empty classes once they are a quarter; return the new index of `place`."""
        if self.dead * 4 < len(self.counts):
            return place
        live = np.flatnonzero(self.counts)
        self.rows, self.counts, self.ids = self.rows.take(live), self.counts[live], self.ids[live]
        self.said = self.said[live]
        self.places = {self.rows.key(new): new for new in range(len(live))}
        self.dead = 0
        return int(np.searchsorted(live, place))

    def _result(self, of_row: Integers) -> Anonymized:
        live = np.flatnonzero(self.counts)
        number = np.full(len(self.parent), SUPPRESSED)
        number[self.ids[live]] = np.arange(len(live))
        final = []
        for origin in range(len(self.parent)):
            node = origin
            while node >= 0 and self.parent[node] != node:
                node = int(self.parent[node])
            final.append(number[node] if node >= 0 else SUPPRESSED)
        return Anonymized(
            np.array(final)[of_row],
            self.rows.take(live),
            self.counts[live],
            np.array(self.merge_costs),
        )


def specialize_column(
    labels: Sequence[str], tree: Hierarchy, rng: np.random.Generator
) -> list[str]:
    """Replace each published label of a tree with a leaf below it, drawn uniformly.

    Raises TableError if a label is not in the tree."""
    leaves = [np.flatnonzero(under) for under in tree.leaves]
    return [tree.paths[rng.choice(leaves[node])][0] for node in tree.encode(labels)]
