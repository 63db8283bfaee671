"""Encode two tables with the same columns by the same codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from disclosure.errors import TableError
from disclosure.typing import Integers

Table = Mapping[str, Sequence[str]]


def num_rows(table: Table) -> int:
    """Number of rows of a table. Raises TableError for none, and for columns of several lengths."""
    lengths = {len(column) for column in table.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise TableError(f"columns of {sorted(lengths)} rows: one length of 1 or more is needed")
    return lengths.pop()


def encode_alike(*tables: Table) -> list[Integers]:
    """Encode tables by the same numbers: for each, (rows, columns) indices among all values of a
    column, sorted.

    Raises TableError if the tables have other columns than the first, or no rows.
    """
    lengths = [num_rows(table) for table in tables]
    if any(set(table) != set(tables[0]) for table in tables):
        raise TableError(f"tables with other columns: {[list(table) for table in tables]}")
    columns = []
    for name in tables[0]:
        joined = np.concatenate([np.array(table[name], dtype=str) for table in tables])
        columns.append(np.unique(joined, return_inverse=True)[1].ravel())
    return list(np.split(np.column_stack(columns), np.cumsum(lengths)[:-1]))


def number_rows(*codes: Integers) -> list[Integers]:
    """Number the rows of several tables of codes, equal rows alike."""
    numbers = np.unique(np.concatenate(codes), axis=0, return_inverse=True)[1].ravel()
    return list(np.split(numbers, np.cumsum([len(table) for table in codes])[:-1]))
