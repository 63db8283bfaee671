"""Differences between two windows: intervals, tests, and corrections for multiplicity, whoever
estimated the difference and its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from decoder.errors import DecodeError
from decoder.inference.multiple_testing import Correction, ListDecision, decide
from decoder.options import DEFAULT_ALPHA, DEFAULT_LEVEL
from decoder.typing import Flags, Floats, Indices
from rappor_core.text import counted


@dataclass(frozen=True)
class Differences:
    """Differences between two windows, later less earlier, (n,) each; shares in [-1, 1].

    low, high: interval, not clipped.  p_value: two-sided, of no change.  p_adjusted, detected:
    after correction; a value that is tested separately keeps its own p-value.
    """

    difference: Floats
    std_error: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats
    detected: Flags

    def of(self, rows: Indices) -> Differences:
        """Return the differences of some rows."""
        return Differences(*(part[rows] for part in vars(self).values()))


def differences(
    difference: Floats,
    std_error: Floats,
    *,
    level: float = DEFAULT_LEVEL,
    alpha: float = DEFAULT_ALPHA,
    freedom: float = np.inf,
    apart: Flags | None = None,
) -> Differences:
    """Interval and test of each difference (n,), corrected by Benjamini-Hochberg.

    Args:
        difference: later less earlier.
        std_error: of each; where it is not a number the difference is not tested.
        level: of the intervals, in (0, 1).
        alpha: of the tests, in (0, 1).
        freedom: of the t distribution of the differences.
        apart: values outside the list, such as `other` of a map (`decide`).
    """
    p = no_change(difference, std_error, freedom)
    decision = corrected(p, alpha=alpha, apart=apart)
    half = margin(std_error, level, freedom)
    return Differences(difference, std_error, difference - half, difference + half,
                       p, decision.adjusted, decision.detected)  # fmt: skip


def independent(
    before: tuple[Floats, Floats], after: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Difference and standard error (n,) of two independent unbiased estimates with standard
    errors. Devices that repeat permanent answers in both windows make it surer, never less sure."""
    return after[0] - before[0], np.hypot(before[1], after[1])


def margin(std_error: Floats, level: float, freedom: float = np.inf) -> Floats:
    """Half width of the intervals at a level, (n,)."""
    tail = (1 - level) / 2
    quantile = -float(stdtrit(freedom, tail) if np.isfinite(freedom) else ndtri(tail))
    return np.asarray(quantile * std_error)


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
    """Correct p-values by Benjamini-Hochberg over all quantities and pairs of windows."""
    sizes = np.cumsum([len(change.quantities) for change in changes])
    decision = corrected(np.concatenate([change.rows.p_value for change in changes]), alpha=alpha)
    adjusted = np.split(decision.adjusted, sizes[:-1])
    detected = np.split(decision.detected, sizes[:-1])
    return tuple(
        replace(change, rows=replace(change.rows, p_adjusted=p, detected=flags))
        for change, p, flags in zip(changes, adjusted, detected, strict=True)
    )
