"""Utility measures: how well a published table preserves the original table."""

import math
import re
from collections.abc import Collection, Sequence

import numpy as np

from disclosure.anonymize.diversity import MISSING
from disclosure.errors import TableError
from disclosure.rows.domain import num_rows
from disclosure.typing import Floats, Integers, Table
from rappor_core.errors import shown

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_PIECE = re.compile(
    rf"(?P<number>{_NUMBER})|any .+|<=? ?(?P<high>{_NUMBER})|>=? ?(?P<low>{_NUMBER})|"
    rf"[\[\](](?P<first>{_NUMBER}), ?(?P<last>{_NUMBER})[\])\[]",
    re.ASCII,
)


def encode_alike(*tables: Table) -> list[Integers]:
    """Encode tables as indices into the sorted values of each column, (rows, columns) each.

    Raises TableError if tables have different columns, or no rows."""
    lengths = [num_rows(table) for table in tables]
    if any(set(table) != set(tables[0]) for table in tables):
        raise TableError(f"tables with different columns: {[list(table) for table in tables]}")
    columns = []
    for name in tables[0]:
        joined = np.concatenate([np.array(table[name], dtype=str) for table in tables])
        columns.append(np.unique(joined, return_inverse=True)[1].ravel())
    return list(np.split(np.column_stack(columns), np.cumsum(lengths)[:-1]))


def number_rows(*codes: Integers) -> list[Integers]:
    """Number the rows of several tables of codes, with equal numbers for equal rows."""
    numbers = np.unique(np.concatenate(codes), axis=0, return_inverse=True)[1].ravel()
    return list(np.split(numbers, np.cumsum([len(table) for table in codes])[:-1]))


def hellinger(p: Floats, q: Floats) -> float:
    """Return the Hellinger distance sqrt(sum (sqrt p - sqrt q)^2) / sqrt 2, in [0, 1].

    p and q are shares of the same values, each summing to 1; zeros are allowed."""
    return float(np.linalg.norm(np.sqrt(p) - np.sqrt(q)) / np.sqrt(2))


def kl_divergence(p: Floats, q: Floats) -> float:
    """Return the Kullback-Leibler divergence sum p ln(p / q), in nats.

    The result is infinite if q is 0 where p is not. The thesis states it "in bits" without log base
    2: divide by ln 2 for bits."""
    positive = p > 0
    if (q[positive] == 0).any():
        return float("inf")
    return float((p[positive] * np.log(p[positive] / q[positive])).sum())


def column_shares(original: Table, published: Table, columns: Sequence[str]) -> list[Floats]:
    """Return the shares of every combination of columns in each table, (combinations,) each."""
    chosen = [{name: table[name] for name in columns} for table in (original, published)]
    numbers = number_rows(*encode_alike(*chosen))
    length = max(int(part.max()) for part in numbers) + 1
    return [np.bincount(part, minlength=length) / len(part) for part in numbers]


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
    """Return the mean of |published - original| / max(original, floor) over random queries.

    A query uses `num_columns` random columns: a random interval of a numeric column, or a random
    set of another column's values, each included with probability 1/2. The thesis divides by the
    original count alone, which may be 0, so its error is hardly meaningful: here `floor`, a share
    of the rows, bounds the denominator. Raises TableError if the floor is outside (0, 1], columns
    differ, or there are too few columns."""
    if not 0 < floor <= 1 or not 1 <= num_columns <= len(original) or num_queries < 1:
        raise TableError(
            f"floor = {floor} must be in (0, 1], num_columns = {num_columns} in 1 to "
            f"{len(original)}, and num_queries = {num_queries} above 0"
        )
    tables = _values(original, published, numeric)
    names = list(original)
    errors = []
    for _ in range(num_queries):
        chosen = rng.choice(len(names), num_columns, replace=False)
        inside = [np.ones(num_rows(t)) for t in (original, published)]
        for index in chosen:
            pair = tables[names[index]]
            matches = _random_subset(pair, names[index] in numeric, rng)
            inside = [a * b for a, b in zip(inside, matches, strict=True)]
        true, answer = (float(rows.mean()) for rows in inside)
        errors.append(abs(answer - true) / max(true, floor))
    return float(np.mean(errors))


def _values(
    original: Table, published: Table, numeric: Collection[str]
) -> dict[str, tuple[Floats, Floats]]:
    """Return, for each column, both tables' numbers if it is numeric, or else their codes."""
    first, second = encode_alike(original, published)
    values = {}
    for index, name in enumerate(original):
        if name in numeric:
            pair = read_intervals(name, original[name]), read_intervals(name, published[name])
        else:
            pair = (first[:, index].astype(float), second[:, index].astype(float))
        values[name] = pair
    return values


def _random_subset(
    pair: tuple[Floats, Floats], is_numeric: bool, rng: np.random.Generator
) -> list[Floats]:
    """Return the fraction of each row that is in a random interval or a random set of values."""
    if is_numeric:
        numbers = pair[0][np.isfinite(pair[0]).all(axis=1)].mean(axis=1)
        low, high = np.sort(rng.choice(numbers, 2))
        return [_part_between(values, low, high, numbers) for values in pair]
    length = int(max(values.max() for values in pair)) + 1
    chosen = rng.random(length) < 0.5
    return [chosen[values.astype(np.int64)].astype(float) for values in pair]


def read_intervals(name: str, values: Sequence[str]) -> Floats:
    """Parse numbers, and intervals as written by `anonymize` and `co-cluster`, (n, 2).

    Args:
        name: The name of the column.
        values: Numbers (`23`); intervals (`[20,29]`, `]20,29]`, `<=23`, `>23`), several joined by
            `or`, which are read as the interval that contains them; `any ...`; or missing, as two
            NaN.

    Raises:
        TableError: A text has none of these forms.
    """
    ends_of = {value: _interval(value) for value in set(values)}
    wrong = next((value for value in values if ends_of[value] is None), None)
    if wrong is not None:
        raise TableError(f"column {shown(name)}: {shown(wrong)} is not a number or interval")
    return np.array([ends_of[value] for value in values], dtype=float)


def _interval(text: str) -> tuple[float, float] | None:
    if text in MISSING:
        return math.nan, math.nan
    matches = [_PIECE.fullmatch(piece) for piece in text.split(" or ")]
    ends = [
        (
            float(match["number"] or match["low"] or match["first"] or "-inf"),
            float(match["number"] or match["high"] or match["last"] or "inf"),
        )
        for match in matches
        if match is not None
    ]
    if len(ends) < len(matches):
        return None
    return min(low for low, _ in ends), max(high for _, high in ends)


def _part_between(ends: Floats, low: float, high: float, numbers: Floats) -> Floats:
    """Return the fraction of each interval between two ends, (n,); 0 for a missing interval.

    An open interval is assumed to end at the minimum or maximum of the numbers."""
    usable = ~np.isnan(ends).any(axis=1)
    first = np.where(np.isinf(ends[:, 0]), numbers.min(), ends[:, 0])
    last = np.where(np.isinf(ends[:, 1]), numbers.max(), ends[:, 1])
    shared = np.minimum(last, high) - np.maximum(first, low)
    parts = np.divide(shared.clip(0), last - first, out=(shared >= 0) * 1.0, where=last > first)
    return np.where(usable, parts, 0.0)
