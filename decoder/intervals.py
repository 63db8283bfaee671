"""Intervals of 95 %: of any candidate, and of one that was chosen because its score was high."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, stdtrit

Floats = NDArray[np.float64]

_BISECTIONS = 60


def plain_interval(
    estimates: Floats, std_errors: Floats, freedom: float, level: float
) -> tuple[Floats, Floats]:
    """estimate +- t se, t with `freedom` > 0 at `level` in (0, 1); clipped to [0, 1], (M,) each."""
    margin = -float(stdtrit(freedom, (1 - level) / 2)) * std_errors
    return np.clip(estimates - margin, 0, 1), np.clip(estimates + margin, 0, 1)


def selected_interval(
    estimates: Floats, std_errors: Floats, cutoffs: Floats, level: float
) -> tuple[Floats, Floats]:
    """Interval of a share given that its estimate passed `cutoffs` (D,), clipped to [0, 1].

    An estimate that is seen only when it lies above c follows a normal distribution truncated at
    c. The interval inverts it: b is inside where neither tail of the truncated distribution at
    the estimate is below (1 - level) / 2. No prior. (Zhong and Prentice 2008; Weinstein,
    Fithian, Benjamini 2013.)
    """
    tail = (1 - level) / 2
    low = _truncated_quantile(estimates, std_errors, cutoffs, tail)
    high = _truncated_quantile(estimates, std_errors, cutoffs, 1 - tail)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def _truncated_quantile(
    estimates: Floats, std_errors: Floats, cutoffs: Floats, upper_tail: float
) -> Floats:
    """The share b at which P(X >= estimate | X >= cutoff) = `upper_tail`, X ~ N(b, se^2); >= 0.

    The tail grows with b, so bisection finds it; in logarithms, for far tails.
    """
    passed = np.minimum(cutoffs, estimates)

    def excess(b: Floats) -> Floats:
        seen, possible = (b - estimates) / std_errors, (b - passed) / std_errors
        return np.asarray(log_ndtr(seen) - log_ndtr(possible) - np.log(upper_tail))

    return bisect(excess, np.zeros(len(estimates)), estimates + 9 * std_errors)


def bisect(rising: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Where a rising function crosses 0, element by element; exactly `low` if it starts above."""
    starts_above, bottom = rising(low) >= 0, low
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = rising(middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(starts_above, bottom, (low + high) / 2)
