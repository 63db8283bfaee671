"""Intervals for a share, for any candidate and for candidates selected by large estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri, stdtrit

from decoder.model.null_distribution import NullTail
from decoder.typing import Floats

_BISECTIONS = 60
_ROUNDING = 1e-12  # relative to a square
_UNSURE = 1.0  # below this deviate, the ratio of estimate to deviate does not reveal the spread
LITTLE_FITTED = 0.8  # the fraction of the rows' freedom that a fit of few values leaves


def plain_interval(
    estimates: Floats, std_errors: Floats, freedom: float, level: float
) -> tuple[Floats, Floats]:
    """Return unclipped t intervals at `level`, (M,) each, with `freedom` > 0 degrees of freedom."""
    margin = -float(stdtrit(freedom, (1 - level) / 2)) * std_errors
    return estimates - margin, estimates + margin


class ShareTable(NamedTuple):
    """Estimates with standard errors and intervals, all of one shape."""

    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats

    def at(self, rows: Any) -> ShareTable:
        """Return the table of the given rows."""
        return ShareTable(*(part[rows] for part in self))


def fieller(
    part: tuple[Floats, Floats], whole: tuple[Floats, Floats], covariance: Floats, quantile: float
) -> ShareTable:
    """Divide estimates, with Fieller's intervals (1954).

    An interval contains all ratios r for which part - r whole is within `quantile` standard errors
    of 0.

    Args:
        part: The estimates of the parts and their variances, (n,) each.
        whole: The estimates of the wholes and their variances, (n,) each.
        covariance: The covariances of part and whole, (n,).
        quantile: The upper quantile of the errors' distribution for half of 1 - level.

    Returns:
        The ratios, NaN if the whole is not above 0, with infinite errors if it may be 0.
    """
    top, bottom = part[0], whole[0]
    square = bottom**2 - quantile**2 * whole[1]
    mixed = top * bottom - quantile**2 * covariance
    inner = mixed**2 - square * (top**2 - quantile**2 * part[1])
    is_bounded = (bottom > 0) & (square > 0) & (inner >= -_ROUNDING * mixed**2)
    root = np.sqrt(np.where(is_bounded, np.maximum(inner, 0.0), 0.0))
    divisor = np.where(is_bounded, square, 1.0)
    ratio = top / np.where(bottom > 0, bottom, np.nan)
    spread = part[1] - 2 * ratio * covariance + ratio**2 * whole[1]
    return ShareTable(
        ratio,
        np.where(is_bounded, np.sqrt(np.maximum(spread, 0.0)) / bottom, np.inf),
        np.where(is_bounded, (mixed - root) / divisor, -np.inf),
        np.where(is_bounded, (mixed + root) / divisor, np.inf),
    )


def widened_interval(
    estimates: Floats,
    std_errors: Floats,
    deviates: Floats,
    law: NullTail,
    freedom: float,
    level: float,
) -> tuple[Floats, Floats]:
    """Return plain intervals (M,), widened to the spread of null scores and to agree with the test.

    `law` is the null distribution of scores against the residual. An interval is extended to 0 if
    the test, with its `deviates` (M,), does not distinguish the share from 0."""
    low, high = plain_interval(estimates, std_errors, freedom, level)
    normal = -float(ndtri((1 - level) / 2))
    upwards, downwards = np.abs(law.score(np.array([normal, -normal])))
    # A share b is inside if |estimate - b| <= normal s(b). The spread s of the score is the
    # standard error at the estimate, and estimate / deviate at 0, where all of the share counts
    # as unlisted; s^2 grows with the square of the unlisted part.
    sizes, away = np.abs(estimates), np.where(estimates < 0, -deviates, deviates)
    reach = sizes * np.sqrt(1 - (normal / np.maximum(away, normal)) ** 2)
    plain = normal * std_errors
    unsure = sizes * normal / np.maximum(away, min(_UNSURE, normal))
    margin = np.where(away > normal, plain * sizes / np.hypot(reach, plain), unsure)
    below = np.maximum(upwards * std_errors, np.where(estimates > 0, margin, 0.0))
    above = np.maximum(downwards * std_errors, np.where(estimates < 0, margin, 0.0))
    return np.minimum(low, estimates - below), np.maximum(high, estimates + above)


def selected_interval(
    estimates: Floats, std_errors: Floats, cutoffs: Floats, level: float
) -> tuple[Floats, Floats]:
    """Return intervals (D,), clipped to [0, 1], for shares whose estimates passed a cutoff.

    The normal distribution truncated at the cutoff is inverted: neither tail at the estimate is
    below (1 - level) / 2 (Zhong and Prentice 2008; Weinstein, Fithian, Benjamini 2013)."""
    tail, passed = (1 - level) / 2, np.minimum(cutoffs, estimates)

    def ends(upper_tail: float) -> Floats:
        """Find b >= 0 by bisection, because the tail grows with b. Logarithms handle far tails."""

        def excess(b: Floats) -> Floats:
            passing, possible = (b - estimates) / std_errors, (b - passed) / std_errors
            return np.asarray(log_ndtr(passing) - log_ndtr(possible) - np.log(upper_tail))

        return np.clip(bisect(excess, np.zeros(len(estimates)), estimates + 9 * std_errors), 0, 1)

    return ends(tail), ends(1 - tail)


def bisect(rising: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Find the element-wise zeros of a rising function; `low` where it starts above 0."""
    starts_above, bottom = rising(low) >= 0, low
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = rising(middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(starts_above, bottom, (low + high) / 2)


def score_freedom(freedom: float, unfitted: float) -> float:
    """Return the degrees of freedom of a score's t distribution.

    These are the remaining degrees, divided by the fitted fraction, because only the fit makes the
    variance of a null score uncertain."""
    if unfitted < LITTLE_FITTED:
        return freedom
    return float(min(freedom / max(1 - unfitted, 1e-6), 1e9))
