"""The mean of clipped numbers: exact where the metric asks for it, else between two bounds.

With E clip(X) - lo = integral of P(X >= x) from lo to hi, a metric with `ask = "mean"` has an
unbiased estimate of the integral over each stratum, because each device compares with a constant
that is uniform in it. A metric of edges has the integrand at the edges alone, which bounds the
integral on either side; of whole numbers with an edge at each nothing is left open.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from decoder.numbers.quantities import Interval, Mean, first_edge, of_those_with_data, unit
from decoder.numbers.survival import Survival
from decoder.typing import Floats
from rappor_core.metrics.number import Number


def mean_of(curve: Survival, level: float) -> Mean | None:
    """The mean among devices with data, with its interval; None where the edges give no bound.

    Between two bounds the estimate is their middle: as linear in the shares as they are, it has no
    bias but what the edges leave open. A sum over all devices is not cut to the range, which would
    lift the mean of small numbers under strong noise; a quotient and a geometric mean are.

    Args:
        curve: shares at or above the cuts, of all devices.
        level: of the interval.
    """
    number = curve.counts.number
    first = first_edge(number)
    if number.ask == "mean":
        least = most = strata_weights(number)
        scaled = [math.log(end) for end in number.edges] if number.scale == "log" else number.edges
        low_end, high_end = scaled[0], scaled[-1]
        constant = 0.0
    else:
        edges = number.asked[first:]
        low_end, high_end = (edges[0] if number.negative else 0.0), edges[-1]
        if low_end >= high_end:
            return None
        least, most, constant = _bounds(curve, low_end)
    lower = of_those_with_data(curve, least, 0.0, level)
    upper = of_those_with_data(curve, most, constant, level)
    middle = (lower.estimate + upper.estimate) / 2
    ends = [min(lower.low, middle), max(upper.high, middle)]
    values = np.array([middle, *ends, lower.estimate, upper.estimate]) + low_end
    geometric = number.ask == "mean" and number.scale == "log"
    error = max(lower.std_error, upper.std_error)
    if first or geometric:
        values = np.clip(values, low_end, high_end)
    if geometric:
        values = np.exp(values)
        error *= float(values[0])
    estimate, low, high, lowest, highest = values.tolist()
    return Mean(
        estimate,
        error,
        low,
        high,
        lowest,
        highest,
        geometric=geometric,
        clipped_to=(number.edges[0] if number.ask == "mean" else low_end, number.edges[-1]),
        at_or_above_top=_share_above(curve, level),
    )


def strata_weights(number: Number) -> Floats:
    """Widths of the strata on the scale of the mean, 0 for other questions, (K,)."""
    ends = np.log(number.edges) if number.scale == "log" else np.array(number.edges)
    weights = np.zeros(len(number.asked))
    first = first_edge(number)
    weights[first : first + len(ends) - 1] = np.diff(ends)
    return weights


def _bounds(curve: Survival, low_end: float) -> tuple[Floats, Floats, float]:
    """Weights of the least and the most that the integral can be, and a constant of the most.

    Between two edges the integrand is at least its value at the upper, at most that at the lower;
    below the first edge it is at most 1. Of whole numbers the sum over them has the upper edge
    itself in it.
    """
    number = curve.counts.number
    first = first_edge(number)
    edges = number.asked[first:]
    least, most = np.zeros(len(curve.shares)), np.zeros(len(curve.shares))
    widths = np.diff([low_end, *edges])
    known = 1.0 if number.whole else 0.0  # of each width, what the upper edge tells exactly
    constant = 0.0
    for i, width in enumerate(widths):
        if width == 0:
            continue
        least[first + i] += width
        most[first + i] += known
        if i:
            most[first + i - 1] += width - known
        else:
            constant = float(width - known)
    return least, most, constant


def _share_above(curve: Survival, level: float) -> Interval:
    """The share at the last cut, by Wilson's interval of all devices or Fieller's.

    A normal interval of few reports would be too short at shares near 0 or 1.
    """
    share = of_those_with_data(curve, unit(curve, -1), 0.0, level)
    if first_edge(curve.counts.number):
        return replace(share, low=max(0.0, share.low), high=min(1.0, share.high))
    low, high = (float(ends[-1]) for ends in curve.intervals(level))
    return replace(share, low=low, high=high)
