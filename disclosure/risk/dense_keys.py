"""OPTA and PESA by an array with an axis for each column, where all candidate keys fit in
memory."""

from __future__ import annotations

import numpy as np

from disclosure.risk.domain import Combination
from disclosure.risk.patterns import Patterns
from disclosure.typing import Integers

INCOHERENT = -1


def dense_frequencies(patterns: Patterns, rules: list[Combination], *, largest: bool) -> Integers:
    """The largest (OPTA) or smallest (PESA) potential frequency of each pattern's candidate
    keys, (P,).

    INCOHERENT where a pattern has no candidate.
    """
    worst = -1 if largest else np.iinfo(np.int64).max
    potential = _potential_frequencies(patterns)
    for rule in rules:
        potential[tuple(rule.get(p, slice(None)) for p in range(potential.ndim))] = worst
    frequencies = np.empty(len(patterns.counts), dtype=np.int64)
    for columns, chosen in patterns.by_mask():
        missing = tuple(p for p in range(potential.ndim) if p not in columns)
        extreme = potential.max(axis=missing) if largest else potential.min(axis=missing)
        frequencies[chosen] = extreme[tuple(patterns.codes[chosen, p] for p in columns)]
    return np.where(frequencies == worst, INCOHERENT, frequencies)


def _potential_frequencies(patterns: Patterns) -> Integers:
    """For each candidate key, the rows compatible with it: f(c_q), shape `patterns.sizes`."""
    potential = np.zeros(patterns.sizes, dtype=np.int64)
    for columns, chosen in patterns.by_mask():
        shape = [size if p in columns else 1 for p, size in enumerate(patterns.sizes)]
        table = np.zeros(shape, dtype=np.int64)
        np.add.at(table, tuple(patterns.codes[chosen].clip(0).T), patterns.counts[chosen])
        potential += table
    return potential
