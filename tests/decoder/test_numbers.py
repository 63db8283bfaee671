"""Numbers in the decoder: shares from counts, quantiles, means and bounds, and what is refused."""

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest

import decoder
from decoder.errors import CandidatesError, DecodeError
from decoder.kinds.number import KIND, numbers_result
from decoder.kinds.result import Question
from decoder.kinds.run import write_result
from decoder.numbers.decoding import fitted_shares
from decoder.numbers.quantities import mean_of, of_those_with_data, quantile_ends
from decoder.numbers.survival import Survival, cut_counts, survival
from decoder.progress import silent
from decoder.typing import Floats
from metric_design.number_kind import mean_error
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from tests.number_draws import aggregate_of, counts_of, metric_of, symbol_chances
from tests.number_populations import POPULATIONS, Population
from tests.number_support import jittered_shares

GEOMETRIC = POPULATIONS[2]
MONDAY = date(2026, 11, 16)


def metric_with(**changes: Any) -> Metric:
    return metric_of(GEOMETRIC, 4.0, **changes)


def expected(metric: Metric, shares: Floats, each: int = 1_000_000) -> Aggregate:
    """Counts that are what is expected, to the nearest report."""
    rows = np.rint(symbol_chances(metric, shares) * each).astype(int)
    rows[:, 0] += each - rows.sum(axis=1)
    reports = (each,) * metric.params.num_cohorts
    return Aggregate(metric.name, metric.params, reports, tuple(map(tuple, rows.tolist())),
                     metric.params_id, MONDAY, MONDAY, metric.to_dict())  # fmt: skip


def falling(metric: Metric) -> Floats:
    return np.linspace(0.95, 0.02, len(metric.details.asked))


@pytest.mark.parametrize("changes", [{}, {"mode": "once"}, {"none": "apart"}])
def test_expected_counts_give_the_shares_back(changes: dict[str, Any]) -> None:
    metric = metric_with(**changes)
    shares = falling(metric)
    curve = survival(cut_counts(expected(metric, shares)), 1.0)
    assert curve.shares == pytest.approx(shares, abs=1e-5)
    low, high = curve.intervals(0.95)
    band_low, band_high = curve.band(0.95)
    assert (band_low <= low).all()
    assert (low < shares).all()
    assert (shares < high).all()
    assert (high <= band_high).all()
    assert (np.diff(band_low) <= 0).all()
    assert (np.diff(band_high) <= 0).all()
    cells = fitted_shares(curve.counts)
    assert cells.sum() == pytest.approx(1)
    assert np.cumsum(cells[::-1])[::-1][1:] == pytest.approx(shares, abs=0.004)


def test_the_covariance_is_that_of_many_draws() -> None:
    """Two questions of one set and of two sets; a tenth of the standard error is allowed for."""
    metric = metric_with(mode="once", num_symbols=4)
    shares, rng = falling(metric), np.random.default_rng(3)
    stride = metric.details.stride(4)
    curves = [
        survival(cut_counts(aggregate_of(metric, shares, 20_000, rng)), 1.0) for _ in range(200)
    ]
    drawn = np.array([curve.shares for curve in curves])
    stated = np.mean([curve.covariance for curve in curves], axis=0)
    found = np.cov(drawn.T)
    for i, j in ((0, 0), (0, stride), (0, 1)):
        scale = math.sqrt(stated[i, i] * stated[j, j])
        assert abs(found[i, j] - stated[i, j]) < 4.9 * scale * math.sqrt(2 / 200)
    assert stated[0, 1] == 0
    assert stated[0, stride] > 0.1 * stated[0, 0]


def test_one_week_has_one_weekly_report() -> None:
    metric = metric_with(period="week")
    counts = expected(metric, falling(metric))
    week = replace(counts, last_day=MONDAY + timedelta(days=6))
    assert decoder.decode_numbers(week).repetition == 1
    two = replace(counts, last_day=MONDAY + timedelta(days=13))
    assert decoder.decode_numbers(two).repetition == 2
    assert decoder.decode_numbers(two, decoder.DecodeOptions(repeats=1.0)).repetition == 1
    assert decoder.decode_numbers(replace(two, first_day=None, last_day=None)).repetition == 1


def test_of_those_with_data_everything_is_a_quotient() -> None:
    metric = metric_with(none="apart")
    edges = np.linspace(0.9, 0.01, len(metric.details.asked) - 1)
    whole = decoder.decode_numbers(expected(metric, np.concatenate([[0.5], 0.5 * edges])))
    assert whole.with_data.estimate == pytest.approx(0.5, abs=1e-4)
    assert [point.estimate for point in whole.curve] == pytest.approx(edges, abs=1e-3)
    assert whole.bins[0].estimate == pytest.approx(0.1, abs=1e-3)
    assert (whole.bins[0].lower, whole.bins[-1].upper) == (0.0, None)
    assert sum(one.estimate for one in whole.bins) == pytest.approx(1)
    assert sum(one.fitted for one in whole.bins) == pytest.approx(1)
    assert whole.mean.estimate == pytest.approx(edges.sum(), abs=0.01)  # whole: sum of the shares
    assert whole.mean.at_or_above_top.estimate == pytest.approx(0.01, abs=1e-3)


def test_means_of_edges_reach_both_bounds() -> None:
    metric = metric_with(whole=False, edges=[1, 2, 4])
    one = decoder.decode_numbers(expected(metric, np.array([0.8, 0.5, 0.1]))).mean
    assert one.least == pytest.approx(0.8 + 0.5 + 2 * 0.1, abs=1e-3)
    assert one.most == pytest.approx(1 + 0.8 + 2 * 0.5, abs=1e-3)
    assert one.low < one.least < one.estimate < one.most < one.high
    assert one.clipped_to == (0.0, 4.0)


def test_what_is_no_metric_of_numbers_is_refused() -> None:
    metric = metric_with()
    counts = expected(metric, falling(metric))
    with pytest.raises(DecodeError, match="is not a number metric"):
        decoder.decode_numbers(replace(counts, definition={}))
    with pytest.raises(CandidatesError, match="not a list of candidates"):
        decoder.metric_candidates(counts)
    with pytest.raises(CandidatesError, match="not a list of candidates"):
        decoder.decode(counts, decoder.Candidates.from_strings(["1", "2"]))
    gone = counts.without(range(0, metric.params.num_cohorts, metric.details.stride(2)))
    with pytest.raises(DecodeError, match="some questions have no reports"):
        decoder.decode_numbers(gone)
    other = expected(metric_with(none="apart"), falling(metric_with(none="apart")))
    with pytest.raises(DecodeError, match="different meanings"):
        decoder.compare_numbers(counts, other)


def test_a_change_is_found_and_named(tmp_path: Any) -> None:
    metric, rng = metric_with(), np.random.default_rng(4)
    shares = falling(metric)
    windows = []
    for number, share in enumerate((shares, shares, np.maximum(shares - 0.15, 0.01))):
        day, counts = MONDAY + timedelta(number), aggregate_of(metric, share, 60_000, rng)
        windows.append(replace(counts, first_day=day, last_day=day))
    series = decoder.decode_numbers_over_time(windows)
    assert [(change.first, change.second) for change in series.changes] == [(0, 1), (1, 2), (0, 2)]
    none, one, ends = series.changes
    assert none.p_any > 1e-4
    assert max(one.p_any, ends.p_any) < 1e-6
    assert set(one.quantities) == {f"{edge:g}" for edge in metric.details.asked}
    assert one.rows.low[20] < -0.15 < one.rows.high[20]
    result = KIND.series(windows, Question())
    paths = write_result(result, KIND, "series", tmp_path, silent)
    assert {path.name for path in paths} >= {"changes.csv", "series.csv", "report.html"}


FEW = Population("few", "linear", 0, 100, 1, False, lambda rng, size: rng.random(size))
COUNTS = Population("counts", "linear", 0, 30, 1, True, lambda rng, size: rng.poisson(0.45, size))
RUNS, LEAST = 250, 0.87
LONG = pytest.mark.long
MODES = "memo", "once"
EIGHT = {"scale": "linear", "from": 0, "to": 100, "bins": 8}


def curves(
    shares: Floats, devices: int, life: float, repetition: float = 1.0, **changes: Any
) -> Iterator[Survival]:
    """In draws in which every question has reports; the others are refused."""
    rng, metric = np.random.default_rng(1), metric_of(FEW, life, **changes)
    made = 0
    while made < RUNS:
        try:
            curve = survival(counts_of(metric, shares, devices, rng), repetition)
        except DecodeError:
            continue
        made += 1
        yield curve


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize(
    ("devices", "mode"),
    [
        (1, "once"),
        (5, "memo"),
        *(pytest.param(*one, marks=LONG) for one in [(5, "once"), *product((20, 60), MODES)]),
    ],
)
def test_shares_with_data_and_medians_are_estimated(devices: int, mode: str, share: float) -> None:
    """40 % have no data; all others are below the edge, or all above."""
    shares, life = np.array([0.6, 0.6 * share]), 8.0 if mode == "memo" else 4.0
    flags, medians = [], []
    for curve in curves(shares, devices, life, none="apart", mode=mode):
        one = of_those_with_data(curve, np.array([0.0, 1.0]), 0.0, 0.95)
        flags.append(one.low <= share <= one.high)
        lower, upper = quantile_ends(curve, 0.5, 0.95)
        medians.append(upper == 2 if share else lower < 1)
    assert np.mean(flags) > LEAST
    assert np.mean(medians) > LEAST


def test_shares_above_the_edges_are_the_curves() -> None:
    """With 300 devices at 8 edges, a normal interval holds in .89; Wilson's in .92 or more."""
    population = Population("wide", "linear", 0, 100, 8, False, lambda rng, size: rng.random(size))
    metric, rng = metric_of(population, 2.0), np.random.default_rng(2)
    shares, flags = np.linspace(0.6, 0.05, 8), []
    for _ in range(2 * RUNS):
        curve = survival(counts_of(metric, shares, 300, rng), 1.0)
        mean = mean_of(curve, 0.95)
        low, high = (float(ends[-1]) for ends in curve.intervals(0.95))
        assert (mean.at_or_above_top.low, mean.at_or_above_top.high) == (low, high)
        flags.append(low <= 0.05 <= high)
    assert np.mean(flags) > 0.92


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("share", [0.0, *(pytest.param(n, marks=LONG) for n in (0.5, 1.0))])
@pytest.mark.parametrize(
    ("devices", "periods"),
    [(2, 1.0), (10, 7.0), *(pytest.param(n, 1.0, marks=LONG) for n in (5, 20))],
)
def test_means_of_few_devices_have_a_width(devices: int, periods: float, share: float) -> None:
    flags = []
    for curve in curves(np.full(2, share), devices, 4.0, periods, ask="mean"):
        mean = mean_of(curve, 0.95)
        assert mean.std_error > 5  # of 0 to 100
        flags.append(mean.low <= 100 * share <= mean.high)
        if periods > 1:
            low, high = curve.intervals(0.95)
            assert curve.kappa >= 1
            assert (high > low).all()
    assert np.mean(flags) > LEAST


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("share", [0.0, pytest.param(1.0, marks=LONG)])
def test_no_change_of_few_devices_is_certain(share: float) -> None:
    metric, rng = metric_of(FEW, 8.0, none="apart"), np.random.default_rng(4)
    shares, p_values, flags = np.array([0.6, 0.6 * share]), [], []
    for _ in range(RUNS):
        before, after = (aggregate_of(metric, shares, 10, rng) for _ in range(2))
        try:
            change = decoder.compare_numbers(before, after)
        except DecodeError:
            continue
        p_values.append(change.p_any)
        flags += ((change.rows.low <= 0) & (change.rows.high >= 0)).tolist()
    assert min(p_values) > 1e-6
    assert np.mean(np.array(p_values) < 0.05) < 0.13
    assert np.mean(flags) > LEAST


@pytest.mark.parametrize("data", [pytest.param(1.0, marks=LONG), 0.7])
@pytest.mark.parametrize("mode", ["memo", "once"])
@pytest.mark.parametrize(
    ("first", "last"),
    [(0.0, 0.2), *(pytest.param(*one, marks=LONG) for one in [(0.0, 1.0), (0.4, 0.6)])],
)
def test_errors_of_means_are_as_checked(first: float, last: float, mode: str, data: float) -> None:
    """Drawn errors of 250 means, apart from no data: at most 1.15 times (3.3 of their errors)."""
    metric = metric_of(FEW, 2.0, ask="mean", mode=mode, none="apart", edges=EIGHT)
    rng = np.random.default_rng(5)
    numbers = 100 * (first + (last - first) * rng.random(100_000))
    shares = np.concatenate([[data], data * jittered_shares(metric, numbers)])
    means = []
    for _ in range(RUNS):
        curve = survival(counts_of(metric, shares, 50_000, rng), 1.0)
        mean = mean_of(curve, 0.95)
        means.append(mean.estimate)
    predicted = 100 * mean_error(metric, 50_000, (first + last) / 2) / data
    assert 0.5 * predicted < np.std(means) < 1.15 * predicted


def test_means_of_coarse_edges_have_no_other_bias() -> None:
    """For counts of .45 on average, 4 standard errors; cut to the range it was .95 of 2,000."""
    metric = metric_of(COUNTS, 2.0, edges=[1, 3, 10, 30], of_period="count", whole=True)
    numbers = np.random.default_rng(1).poisson(0.45, 400_000)
    shares = np.array([(numbers >= edge).mean() for edge in metric.details.asked])
    widths = np.array([1, 2, 7, 20])  # of whole numbers: S at the upper edge counts once in both
    most = 0.0 + shares @ np.ones(4) + np.r_[1.0, shares[:-1]] @ (widths - 1)
    rng, found = np.random.default_rng(2), []
    for _ in range(RUNS):
        mean = mean_of(survival(counts_of(metric, shares, 2_000, rng), 1.0), 0.95)
        assert mean.low <= mean.estimate <= mean.high
        found.append((mean.estimate, mean.low <= numbers.mean() <= mean.high))
    estimates, held = np.array(found).T
    middle = (shares @ widths + most) / 2
    assert abs(estimates.mean() - middle) < 4 * estimates.std() / np.sqrt(RUNS)
    assert held.mean() > LEAST


def test_files_are_the_same_for_the_same_counts(tmp_path: Any) -> None:
    metric = metric_with()
    decoding = decoder.decode_numbers(expected(metric, falling(metric)))
    for folder in ("a", "b"):
        result = numbers_result(decoding, decoder.DecodeOptions())
        write_result(result, KIND, "decode", tmp_path / folder, silent)
    page = (tmp_path / "a" / "report.html").read_text()
    places = [
        page.index(text) for text in ("<span>median", "<span>mean", "Quantiles</h2>", "Bins</h2>")
    ]
    assert places == sorted(places)
    assert [table.name for table in result.printed] == ["quantiles", "mean", "curve"]
    assert result.printed[1].shown(9)[1][-1][1].endswith(" %")
    assert result.summary["headline"].startswith("median ")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
