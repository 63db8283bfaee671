"""Differences between two windows: intervals, tests, and corrections for multiplicity.

These functions apply to any estimated difference with a standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from decoder.errors import DecodeError
from decoder.inference.multiple_testing import Correction, ListDecision, decide
from decoder.options import DEFAULT_ALPHA
from decoder.typing import Flags, Floats, Indices
from rappor_core.text import counted


@dataclass(frozen=True)
class Differences:
    """Differences between two windows, later minus earlier, (n,) each; shares in [-1, 1]."""

    difference: Floats
    std_error: Floats
    low: Floats  # Interval that agrees with the decision: contains 0 if no change is detected
    high: Floats
    p_value: Floats  # Two-sided p-value for no change
    p_adjusted: Floats  # Corrected for multiplicity, except for values tested separately
    detected: Flags
    freedom: Floats  # Degrees of freedom of the t distribution

    def of(self, rows: Indices) -> Differences:
        """Return the differences of the given rows."""
        return Differences(*(part[rows] for part in vars(self).values()))


def differences(
    difference: Floats,
    std_error: Floats,
    *,
    alpha: float = DEFAULT_ALPHA,
    freedom: float = np.inf,
    apart: Flags | None = None,
) -> Differences:
    """Compute an interval and a test for each difference (n,), with Benjamini-Hochberg correction.

    Args:
        difference: The differences, later minus earlier.
        std_error: Their standard errors; a difference whose error is NaN is not tested.
        alpha: The level of the tests, in (0, 1).
        freedom: The degrees of freedom of the t distribution.
        apart: Flags of the values to test separately, such as `other` in a map; None for no value.
    """
    p = no_change(difference, std_error, freedom)
    adjusted, freedoms = corrected(p, alpha=alpha, apart=apart).adjusted, np.full(len(p), freedom)
    plain = Differences(difference, std_error, difference, difference, p, p, p <= alpha, freedoms)
    return decided(plain, adjusted, alpha, apart)


def decided(
    rows: Differences, p_adjusted: Floats, alpha: float, apart: Flags | None = None
) -> Differences:
    """Decide by corrected p-values which rows changed, and compute intervals that agree.

    If R of M rows are detected, the intervals have level 1 - alpha max(R, 1) / M (Benjamini and
    Yekutieli 2005); intervals for values tested separately have level 1 - alpha. With
    Benjamini-Hochberg p-values, an interval excludes 0 exactly if a change is detected. With a
    different correction, the interval is extended to 0 if no change is detected."""
    detected = p_adjusted <= alpha
    listed = np.ones_like(detected) if apart is None else ~apart
    part = max(detected[listed].sum(), 1) / max(listed.sum(), 1)
    half = -stdtrit(rows.freedom, alpha / 2 * np.where(listed, part, 1.0)) * rows.std_error
    low, high = rows.difference - half, rows.difference + half
    return replace(
        rows,
        low=np.where(detected, low, np.minimum(low, 0.0)),
        high=np.where(detected, high, np.maximum(high, 0.0)),
        p_adjusted=p_adjusted,
        detected=detected,
    )


def independent(
    before: tuple[Floats, Floats], after: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Return differences (n,) and standard errors for two independent unbiased estimates.

    If devices repeat permanent answers in both windows, the true errors are smaller, never larger.

    Args:
        before: The estimates and standard errors of the earlier window.
        after: The estimates and standard errors of the later window.
    """
    return after[0] - before[0], np.hypot(before[1], after[1])


def no_change(difference: Floats, std_error: Floats, freedom: float = np.inf) -> Floats:
    """Compute two-sided p-values (n,) for no change; 1 where the standard error is not positive."""
    return more_than(0.0, difference, std_error, freedom)


def more_than(
    bound: float, difference: Floats, std_error: Floats, freedom: float = np.inf
) -> Floats:
    """Compute two-sided p-values (n,) for the hypothesis of a change of at most `bound` >= 0.

    A p-value is 1 if the standard error is not positive."""
    away = np.abs(difference) - bound
    z = np.divide(away, std_error, out=np.full(len(away), -np.inf), where=std_error > 0)
    one_sided = stdtr(freedom, -z) if np.isfinite(freedom) else ndtr(-z)
    return np.minimum(2 * np.asarray(one_sided, dtype=np.float64), 1.0)


def corrected(
    p: Floats,
    correction: Correction = "bh",
    alpha: float = DEFAULT_ALPHA,
    apart: Flags | None = None,
) -> ListDecision:
    """Correct p-values (n,) for multiplicity; values flagged in `apart` are tested separately."""
    return decide(p, np.zeros_like(p), correction, alpha, alone=apart)


@dataclass(frozen=True)
class WindowChange:
    """The changes between two windows of a series, for the named quantities."""

    first: int  # The number of the earlier window, from 0
    second: int
    quantities: tuple[str, ...]  # The names of the rows
    rows: Differences


Change = TypeVar("Change", bound=WindowChange)


def window_pairs(total: int) -> list[tuple[int, int]]:
    """List the window pairs that a series compares: neighbors, then the first and last window.

    Raises DecodeError if there are fewer than two windows."""
    if total < 2:
        raise DecodeError(f"{counted(total, 'window')}: a series needs two or more")
    return [*pairwise(range(total)), *([(0, total - 1)] if total > 2 else [])]


def corrected_windows(
    changes: Sequence[Change], alpha: float = DEFAULT_ALPHA
) -> tuple[Change, ...]:
    """Return the changes, tested by Benjamini-Hochberg over all quantities and window pairs."""
    columns = zip(*(vars(change.rows).values() for change in changes), strict=True)
    rows = Differences(*map(np.concatenate, columns))
    rows = decided(rows, corrected(rows.p_value, alpha=alpha).adjusted, alpha)
    ends = np.cumsum([len(change.quantities) for change in changes])
    return tuple(
        replace(change, rows=rows.of(np.arange(end - len(change.quantities), end)))
        for change, end in zip(changes, ends, strict=True)
    )
