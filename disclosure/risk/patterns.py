"""Patterns (distinct rows with counts), and the number of rows that share each pattern's key.

The orthodox count lets a missing value agree with everything, on both sides. OPTA and PESA use an
array with an axis for each column: of all candidate keys if they fit in memory, else of one row at
a time. Equation (3) of the OPTA/PESA text, as printed, lets a missing value equal only a missing
value; its first table needs the rule of its prose, which is this one (and sdcMicro's default)."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np

from disclosure.errors import TableError
from disclosure.risk.domain import Combination
from disclosure.typing import Booleans, Integers

MISSING = -1
_MAX_KEY = 2**62
_MAX_TABLE = 2**22
MAX_KEYS = 2**22  # completions of one row
MAX_SECONDS = 300.0  # per table
INCOHERENT = -1


@dataclass(frozen=True)
class Patterns:
    """The distinct rows of a table."""

    codes: Integers  # (P, n) indices of values, MISSING if undetermined
    counts: Integers  # (P,) rows of each pattern
    of_row: Integers  # (N,) the pattern of each row
    sizes: tuple[int, ...]  # (n,) number of values of each column

    @property
    def determined(self) -> Booleans:
        """Flags of the determined values, (P, n)."""
        flags: Booleans = self.codes != MISSING
        return flags

    def by_mask(self) -> Iterator[tuple[tuple[int, ...], Integers]]:
        """Yield the sets of determined columns, with the indices of their patterns."""
        bits = self.determined @ (1 << np.arange(len(self.sizes), dtype=np.int64))
        for mask in np.unique(bits):
            columns = tuple(p for p in range(len(self.sizes)) if int(mask) >> p & 1)
            yield columns, np.flatnonzero(bits == mask)


def find_patterns(codes: Integers, sizes: Sequence[int]) -> Patterns:
    """Group equal rows of codes (N, n)."""
    keys = number_keys([codes + 1], [size + 1 for size in sizes])[0]
    _, first, of_row, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    return Patterns(codes[first], counts.astype(np.int64), of_row.ravel(), tuple(sizes))


def number_keys(tables: Sequence[Integers], sizes: Sequence[int]) -> list[Integers]:
    """Number the rows of several tables, with the same number for equal rows.

    The numbers are mixed radix, compressed if they overflow. Each table is (rows, columns), with
    values in [0, size)."""
    lengths = np.cumsum([len(table) for table in tables])[:-1]
    keys = np.zeros(sum(len(table) for table in tables), dtype=np.int64)
    space = 1
    for column, size in enumerate(sizes):
        if space > _MAX_KEY // size:
            names, keys = np.unique(keys, return_inverse=True)
            keys, space = keys.ravel().astype(np.int64), len(names)
        keys = keys * size + np.concatenate([table[:, column] for table in tables])
        space *= size
    return list(np.split(keys, lengths))


def sum_matching(
    source: Integers, counts: Integers, target: Integers, sizes: Sequence[int]
) -> Integers:
    """Return, for each target row (t,), the sum of counts (s,) of equal source rows.

    `source` is (s, columns), `target` (t, columns)."""
    source_keys, target_keys = number_keys([source, target], sizes)
    if np.prod(np.array(sizes, dtype=float)) <= _MAX_TABLE:
        length = int(np.prod(np.array(sizes, dtype=np.int64)))
        table = np.bincount(source_keys, weights=counts, minlength=length)
        return np.rint(table[target_keys]).astype(np.int64)
    names, inverse = np.unique(source_keys, return_inverse=True)
    sums = np.rint(np.bincount(inverse.ravel(), weights=counts)).astype(np.int64)
    place = np.minimum(np.searchsorted(names, target_keys), len(names) - 1)
    return np.where(names[place] == target_keys, sums[place], 0)


def orthodox_frequencies(patterns: Patterns) -> Integers:
    """Count, for each pattern (P,), the rows that agree with it in all determined columns."""
    frequencies = np.zeros(len(patterns.counts), dtype=np.int64)
    masks = list(patterns.by_mask())
    for columns, targets in masks:
        shared = defaultdict(list)
        for others, sources in masks:
            shared[tuple(p for p in others if p in columns)].append(sources)
        for common, groups in shared.items():
            sources, on = np.concatenate(groups), list(common)
            frequencies[targets] += sum_matching(
                patterns.codes[sources][:, on],
                patterns.counts[sources],
                patterns.codes[targets][:, on],
                [patterns.sizes[p] for p in common],
            )
    return frequencies


def dense_frequencies(patterns: Patterns, rules: list[Combination], *, largest: bool) -> Integers:
    """Return the largest (OPTA) or smallest (PESA) frequency of the candidate keys, (P,).

    The result is INCOHERENT for patterns without candidates."""
    potential, worst = potential_frequencies(patterns, rules, largest=largest)
    frequencies = np.empty(len(patterns.counts), dtype=np.int64)
    for columns, chosen in patterns.by_mask():
        missing = tuple(p for p in range(potential.ndim) if p not in columns)
        extreme = potential.max(axis=missing) if largest else potential.min(axis=missing)
        frequencies[chosen] = extreme[tuple(patterns.codes[chosen, p] for p in columns)]
    return np.where(frequencies == worst, INCOHERENT, frequencies)


def potential_frequencies(
    patterns: Patterns, rules: list[Combination], *, largest: bool
) -> tuple[Integers, int]:
    """Count the rows compatible with each candidate key: f(c_q), shape `patterns.sizes`.

    The second result marks impossible keys; no candidate's largest or smallest count equals it."""
    potential = np.zeros(patterns.sizes, dtype=np.int64)
    for columns, chosen in patterns.by_mask():
        shape = [size if p in columns else 1 for p, size in enumerate(patterns.sizes)]
        table = np.zeros(shape, dtype=np.int64)
        np.add.at(table, tuple(patterns.codes[chosen].clip(0).T), patterns.counts[chosen])
        potential += table
    worst = -1 if largest else np.iinfo(np.int64).max
    for rule in rules:
        potential[tuple(rule.get(p, slice(None)) for p in range(potential.ndim))] = worst
    return potential, worst


def sparse_frequencies(patterns: Patterns, rules: list[Combination], *, largest: bool) -> Integers:
    """Compute the frequencies of `dense_frequencies`, (P,), with one pattern's table at a time.

    Raises TableError if a pattern has more than MAX_KEYS keys, or if the time limit is exceeded."""
    frequencies = orthodox_frequencies(patterns)  # correct for patterns without missing values
    end = monotonic() + MAX_SECONDS
    for place, code in enumerate(patterns.codes):
        others, missing = _rules_left(rules, code), np.flatnonzero(code == MISSING)
        if not all(others):  # impossible regardless of the missing values
            frequencies[place] = INCOHERENT
        if not all(others) or not len(missing):
            continue
        sizes = tuple(patterns.sizes[column] for column in missing.tolist())
        ways = math.prod(sizes)
        if ways > MAX_KEYS or monotonic() > end:
            too_many = (
                f"{ways:,} in one row" if ways > MAX_KEYS else f"over {MAX_SECONDS:g} seconds"
            )
            raise TableError(
                f"too many ways to fill the missing values, {too_many}. Use fewer columns or "
                "modalities at a time, or the method orthodox, which fills none and never counts "
                "fewer rows"
            )
        agrees = (patterns.codes == code) | (patterns.codes == MISSING) | (code == MISSING)
        compatible = agrees.all(axis=1)
        part = Patterns(
            patterns.codes[compatible][:, missing],
            patterns.counts[compatible],
            np.zeros(0, dtype=np.int64),
            sizes,
        )
        potential, worst = potential_frequencies(part, others, largest=largest)
        best = int(potential.max() if largest else potential.min())
        frequencies[place] = INCOHERENT if best == worst else best
    return frequencies


def _rules_left(rules: list[Combination], code: Integers) -> list[Combination]:
    """Return the combinations that a row may complete, by positions among missing columns."""
    position = {column: i for i, column in enumerate(np.flatnonzero(code == MISSING).tolist())}
    return [
        {position[column]: value for column, value in rule.items() if column in position}
        for rule in rules
        if all(column in position or code[column] == value for column, value in rule.items())
    ]
