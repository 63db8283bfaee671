"""Counts of rows that share a key with missing values, by three rules: orthodox, OPTA, PESA.

A row's key is its values in the identifying columns. The usual count (`orthodox`) lets missing
values agree with everything, which makes keys look more frequent than they are. OPTA and PESA
consider the candidate keys of a row, its completions by declared values: OPTA uses the most
frequent candidate, PESA the least frequent. 1 <= PESA <= OPTA <= orthodox. PESA is a prudent score,
not an estimate: a row with a missing value is counted in several keys."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from disclosure.errors import DomainError, TableError
from disclosure.risk.domain import Combination, Domain
from disclosure.risk.patterns import (
    INCOHERENT,
    MISSING,
    Patterns,
    dense_frequencies,
    find_patterns,
    orthodox_frequencies,
    sparse_frequencies,
)
from disclosure.typing import Integers
from rappor_core.errors import shown

Method = Literal["orthodox", "opta", "pesa"]
METHODS: tuple[str, ...] = get_args(Method)
MAX_DENSE_KEYS = 2**22


@dataclass(frozen=True)
class RiskReport:
    """The number of rows that may share the key of each row."""

    method: str
    frequencies: Integers  # (N,), including the row itself

    @property
    def minimum(self) -> int:
        """The smallest frequency: the table is `minimum`-anonymous by this method."""
        return int(self.frequencies.min())

    def rows_below(self, k: int) -> Integers:
        """Return the indices, from 0, of the rows whose key fewer than k rows share."""
        return np.flatnonzero(self.frequencies < k)


def assess_risk(
    table: Mapping[str, Sequence[str]],
    domain: Domain,
    method: Method,
    *,
    max_dense_keys: int = MAX_DENSE_KEYS,
) -> RiskReport:
    """Count how many rows share each row's key.

    Args:
        table: The identifying columns by name, of equal length, 1 or more.
        domain: The possible values; columns that are not in the table are ignored.
        method: How missing values count.
        max_dense_keys: The maximum number of candidate keys in memory (8 bytes each); with more,
            only those for one row at a time are in memory. The result is the same.

    Raises:
        DomainError: A column is not declared, or the method is unknown.
        TableError: A value is not declared, columns differ in length or are empty, or a row has no
            coherent completion or more than 4 million completions.
    """
    if method not in METHODS:
        raise DomainError(f"method must be one of {', '.join(METHODS)}, not {shown(method)}")
    chosen = domain.select(list(table))
    codes = encode_columns(table, chosen)
    patterns, rules = _merge_unseen(find_patterns(codes, chosen.sizes), chosen.incoherent_codes())
    if method == "orthodox":
        frequencies = orthodox_frequencies(patterns)
    else:
        is_dense = math.prod(patterns.sizes) <= max_dense_keys
        count = dense_frequencies if is_dense else sparse_frequencies
        frequencies = count(patterns, rules, largest=method == "opta")
    if (frequencies == INCOHERENT).any():
        row = int(np.flatnonzero(frequencies[patterns.of_row] == INCOHERENT)[0])
        raise TableError(
            f"row {row + 1} has no coherent completion: "
            f"{shown([column[row] for column in table.values()])}"
        )
    return RiskReport(method, frequencies[patterns.of_row])


def encode_columns(table: Mapping[str, Sequence[str]], domain: Domain) -> Integers:
    """Encode values as indices in their column's declared values, (N, n); -1 if missing.

    Raises TableError if a value is undeclared, columns differ in length, or there are no rows."""
    lengths = {len(column) for column in table.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise TableError(f"columns have {sorted(lengths)} rows: use one length, 1 or more")
    codes = np.empty((lengths.pop(), len(table)), dtype=np.int64)
    for index, (name, column) in enumerate(table.items()):
        lookup = {value: code for code, value in enumerate(domain.modalities[name])}
        lookup[domain.missing] = MISSING
        try:
            codes[:, index] = [lookup[value] for value in column]
        except KeyError as error:
            row = list(column).index(error.args[0]) + 1
            raise TableError(
                f"row {row}: column {shown(name)} does not declare {shown(error.args[0])}"
            ) from None
    return codes


def _merge_unseen(
    patterns: Patterns, rules: list[Combination]
) -> tuple[Patterns, list[Combination]]:
    """Merge all values that no row has and no rule names into one, since they count alike."""
    codes, sizes, renamed = patterns.codes.copy(), [], []
    for p, size in enumerate(patterns.sizes):
        named = {rule[p] for rule in rules if p in rule}
        used = sorted({int(v) for v in np.unique(codes[:, p]) if v != MISSING} | named)
        table = np.full(size + 1, len(used))
        table[used] = np.arange(len(used))
        table[MISSING] = MISSING
        codes[:, p] = table[codes[:, p]]
        sizes.append(min(len(used) + 1, size))
        renamed.append(table)
    new_rules = [{p: int(renamed[p][v]) for p, v in rule.items()} for rule in rules]
    return Patterns(codes, patterns.counts, patterns.of_row, tuple(sizes)), new_rules
