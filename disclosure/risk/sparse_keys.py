"""OPTA and PESA by integer programs, where the candidate keys are too many to list.

Of a pattern with missing values, only the patterns that are compatible with it tell its candidates
apart. Where these are few they are listed. Else a program chooses a modality for each missing
column; an entry counts if it agrees.
"""

from __future__ import annotations

import math
from itertools import pairwise
from time import monotonic

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from disclosure.errors import TableError
from disclosure.risk.domain import Combination
from disclosure.risk.patterns import (
    INCOHERENT,
    MISSING,
    Patterns,
    orthodox_frequencies,
    potential_frequencies,
)
from disclosure.typing import Integers

MAX_SECONDS = 300.0  # of a table
_TOO_LONG = (
    "too many ways to fill the missing values: the exact search was given up. Take fewer "
    "columns or modalities at a time, or the method orthodox, which needs no search and "
    "never counts fewer rows"
)
_FEW_KEYS = 2**17  # of the missing columns, which are listed instead
_INFEASIBLE = 2  # status of `milp`


def sparse_frequencies(patterns: Patterns, rules: list[Combination], *, largest: bool) -> Integers:
    """The frequencies of `patterns.dense_frequencies`, (P,), without a table of the candidate keys.

    Raises TableError where it takes too long.
    """
    frequencies = orthodox_frequencies(patterns)  # without missing values there is one candidate
    end = monotonic() + MAX_SECONDS
    for place, code in enumerate(patterns.codes):
        missing = np.flatnonzero(code == MISSING)
        left = _rules_left(rules, code, missing)
        if any(not rule for rule in left):
            frequencies[place] = INCOHERENT
        elif len(missing):
            if monotonic() > end:
                raise TableError(_TOO_LONG)
            agrees = (patterns.codes == code) | (patterns.codes == MISSING) | (code == MISSING)
            compatible = agrees.all(axis=1)
            frequencies[place] = _extreme(
                patterns.codes[compatible][:, missing],
                patterns.counts[compatible],
                [patterns.sizes[column] for column in missing.tolist()],
                left,
                largest=largest,
                end=end,
            )
    return frequencies


def _rules_left(rules: list[Combination], code: Integers, missing: Integers) -> list[Combination]:
    """What the combinations say of the missing columns, as positions in `missing`; {} for one that
    the known values have."""
    position = {column: index for index, column in enumerate(missing.tolist())}
    return [
        {position[column]: value for column, value in rule.items() if column in position}
        for rule in rules
        if all(column in position or code[column] == value for column, value in rule.items())
    ]


def _extreme(
    vectors: Integers,
    counts: Integers,
    sizes: list[int],
    rules: list[Combination],
    *,
    largest: bool,
    end: float,
) -> int:
    """The largest or smallest number of rows that agree with one way to fill the columns.

    Args:
        vectors: (e, columns) modalities of compatible patterns, MISSING where they say nothing.
        counts: (e,) rows of each.
        sizes: Modalities of each column.
        rules: Combinations that cannot be.
        largest: Whether the largest is asked for.
        end: When to give up, as `monotonic`.

    Returns:
        The number; INCOHERENT where no way to fill them is coherent.
    """
    settled = (vectors == MISSING).all(axis=1)
    total = int(counts[settled].sum())
    vectors, inverse = np.unique(vectors[~settled], axis=0, return_inverse=True)
    weights = np.bincount(inverse.ravel(), counts[~settled]).astype(np.int64)
    if math.prod(sizes) <= _FEW_KEYS:
        several = Patterns(vectors, weights, np.zeros(0, dtype=np.int64), tuple(sizes))
        listed, worst = potential_frequencies(several, rules, largest=largest)
        best = int(listed.max() if largest else listed.min())
        return INCOHERENT if best == worst else total + best
    if not rules:
        if largest and len(weights) <= 1:
            return total + int(weights.sum())
        shown = [len(np.setdiff1d(column, [MISSING])) for column in vectors.T]
        if not largest and all(number < size for number, size in zip(shown, sizes, strict=True)):
            return total  # a modality of each column that nobody shows
    found = _solve(vectors, weights if largest else -weights, sizes, rules, end)
    return INCOHERENT if found is None else total + abs(round(found))


def _solve(
    vectors: Integers, gains: Integers, sizes: list[int], rules: list[Combination], end: float
) -> float | None:
    """The largest sum of the gains of entries that agree with one fill; None where none is
    coherent.

    One variable says of each modality whether it is chosen, and one of each entry whether it
    agrees: at most as much as each of its modalities is chosen, and at least as all are together.
    """
    starts = np.concatenate([[0], np.cumsum(sizes)])
    num_choices, num_entries = int(starts[-1]), len(vectors)
    rows: list[tuple[list[int], list[float], float, float]] = [
        (list(range(low, high)), [1.0] * (high - low), 1.0, 1.0)
        for low, high in pairwise(starts.tolist())
    ]
    for rule in rules:
        chosen = [int(starts[column]) + value for column, value in rule.items()]
        rows.append((chosen, [1.0] * len(rule), -np.inf, len(rule) - 1.0))
    for entry, vector in enumerate(vectors):
        told = np.flatnonzero(vector != MISSING)
        chosen, own = (starts[told] + vector[told]).tolist(), num_choices + entry
        if gains[entry] > 0:
            rows += [([own, one], [1.0, -1.0], -np.inf, 0.0) for one in chosen]
        else:
            agree = [-1.0] * len(chosen)
            rows.append(([own, *chosen], [1.0, *agree], 1.0 - len(chosen), np.inf))
    matrix = csr_array(
        (
            np.concatenate([values for _, values, _, _ in rows]),
            np.concatenate([columns for columns, _, _, _ in rows]),
            np.cumsum([0, *(len(columns) for columns, _, _, _ in rows)]),
        ),
        shape=(len(rows), num_choices + num_entries),
    )
    made = milp(
        np.concatenate([np.zeros(num_choices), -gains]),
        constraints=LinearConstraint(matrix, [row[2] for row in rows], [row[3] for row in rows]),
        integrality=np.repeat([1, 0], [num_choices, num_entries]),
        bounds=Bounds(0, 1),
        options={"time_limit": max(end - monotonic(), 0.0)},
    )
    if made.status == _INFEASIBLE:
        return None
    if not made.success:
        raise TableError(_TOO_LONG)
    return float(-made.fun)
