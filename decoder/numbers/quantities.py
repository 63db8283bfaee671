"""`NumberDecoding`: the curve, bins, quantiles and mean of a number metric, with intervals.

All quantities are linear in the shares at or above the cuts, or quotients of linear quantities
(Fieller's interval), or based on tests at the edges. None uses a smoothed curve."""

import math
from dataclasses import dataclass, replace

import numpy as np

from decoder.decoded_window import DecodedWindow
from decoder.inference.intervals import fieller
from decoder.numbers.survival import Survival, first_edge
from decoder.typing import Floats
from rappor_core.metrics.number import Number

WINDOWS = (1, 2, 4)  # numbers of edges that a test of a quantile pools


@dataclass(frozen=True)
class Interval:
    """An estimate with its standard error and its interval."""

    estimate: float
    std_error: float
    low: float
    high: float


@dataclass(frozen=True)
class CurvePoint:
    """The unbiased share of the devices with data at or above an edge."""

    edge: float
    estimate: float
    std_error: float
    low: float
    high: float
    band_low: float  # Lower end that is valid for all edges together
    band_high: float
    fitted: float  # From the best-fit curve, without guarantee
    reports: int


@dataclass(frozen=True)
class Bin:
    """The share of the devices with data from `lower` to below `upper` (None if open)."""

    lower: float | None
    upper: float | None
    estimate: float
    std_error: float
    low: float
    high: float
    fitted: float


@dataclass(frozen=True)
class Quantile:
    """The number below which a given share of devices with data lies: low <= quantile < high.

    An end is None if it is beyond the edges."""

    share: float
    low: float | None
    high: float | None
    fitted: float | None  # From the best-fit curve, without guarantee


@dataclass(frozen=True)
class Mean:
    """The mean of the numbers of devices with data, each clipped to `clipped_to`.

    If devices without data count as zero, the mean is unbiased and may by chance be outside
    `clipped_to`. If the edges do not determine the mean, the estimate is the middle of its bounds.
    """

    estimate: float
    std_error: float
    low: float
    high: float
    least: float  # Lower bound of the estimate
    most: float
    geometric: bool  # Whether the mean is a geometric mean
    clipped_to: tuple[float, float]
    at_or_above_top: Interval  # The share that was clipped at the top


@dataclass(frozen=True)
class NumberDecoding(DecodedWindow):
    """A decoded window of a number metric."""

    number: Number
    level: float
    alpha: float
    repetition: float  # A bound of the repetition
    kappa: float  # Measured from replicates, as is `freedom` (`Survival`)
    freedom: float
    with_data: Interval | None  # Share of devices with data, if asked; all else is among these
    curve: tuple[CurvePoint, ...]
    bins: tuple[Bin, ...]
    quantiles: tuple[Quantile, ...]
    mean: Mean | None
    fitted: Floats  # The shares of all cells ("no data" first), which sum to 1
    warnings: tuple[str, ...]


def of_those_with_data(curve: Survival, weights: Floats, constant: float, level: float) -> Interval:
    """Estimate `constant + weights . shares` among devices with data, with an interval.

    The interval is normal (Student's if kappa is measured), or Fieller's if some devices have no
    data."""
    quantile = curve.quantile((1 - level) / 2)
    if not first_edge(curve.counts.number):
        value = constant + float(weights @ curve.shares)
        error = math.sqrt(max(0.0, float(weights @ curve.covariance @ weights)))
        return Interval(value, error, value - quantile * error, value + quantile * error)
    bottom = np.eye(1, len(weights))[0]
    both = np.stack([weights + constant * bottom, bottom])
    parts, covariance = (both @ curve.shares)[:, None], (both @ curve.covariance @ both.T)
    part, whole = ((parts[i], covariance[[i], i]) for i in (0, 1))
    ratio = fieller(part, whole, covariance[[0], 1], quantile)
    return Interval(*(float(column[0]) for column in ratio))


def quantile_ends(curve: Survival, share: float, level: float) -> tuple[int, int]:
    """Return the last questions, from below and from above, that the tests for a quantile reject.

    The first is the highest question whose cut the quantile reaches, -1 for none; the second is the
    lowest question whose cut it does not reach, K for none. Downward from the highest question, "no
    more than `share` is below it" is tested by the pooled score of the question and its lower
    neighbors, until it is not rejected; and likewise upward from the lowest. The tests are nested,
    so the sequence needs no correction, but the three pools do.

    Args:
        curve: The curve of all devices.
        share: The share of devices with data below the quantile, in (0, 1).
        level: The level of the interval.
    """
    start, size = first_edge(curve.counts.number), len(curve.shares)
    target, factor = 1 - share, (1 - share) * bool(start)
    if start:
        target *= float(np.clip(curve.shares[0], 0, 1))
    critical = curve.quantile((1 - level) / 2 / len(WINDOWS))
    excess = curve.shares - target
    scale = np.sqrt(curve.variance(target) / np.maximum(np.diag(curve.covariance), 1e-300))
    covariance = curve.covariance * scale[:, None] * scale[None, :]

    def score(first: int, end: int) -> float:
        """Return the z-score of "the share at or above is `target`", pooled over questions."""
        weights = np.zeros(size)
        weights[first:end] = curve.reports[first:end] / curve.reports[first:end].sum()
        variance = float(weights @ covariance @ weights)
        variance += factor**2 * float(curve.covariance[0, 0])
        variance -= 2 * factor * float(weights @ (curve.covariance[:, 0] * scale))
        return float(weights @ excess) / math.sqrt(max(variance, 1e-300))

    upper, lower = size, start
    while upper > start and any(score(max(start, upper - w), upper) < -critical for w in WINDOWS):
        upper -= 1
    while lower < size and any(score(lower, min(size, lower + w)) > critical for w in WINDOWS):
        lower += 1
    return (lower - 1 if lower > start else -1), upper


def mean_of(curve: Survival, level: float) -> Mean | None:
    """Estimate the mean of clipped numbers among devices with data; None if edges do not bound it.

    With E clip(X) - lo = integral of P(X >= x) from lo to hi, a metric with `ask = "mean"` has an
    unbiased estimate of the integral over each stratum, because each device compares with a
    constant that is uniform in it. A metric of edges has the integrand at the edges alone, which
    bounds the integral on either side. A sum over all devices is not clipped to the range, which
    would lift the mean of small numbers under strong noise; a quotient and a geometric mean are."""
    number = curve.counts.number
    first, has_strata, constant = first_edge(number), number.ask == "mean", 0.0
    geometric = has_strata and number.scale == "log"
    if has_strata:
        least = most = strata_weights(number)
        ends = [math.log(end) for end in number.edges] if geometric else number.edges
        low_end, high_end = ends[0], ends[-1]
    else:
        low_end = number.asked[first] if number.negative else 0.0
        high_end = number.asked[-1]
        if low_end >= high_end:
            return None
        least, most, constant = _bounds(curve, low_end)
    lower = of_those_with_data(curve, least, 0.0, level)
    upper = of_those_with_data(curve, most, constant, level)
    middle = (lower.estimate + upper.estimate) / 2
    interval = [middle, min(lower.low, middle), max(upper.high, middle)]
    values = np.array([*interval, lower.estimate, upper.estimate]) + low_end
    error = max(lower.std_error, upper.std_error)
    if first or geometric:
        values = np.clip(values, low_end, high_end)
    if geometric:
        values = np.exp(values)
        error *= float(values[0])
    estimate, low, high, lowest, highest = values.tolist()
    clipped_to = (number.edges[0] if has_strata else low_end, number.edges[-1])
    top = of_those_with_data(curve, np.eye(len(curve.shares))[-1], 0.0, level)
    if first:
        top = replace(top, low=max(0.0, top.low), high=min(1.0, top.high))
    else:  # Wilson's: a normal interval of few reports is too short at shares near 0 or 1
        above, below = (float(ends[-1]) for ends in curve.intervals(level))
        top = replace(top, low=above, high=below)
    return Mean(estimate, error, low, high, lowest, highest,
                geometric=geometric, clipped_to=clipped_to, at_or_above_top=top)  # fmt: skip


def strata_weights(number: Number) -> Floats:
    """Return the widths (K,) of the strata on the mean's scale; 0 for other questions."""
    ends = np.log(number.edges) if number.scale == "log" else np.array(number.edges)
    weights = np.zeros(len(number.asked))
    first = first_edge(number)
    weights[first : first + len(ends) - 1] = np.diff(ends)
    return weights


def _bounds(curve: Survival, low_end: float) -> tuple[Floats, Floats, float]:
    """Return the weights for the integral's minimum and maximum, and the maximum's constant.

    They use the values at the upper and the lower edges, and 1 below the first edge."""
    number = curve.counts.number
    first = first_edge(number)
    widths = np.diff([low_end, *number.asked[first:]])
    exact = np.where(widths > 0, float(number.whole), 0.0)  # the part known from the upper edge
    least, most = np.zeros(len(curve.shares)), np.zeros(len(curve.shares))
    least[first:] = widths
    most[first:] = exact
    most[first:-1] += (widths - exact)[1:]
    return least, most, float(widths[0] - exact[0])
