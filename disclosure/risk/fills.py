"""The best way to fill the missing values of one row, by branch and bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from disclosure.errors import TableError
from disclosure.risk.domain import Combination
from disclosure.risk.patterns import MISSING
from disclosure.typing import Integers


@dataclass
class Work:
    """A budget of computing steps that all searches over a table share.

    left: steps, each a compatible entry that is looked at once, with a fixed cost a branch.
    """

    left: int

    def spend(self, steps: int) -> None:
        """Raises TableError where nothing is left."""
        self.left -= steps
        if self.left < 0:
            raise TableError(
                "too many ways to fill the missing values: the exact search was given up. Take "
                "fewer columns or modalities at a time, or the method orthodox, which needs no "
                "search and never counts fewer rows"
            )


_STEPS_OF_A_BRANCH = 1_000  # what a branch costs with few entries


def rules_given(rules: list[Combination], codes: Integers, missing: list[int]) -> list[Combination]:
    """The incoherent combinations left for the missing columns, once the others are known.

    Their columns are numbered as positions in `missing`.
    """
    position = {p: index for index, p in enumerate(missing)}
    left = []
    for rule in rules:
        if all(p in position or codes[p] == value for p, value in rule.items()):
            left.append({position[p]: value for p, value in rule.items() if p in position})
    return left


def extreme_fill(
    vectors: Integers,
    weights: Integers,
    sizes: list[int],
    rules: list[Combination],
    work: Work,
    *,
    largest: bool,
) -> int | None:
    """The largest or smallest weight that is compatible with one fill of the columns.

    vectors: (e, columns) indices of modalities, MISSING where an entry says nothing.
    weights: (e,) at least 1. sizes: modalities of each column.
    rules: incoherent combinations of columns.
    work: of which the search takes its steps.

    Returns: the weight; None where every fill is incoherent. Raises TableError for too much work.
    """
    groups = np.unique((vectors != MISSING) @ (1 << np.arange(len(sizes))), return_inverse=True)[1]
    search = _Search(vectors, weights, groups.ravel(), sizes, largest, work)
    if any(not rule for rule in rules):
        return None
    search.visit(np.arange(len(weights)), list(range(len(sizes))), rules)
    return search.best


@dataclass
class _Search:
    vectors: Integers
    weights: Integers
    groups: Integers
    sizes: list[int]
    largest: bool
    work: Work
    best: int | None = None

    def visit(self, left: Integers, columns: list[int], rules: list[Combination]) -> None:
        """Search the fills of `columns`; `left` are the entries that still agree."""
        if not columns or (not rules and not self._varies(left, columns)):
            total = int(self.weights[left].sum())
            if self._improves(total):
                self.best = total
            return
        if not self.largest:
            left, columns = self._avoid(left, columns, rules)
        if not columns:
            self.visit(left, columns, rules)
            return
        column = max(columns, key=lambda c: int((self.vectors[left, c] != MISSING).sum()))
        rest = [c for c in columns if c != column]
        for _, value, kept in self._children(left, column, rest, rules):
            if not self._improves(self._bound(kept, rest)):
                break
            remaining = _assign(rules, column, value)
            if remaining is not None:
                self.visit(kept, rest, remaining)

    def _varies(self, left: Integers, columns: list[int]) -> bool:
        return bool((self.vectors[left][:, columns] != MISSING).any())

    def _avoid(
        self, left: Integers, columns: list[int], rules: list[Combination]
    ) -> tuple[Integers, list[int]]:
        """Give columns a modality that no entry shows, where one is: nothing weighs less."""
        rest = list(columns)
        for column in columns:
            shown = self.vectors[left, column]
            free = len(np.unique(shown[shown != MISSING])) < self.sizes[column]
            if free and not any(column in rule for rule in rules):
                left = left[shown == MISSING]
                rest.remove(column)
        return left, rest

    def _improves(self, bound: int) -> bool:
        if self.best is None:
            return True
        return bound > self.best if self.largest else bound < self.best

    def _children(
        self, left: Integers, column: int, rest: list[int], rules: list[Combination]
    ) -> list[tuple[int, int, Integers]]:
        """The values of a column worth trying, most promising first.

        Values that no entry shows and no rule names are alike: one of them stands for all.
        """
        shown = self.vectors[left, column]
        ruled = {rule[column] for rule in rules if column in rule}
        values = {int(v) for v in np.unique(shown) if v != MISSING} | ruled
        other = next((v for v in range(self.sizes[column]) if v not in values), None)
        if other is not None:
            values.add(other)
        children = []
        self.work.spend(len(values) * (_STEPS_OF_A_BRANCH + len(left)))
        for value in values:
            kept = left[(shown == value) | (shown == MISSING)]
            children.append((self._bound(kept, rest), value, kept))
        children.sort(key=lambda child: (-child[0] if self.largest else child[0], child[1]))
        return children

    def _bound(self, left: Integers, columns: list[int]) -> int:
        """What no fill of `columns` exceeds, or falls below.

        A fill agrees with at most one entry of those that determine the same columns.
        """
        if self.largest:
            best = np.zeros(int(self.groups.max(initial=0)) + 1, dtype=np.int64)
            np.maximum.at(best, self.groups[left], self.weights[left])
            return int(best.sum())
        settled = (self.vectors[left][:, columns] == MISSING).all(axis=1)
        return int(self.weights[left][settled].sum())


def _assign(rules: list[Combination], column: int, value: int) -> list[Combination] | None:
    """The rules left when a column has a value; None if one of them is broken."""
    left = []
    for rule in rules:
        if rule.get(column, value) == value:
            rest = {c: v for c, v in rule.items() if c != column}
            if not rest:
                return None
            left.append(rest)
    return left
