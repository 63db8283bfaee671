"""`NumberDecoding`: curve, bins, quantiles and mean of a metric of numbers, each with an interval.

All quantities are linear in the shares at or above the cuts, or quotients of such (the interval of
Fieller), or found by tests at the edges; none uses a smoothed curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from decoder.decoded_window import DecodedWindow
from decoder.inference.intervals import fieller
from decoder.numbers.survival import Survival
from decoder.typing import Floats
from rappor_core.metrics.number import Number

WINDOWS = (1, 2, 4)  # edges that a test of a quantile pools


@dataclass(frozen=True)
class Interval:
    """An estimate with its standard error and its interval."""

    estimate: float
    std_error: float
    low: float
    high: float


def linear(curve: Survival, weights: Floats, constant: float, level: float) -> Interval:
    """`constant + weights . shares`, with a normal interval (Student's where kappa is measured)."""
    value = constant + float(weights @ curve.shares)
    error = math.sqrt(max(0.0, float(weights @ curve.covariance @ weights)))
    margin = curve.quantile((1 - level) / 2) * error
    return Interval(value, error, value - margin, value + margin)


def of_those_with_data(curve: Survival, weights: Floats, constant: float, level: float) -> Interval:
    """The linear combination `constant + weights . shares` among devices with data, by Fieller's
    interval where some have none.

    constant: of the devices with data.
    """
    if not first_edge(curve.counts.number):
        return linear(curve, weights, constant, level)
    bottom = unit(curve, 0)
    both = np.stack([weights + constant * bottom, bottom])
    parts, covariance = (both @ curve.shares)[:, None], (both @ curve.covariance @ both.T)
    part, whole = ((parts[i], covariance[[i], i]) for i in (0, 1))
    found = fieller(part, whole, covariance[[0], 1], curve.quantile((1 - level) / 2))
    return Interval(*(float(column[0]) for column in found))


def unit(curve: Survival, question: int) -> Floats:
    """The weights (K,) of one question alone."""
    weights = np.zeros(len(curve.shares))
    weights[question] = 1.0
    return weights


def first_edge(number: Number) -> int:
    """Index of the first question that is an edge: before it may be one of having data."""
    return 1 if number.none == "apart" else 0


def quantile_ends(
    curve: Survival, share: float, whole: int | None, level: float
) -> tuple[int, int]:
    """The questions between which the quantile of `share` lies, at the level.

    Going down from the highest question, "no more than `share` is below it" is rejected by the
    pooled score of it and its lower neighbors, until that fails; and up from the lowest likewise.
    What is tested is nested, so the sequence needs no correction; the three pools do.

    Args:
        curve: of all devices.
        share: of the quantile, in (0, 1).
        whole: question that reveals who counts at all ("any data?"), or None for everybody.
        level: of the interval.

    Returns:
        The last question from below whose cut the quantile reaches, -1 for none; and the last from
        above whose cut it does not reach, K for none.
    """
    start = 0 if whole is None else whole + 1
    size = len(curve.shares)
    part = 1.0 if whole is None else float(np.clip(curve.shares[whole], 0, 1))
    wanted = (1 - share) * part
    critical = curve.quantile((1 - level) / 2 / len(WINDOWS))
    score = _pooled_score(curve, wanted, 0.0 if whole is None else (1 - share), whole)
    upper = size
    while upper - 1 >= start and any(
        score(max(start, upper - w), upper) < -critical for w in WINDOWS
    ):
        upper -= 1
    lower = start - 1
    while lower + 1 < size and any(
        score(lower + 1, min(size, lower + 1 + w)) > critical for w in WINDOWS
    ):
        lower += 1
    return (lower if lower >= start else -1), upper


def _pooled_score(
    curve: Survival, wanted: float, factor: float, whole: int | None
) -> Callable[[int, int], float]:
    """The score of "the share at or above these questions is `wanted`", pooled over questions."""
    excess = curve.shares - wanted
    scale = np.sqrt(curve.variance(wanted) / np.maximum(np.diag(curve.covariance), 1e-300))
    covariance = curve.covariance * scale[:, None] * scale[None, :]

    def score(first: int, end: int) -> float:
        weights = np.zeros(len(excess))
        weights[first:end] = curve.reports[first:end] / curve.reports[first:end].sum()
        variance = float(weights @ covariance @ weights)
        if whole is not None:
            variance += factor**2 * float(curve.covariance[whole, whole])
            variance -= 2 * factor * float(weights @ (curve.covariance[:, whole] * scale))
        return float(weights @ excess) / math.sqrt(max(variance, 1e-300))

    return score


@dataclass(frozen=True)
class CurvePoint:
    """Share of the devices with data whose number is at or above an edge.

    estimate: unbiased, not clipped.  low, high: interval of this edge; band_low, band_high: ends
    that hold for all edges together.  fitted: of the picture, a guess.  reports: behind it.
    """

    edge: float
    estimate: float
    std_error: float
    low: float
    high: float
    band_low: float
    band_high: float
    fitted: float
    reports: int


@dataclass(frozen=True)
class Bin:
    """Share of the devices with data whose number is from `lower` to below `upper`.

    lower, upper: None where it is open.  fitted: of the picture, a guess.
    """

    lower: float | None
    upper: float | None
    estimate: float
    std_error: float
    low: float
    high: float
    fitted: float


@dataclass(frozen=True)
class Quantile:
    """The number below which a share of the devices with data is.

    low, high: of the interval, low <= quantile < high; None: below the first, above the last edge.
    fitted: of the picture, a guess; None where it lies outside the edges.
    """

    share: float
    low: float | None
    high: float | None
    fitted: float | None


@dataclass(frozen=True)
class Mean:
    """Mean of the numbers of devices with data, each clipped to `clipped_to`.

    estimate, low, high: where no data is the number zero they are unbiased and may be outside
    `clipped_to`, by chance; of edges the estimate is the middle of `least` and `most`.
    geometric: of logarithms.  least, most: bounds of the estimate, as far as edges leave it open
    for a metric that does not ask for a mean; equal where nothing is open.
    at_or_above_top: share that was clipped above, so that nobody takes the mean for more.
    """

    estimate: float
    std_error: float
    low: float
    high: float
    least: float
    most: float
    geometric: bool
    clipped_to: tuple[float, float]
    at_or_above_top: Interval


@dataclass(frozen=True)
class NumberDecoding(DecodedWindow):
    """A window of a metric of numbers.

    with_data: share of devices that had data, where no data is an answer `apart`; shares of curve,
    bins, quantiles and mean are of those.  level: of the intervals; alpha: at which a change is
    said.  repetition: the bound of it; kappa, freedom: what replicates measured (`Survival`).
    fitted: shares of all cells, no data first, sum 1.
    """

    number: Number
    level: float
    alpha: float
    repetition: float
    kappa: float
    freedom: float
    with_data: Interval | None
    curve: tuple[CurvePoint, ...]
    bins: tuple[Bin, ...]
    quantiles: tuple[Quantile, ...]
    mean: Mean | None
    fitted: Floats
    warnings: tuple[str, ...]
