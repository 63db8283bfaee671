"""Random counting queries: how many rows lie in a random subset of each column."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from disclosure.errors import TableError
from disclosure.rows.tables import Table, encode_alike, num_rows
from disclosure.typing import Booleans, Floats


def counting_query_error(
    original: Table,
    published: Table,
    rng: np.random.Generator,
    *,
    numeric: Collection[str] = (),
    num_queries: int = 100,
    num_columns: int = 2,
    floor: float = 0.001,
) -> float:
    """The mean of |published - original| / max(original, floor) over random queries, as shares.

    A query takes `num_columns` random columns; of each a random interval if it is numeric, else a
    random subset that holds each value with probability 1/2. The thesis divides by the original
    count alone, which may be 0: `floor`, a share of the rows, bounds the denominator, and the error
    means little without it beside.

    Raises TableError for a floor outside (0, 1], columns that differ, and too few of them.
    """
    if not 0 < floor <= 1 or not 1 <= num_columns <= len(original) or num_queries < 1:
        raise TableError(
            f"floor in (0, 1], columns in 1 to {len(original)} and 1 query or more are needed, "
            f"not {floor}, {num_columns}, {num_queries}"
        )
    tables = _values(original, published, numeric)
    names = list(original)
    errors = []
    for _ in range(num_queries):
        chosen = rng.choice(len(names), num_columns, replace=False)
        inside = [np.ones(num_rows(t), dtype=bool) for t in (original, published)]
        for index in chosen:
            pair = tables[names[index]]
            matches = _random_subset(pair, names[index] in numeric, rng)
            inside = [a & b for a, b in zip(inside, matches, strict=True)]
        true, found = (float(rows.mean()) for rows in inside)
        errors.append(abs(found - true) / max(true, floor))
    return float(np.mean(errors))


def _values(
    original: Table, published: Table, numeric: Collection[str]
) -> dict[str, tuple[Floats, Floats]]:
    """By column: numbers of the numeric ones, codes of the others."""
    first, second = encode_alike(original, published)
    values = {}
    for index, name in enumerate(original):
        if name in numeric:
            pair = (np.array(original[name], dtype=float), np.array(published[name], dtype=float))
        else:
            pair = (first[:, index].astype(float), second[:, index].astype(float))
        values[name] = pair
    return values


def _random_subset(
    pair: tuple[Floats, Floats], is_numeric: bool, rng: np.random.Generator
) -> list[Booleans]:
    if is_numeric:
        low, high = np.sort(rng.choice(pair[0], 2))
        return [(values >= low) & (values <= high) for values in pair]
    length = int(max(values.max() for values in pair)) + 1
    chosen = rng.random(length) < 0.5
    return [chosen[values.astype(np.int64)] for values in pair]
