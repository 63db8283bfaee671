"""Shares among those of one origin: ratios of sums, with Fieller's intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from decoder.flows.moments import Moments, Together
from decoder.typing import Flags, Floats

_HALVINGS = 30


def less(part: Moments, whole: Moments, both: Together, ratio: Floats) -> Moments:
    """Moments of part - ratio * whole, row by row."""
    square = ratio**2
    return Moments(
        part.fitted - ratio * whole.fitted,
        part.departure - ratio * whole.departure,
        part.prior - 2 * ratio * both.prior + square * whole.prior,
        part.variance - 2 * ratio * both.variance + square * whole.variance,
        part.covariance - ratio * (both.forward + both.backward) + square * whole.covariance,
        part.gravity_variance - 2 * ratio * both.gravity + square * whole.gravity_variance,
    )


def ratios(
    part: Moments, whole: Moments, both: Together, quantile: float
) -> tuple[Floats, Floats, Floats]:
    """Ratios within 0 and 1, and the ends of those that a test of part = ratio * whole accepts.

    Args:
        part, whole, both: moments.
        quantile: of the normal distribution, of half of the level left out.

    Returns:
        Ratio, lower and upper end, (rows,) each; ends of 0 and 1 where nothing is told.
    """
    size = len(part.fitted)

    def deviation(ratio: Floats) -> Floats:
        value, error = less(part, whole, both, ratio).cavity()
        return np.asarray(value / error)  # falls as the ratio rises

    found = _crossing(lambda ratio: deviation(ratio) > 0, np.zeros(size), np.ones(size))
    low = _crossing(lambda ratio: deviation(ratio) > quantile, np.zeros(size), found)
    high = _crossing(lambda ratio: deviation(ratio) > -quantile, found, np.ones(size))
    return found, low, high


def _crossing(above: Callable[[Floats], Flags], low: Floats, high: Floats) -> Floats:
    """Where `above` turns false between two ends, by halving; an end where it does not."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        still = above(middle)
        low, high = np.where(still, middle, low), np.where(still, high, middle)
    return (low + high) / 2
