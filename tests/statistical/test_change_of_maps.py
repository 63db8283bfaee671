"""The test for change between two maps holds its level for every kind of report.

Null hypothesis: shares of cells are equal in two windows of three periods, and none or three in ten
devices move. Over 40 pairs of windows, the rejection rate has a standard error of .011 or less; the
bound lies 4.5 of them above 5 %. The test must fail with standard errors half as large.
"""

from datetime import date, timedelta

import numpy as np
import pytest
from scipy.stats import norm

from decoder.comparison.differences import Differences
from decoder.density.cells import Places, places_of
from decoder.density.maps import DensityOptions, estimate_density_series
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from tests.map_draws import PeriodCounts, draw_memo, draw_window
from tests.metric_texts import declaration

DEVICES, PERIODS, PAIRS = 5_000, 3, 40
LEVEL = 0.05
HIGHEST = LEVEL + 4.5 * 0.011
DECLARED = declaration(
    "places", "location", description="x", owner="x", grid="square", box=[0, 0, 4, 4],
    rows=3, columns=3, levels=[0],
)  # fmt: skip
DIALS = "epsilon_infinity = 3.0\nepsilon_one = 2.0\nmax_memoized_values = 4\n"
FILTER = "num_bits = 16\nnum_cohorts = 16\n"
BITS = 'mode = "memo"\nmechanism = "l-osue"\n' + DIALS
KINDS = {
    "one-hot": BITS + 'encoding = "one_hot"\n',
    "filter": BITS + FILTER,
    "symbols": 'mode = "memo"\nencoding = "symbol"\nnum_symbols = 4\nnum_cohorts = 32\n' + DIALS,
    "pairs": BITS + FILTER + "pairs = true\n",
    "window": 'mode = "window"\nwindow = 3\nmax_reports = 2\nepsilon = 2.0\n' + FILTER,
    "once": 'mode = "once"\nepsilon = 2.0\n' + FILTER,
}


def metric_of(kind: str) -> Metric:
    text = DECLARED + KINDS[kind]
    if kind == "pairs":
        text = text.replace("rows = 3\ncolumns = 3", "rows = 2\ncolumns = 2")
    return parse_metrics(text).declared[0]


def window_of(metric: Metric, counts: PeriodCounts, first: int) -> Aggregate:
    """The counts of three periods."""
    begins = date(2026, 1, 1) + timedelta(first)
    ends = begins + timedelta(PERIODS - 1)
    return counts.aggregate(metric, slice(first, first + PERIODS), begins, ends)


def compared(metric: Metric, places: Places, rng, movers: float) -> Differences:
    """Draw two windows, and compare their maps."""
    shares = 1 / np.arange(1, len(places.finest) + 1)
    before = rng.choice(len(shares), DEVICES, p=shares / shares.sum())
    after = np.where(rng.random(DEVICES) < movers, rng.permutation(before), before)
    values = np.repeat(np.stack([before, after], axis=1), PERIODS, axis=1)
    if metric.location.mode == "memo":
        counts, repeats = draw_memo(values, places.finest, metric.params, rng), PERIODS
    else:  # `once`: every device in one of the two windows
        every = PERIODS if metric.location.mode == "window" else 2 * PERIODS
        counts, repeats = draw_window(values, places.finest, metric.params, every, rng), 1
    windows = [[window_of(metric, counts, first)] for first in (0, PERIODS)]
    _, second = estimate_density_series(windows, DensityOptions(repeats=repeats), places)
    return second.since_first


def rejections(one: Differences, errors: float = 1.0) -> float:
    """Share of cells called changed at the level, with standard errors times `errors`."""
    z = np.abs(one.difference / one.std_error) / errors
    return float((2 * norm.sf(z) < LEVEL).mean())


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("kind", KINDS)
def test_the_test_for_change_holds_its_level(kind: str) -> None:
    rng, metric = np.random.default_rng(1), metric_of(kind)
    places = places_of([metric.location])
    found = [compared(metric, places, rng, 0.3 * (i % 2)) for i in range(PAIRS)]
    assert np.mean([rejections(one) for one in found]) < HIGHEST
    assert np.mean([rejections(one, 0.5) for one in found]) > HIGHEST


@pytest.mark.long
@pytest.mark.statistical
def test_the_level_holds_where_every_device_moves() -> None:
    """Each device's permanent noise is then of one window: the variance is largest.

    As if all had stayed, 21 % of cells were called changed.
    """
    rng, metric = np.random.default_rng(1), metric_of("pairs")
    places = places_of([metric.location])
    found = [compared(metric, places, rng, 1.0) for _ in range(PAIRS)]
    assert np.mean([rejections(one) for one in found]) < HIGHEST
