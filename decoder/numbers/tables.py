"""`NumberDecoding`: curve, bins, quantiles and mean of a metric of numbers, with warnings."""

from __future__ import annotations

from dataclasses import dataclass

from decoder.decoded_window import DecodedWindow
from decoder.numbers.quantities import Interval
from decoder.typing import Floats
from rappor_core.metrics.number import Number


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
