"""Differences between two windows: intervals, tests, and corrections for multiplicity, whoever
estimated the difference and its standard error."""

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
    """Differences between two windows, later less earlier, (n,) each; shares in [-1, 1].

    low, high: interval of the decision, not clipped: it holds 0 where no change is detected
    (`decided`).  p_value: two-sided, of no change.  p_adjusted, detected: after correction; a value
    that is tested separately keeps its own p-value.  freedom: of the t distribution.
    """

    difference: Floats
    std_error: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats
    detected: Flags
    freedom: Floats

    def of(self, rows: Indices) -> Differences:
        """Return the differences of some rows."""
        return Differences(*(part[rows] for part in vars(self).values()))


def differences(
    difference: Floats,
    std_error: Floats,
    *,
    alpha: float = DEFAULT_ALPHA,
    freedom: float = np.inf,
    apart: Flags | None = None,
) -> Differences:
    """Interval and test of each difference (n,), corrected by Benjamini-Hochberg.

    Args:
        difference: later less earlier.
        std_error: of each; where it is not a number the difference is not tested.
        alpha: of the tests, in (0, 1).
        freedom: of the t distribution of the differences.
        apart: values outside the list, such as `other` of a map (`decide`).
    """
    p = no_change(difference, std_error, freedom)
    adjusted, freedoms = corrected(p, alpha=alpha, apart=apart).adjusted, np.full(len(p), freedom)
    plain = Differences(difference, std_error, difference, difference, p, p, p <= alpha, freedoms)
    return decided(plain, adjusted, alpha, apart)


def decided(
    rows: Differences, p_adjusted: Floats, alpha: float, apart: Flags | None = None
) -> Differences:
    """Decide by corrected p-values which rows changed, and give each the interval of that decision.

    With R of M detected it is at the level 1 - alpha max(R, 1) / M (Benjamini and Yekutieli 2005),
    that of values tested separately at 1 - alpha: by Benjamini-Hochberg it excludes 0 where a
    change is detected and nowhere else. By another correction it reaches 0 where none is.
    """
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
    """Difference and standard error (n,) of two independent unbiased estimates with standard
    errors. Devices that repeat permanent answers in both windows make it surer, never less sure."""
    return after[0] - before[0], np.hypot(before[1], after[1])


def no_change(difference: Floats, std_error: Floats, freedom: float = np.inf) -> Floats:
    """Two-sided p-values (n,) of no change; 1 where a standard error is not positive."""
    return more_than(0.0, difference, std_error, freedom)


def more_than(
    bound: float, difference: Floats, std_error: Floats, freedom: float = np.inf
) -> Floats:
    """P-values (n,), for both signs, of a change of at most `bound` >= 0; 1 without an error."""
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
    """Correct p-values (n,) for multiplicity; those in `apart` are each tested separately."""
    return decide(p, np.zeros_like(p), correction, alpha, alone=apart)


@dataclass(frozen=True)
class WindowChange:
    """What changed from window `first` to window `second`, numbers from 0; names of the rows."""

    first: int
    second: int
    quantities: tuple[str, ...]
    rows: Differences


Change = TypeVar("Change", bound=WindowChange)


def window_pairs(total: int) -> list[tuple[int, int]]:
    """List the pairs of windows that a series compares: neighbors, then the first and the last.
    Raises DecodeError for fewer than two windows."""
    if total < 2:
        raise DecodeError(f"{counted(total, 'window')}: a series needs two or more")
    return [*pairwise(range(total)), *([(0, total - 1)] if total > 2 else [])]


def corrected_windows(
    changes: Sequence[Change], alpha: float = DEFAULT_ALPHA
) -> tuple[Change, ...]:
    """Decide by Benjamini-Hochberg over all quantities and pairs of windows."""
    columns = zip(*(vars(change.rows).values() for change in changes), strict=True)
    rows = Differences(*map(np.concatenate, columns))
    rows = decided(rows, corrected(rows.p_value, alpha=alpha).adjusted, alpha)
    ends = np.cumsum([len(change.quantities) for change in changes])
    return tuple(
        replace(change, rows=rows.of(np.arange(end - len(change.quantities), end)))
        for change, end in zip(changes, ends, strict=True)
    )
