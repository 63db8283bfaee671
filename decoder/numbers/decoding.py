"""`decode_numbers`: from an aggregate of a metric of numbers to curve, quantiles and mean."""

from __future__ import annotations

import math

import numpy as np

from decoder.decoded_window import window_fields
from decoder.model.counts import collected_repetition
from decoder.numbers.fit import fitted_shares
from decoder.numbers.means import mean_of
from decoder.numbers.quantities import (
    Bin,
    CurvePoint,
    Interval,
    NumberDecoding,
    Quantile,
    first_edge,
    of_those_with_data,
    quantile_ends,
    unit,
)
from decoder.numbers.survival import Survival, cut_counts, survival
from decoder.options import DecodeOptions
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.number import Number

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
MANY = 0.01  # of devices, clipped at the top


def decode_numbers(aggregate: Aggregate, options: DecodeOptions | None = None) -> NumberDecoding:
    """Estimate the distribution of the numbers of a window.

    Args:
        aggregate: of a metric of kind `number`, with its definition.
        options: `level`, `repeats` and `without_cohorts` are used; `alpha` is kept for what is
            said of changes.

    Returns:
        The curve with its intervals, bins, quantiles, the mean, and a smooth picture.

    Raises:
        DecodeError: a metric of another kind, or questions without reports.
    """
    options = options or DecodeOptions()
    aggregate = aggregate.without(options.without_cohorts)
    counts = cut_counts(aggregate)
    bound = collected_repetition(aggregate, options.repeats)
    curve = survival(counts, bound)
    fitted = fitted_shares(counts, max(1.0, curve.kappa))
    number, level = counts.number, options.level
    of_edges = number.ask == "edges"
    points = _points(curve, fitted, level) if of_edges else ()
    mean = mean_of(curve, level)
    return NumberDecoding(
        **window_fields(aggregate),
        number=number,
        level=level,
        alpha=options.alpha,
        repetition=bound,
        kappa=curve.kappa,
        freedom=curve.freedom,
        with_data=with_data(curve, level),
        curve=points,
        bins=_bins(curve, fitted, level) if of_edges else (),
        quantiles=tuple(_quantile(curve, fitted, share, level) for share in QUANTILES),
        mean=mean,
        fitted=fitted,
        warnings=tuple(_warnings(curve, mean is not None and mean.at_or_above_top.low, bound)),
    )


def with_data(curve: Survival, level: float) -> Interval | None:
    """Share of devices that had data; None where no data is the number zero."""
    if not first_edge(curve.counts.number):
        return None
    low, high = curve.intervals(level)
    error = math.sqrt(float(curve.covariance[0, 0]))
    return Interval(float(curve.shares[0]), error, float(low[0]), float(high[0]))


def _points(curve: Survival, fitted: Floats, level: float) -> tuple[CurvePoint, ...]:
    number = curve.counts.number
    first, size = first_edge(number), len(curve.shares)
    low, high = curve.intervals(level)
    band_low, band_high = curve.band(level)
    each = [of_those_with_data(curve, unit(curve, j), 0.0, level) for j in range(size)]
    if first:  # of those with data: bounds of a quotient, joint by Bonferroni
        joint = 1 - (1 - level) / (size - first)
        wide = [of_those_with_data(curve, unit(curve, j), 0.0, joint) for j in range(size)]
        low, high = _clipped(each)
        band_low, band_high = _clipped(wide)
        band_low = np.maximum.accumulate(band_low[::-1])[::-1]
        band_high = np.minimum.accumulate(band_high)
    tail = np.cumsum(fitted[::-1])[::-1]  # share of a cell and all above it
    whole = tail[1] if first else 1.0
    return tuple(
        CurvePoint(
            number.asked[j], each[j].estimate, each[j].std_error, float(low[j]), float(high[j]),
            float(band_low[j]), float(band_high[j]), float(tail[j + 1] / whole),
            round(float(curve.reports[j])),
        )
        for j in range(first, size)
    )  # fmt: skip


def _clipped(several: list[Interval]) -> tuple[Floats, Floats]:
    low = np.clip([one.low for one in several], 0, 1)
    return low, np.clip([one.high for one in several], 0, 1)


def _bins(curve: Survival, fitted: Floats, level: float) -> tuple[Bin, ...]:
    """From each edge to the next, with an open one at either end."""
    number = curve.counts.number
    first, size = first_edge(number), len(curve.shares)
    whole = 1 - fitted[0] if first else 1.0
    bins = []
    for j in range(first - 1, size):
        weights, constant = np.zeros(size), 0.0
        if j < first:
            constant = 1.0
        else:
            weights[j] += 1.0
        if j + 1 < size:
            weights[j + 1] -= 1.0
        share = of_those_with_data(curve, weights, constant, level)
        low, high = np.clip([share.low, share.high], 0, 1).tolist()
        bins.append(
            Bin(
                _lowest(number) if j < first else number.asked[j],
                number.asked[j + 1] if j + 1 < size else None,
                share.estimate,
                share.std_error,
                low,
                high,
                float(fitted[j + 1] / whole),
            )
        )
    return tuple(bins)


def _lowest(number: Number) -> float | None:
    return None if number.negative else 0.0


def _quantile(curve: Survival, fitted: Floats, share: float, level: float) -> Quantile:
    """Its interval by tests at the edges; of jittered questions the far end of the stratum."""
    number = curve.counts.number
    first = first_edge(number)
    asked = number.asked
    lower, upper = quantile_ends(curve, share, 0 if first else None, level)
    low = _lowest(number) if lower < first else asked[lower]
    if number.ask == "mean" and upper < len(asked) - 1:
        upper += 1
    high = asked[upper] if upper < len(asked) else None
    return Quantile(share, low, high, fitted_quantile(number, fitted, share))


def fitted_quantile(number: Number, fitted: Floats, share: float) -> float | None:
    """A quantile of the smooth fit, linear within a bin; None outside the edges, and for strata."""
    if number.ask == "mean":
        return None
    first = first_edge(number)
    edges = np.array(number.asked[first:])
    inside = fitted[first:] / fitted[first:].sum()
    below = np.cumsum(inside)  # share below each edge, then all
    j = int(np.searchsorted(below, share))
    if j >= len(edges):
        return None
    if j == 0 and number.negative:
        return None
    start = edges[j - 1] if j else 0.0
    before = float(below[j - 1]) if j else 0.0
    part = (share - before) / max(float(below[j]) - before, 1e-12)
    if number.scale == "log" and start > 0:
        return float(start * (edges[j] / start) ** part)
    if number.whole:
        return float(min(edges[j] - 1, start + math.floor(part * (edges[j] - start))))
    return float(start + part * (edges[j] - start))


def _warnings(curve: Survival, clipped: float | bool, bound: float) -> list[str]:
    found = []
    if bound > 1 and math.isinf(curve.freedom):
        found.append(
            f"the window spans periods, and no question has two cohorts: intervals are widened by "
            f"the bound {bound:.3g} of how often devices report, instead of by what reports show"
        )
    if clipped > MANY:
        found.append(
            f"at least {100 * clipped:.1f} % of devices are at or above the highest edge: the mean "
            "is of numbers clipped there, and says nothing of how far above they are"
        )
    low, high = curve.intervals(0.95)
    if float(np.median(high - low)) > 0.5:
        found.append(
            "the intervals of the curve are wider than half of all: use more reports, a longer "
            "window, fewer edges, or a larger epsilon"
        )
    return found
