"""Numbers in the decoder: shares from counts, quantiles, means and bounds, and what is refused."""

import math
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from decoder import (
    Candidates,
    DecodeOptions,
    compare_numbers,
    decode,
    decode_numbers,
    decode_numbers_over_time,
    metric_candidates,
)
from decoder.errors import CandidatesError, DecodeError
from decoder.kinds.number import KIND, numbers_result
from decoder.kinds.result import Question
from decoder.kinds.run import write_result
from decoder.numbers.decoding import fitted_shares
from decoder.numbers.quantities import quantile_ends
from decoder.numbers.survival import cut_counts, survival
from decoder.progress import silent
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from tests.number_draws import aggregate_of, metric_of, symbol_chances
from tests.number_populations import POPULATIONS

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
    """Of two questions of one set and of two sets; a tenth of the standard error is allowed for."""
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


def test_quantiles_of_many_reports_are_their_bins() -> None:
    metric = metric_with()
    shares = falling(metric)  # P(below the edge) = 0.05 at 1, then steps of 0.0238
    curve = survival(cut_counts(expected(metric, shares)), 1.0)
    for share in (0.03, 0.2, 0.5, 0.97, 0.99):
        lower, upper = quantile_ends(curve, share, 0.95)
        below = np.flatnonzero(1 - shares < share)
        assert lower == (below[-1] if len(below) else -1)
        assert upper == lower + 1


def test_one_week_has_one_weekly_report() -> None:
    metric = metric_with(period="week")
    counts = expected(metric, falling(metric))
    week = replace(counts, last_day=MONDAY + timedelta(days=6))
    assert decode_numbers(week).repetition == 1
    two = replace(counts, last_day=MONDAY + timedelta(days=13))
    assert decode_numbers(two).repetition == 2
    assert decode_numbers(two, DecodeOptions(repeats=1.0)).repetition == 1
    assert decode_numbers(replace(two, first_day=None, last_day=None)).repetition == 1


def test_of_those_with_data_everything_is_a_quotient() -> None:
    metric = metric_with(none="apart")
    edges = np.linspace(0.9, 0.01, len(metric.details.asked) - 1)
    whole = decode_numbers(expected(metric, np.concatenate([[0.5], 0.5 * edges])))
    assert whole.with_data is not None
    assert whole.with_data.estimate == pytest.approx(0.5, abs=1e-4)
    assert [point.estimate for point in whole.curve] == pytest.approx(edges, abs=1e-3)
    assert whole.bins[0].estimate == pytest.approx(0.1, abs=1e-3)
    assert (whole.bins[0].lower, whole.bins[-1].upper) == (0.0, None)
    assert sum(one.estimate for one in whole.bins) == pytest.approx(1)
    assert sum(one.fitted for one in whole.bins) == pytest.approx(1)
    assert whole.mean is not None
    assert whole.mean.estimate == pytest.approx(edges.sum(), abs=0.01)  # whole: sum of the shares
    assert whole.mean.at_or_above_top.estimate == pytest.approx(0.01, abs=1e-3)


def test_means_of_edges_reach_both_bounds() -> None:
    metric = metric_with(whole=False, edges=[1, 2, 4])
    one = decode_numbers(expected(metric, np.array([0.8, 0.5, 0.1]))).mean
    assert one is not None
    assert one.least == pytest.approx(0.8 + 0.5 + 2 * 0.1, abs=1e-3)
    assert one.most == pytest.approx(1 + 0.8 + 2 * 0.5, abs=1e-3)
    assert one.low < one.least < one.estimate < one.most < one.high
    assert one.clipped_to == (0.0, 4.0)


def test_clipping_is_said() -> None:
    metric = metric_with(ask="mean", whole=False)  # strata of width 1
    shares = np.linspace(0.9, 0.3, len(metric.details.asked))
    decoding = decode_numbers(expected(metric, shares))
    assert any("numbers clipped there" in warning for warning in decoding.warnings)
    assert decoding.mean is not None
    assert not decoding.mean.geometric
    assert decoding.mean.estimate == pytest.approx(shares[:-1].sum(), abs=0.01)
    assert decoding.curve == decoding.bins == ()


def test_what_is_no_metric_of_numbers_is_refused() -> None:
    metric = metric_with()
    counts = expected(metric, falling(metric))
    with pytest.raises(DecodeError, match="is not one of numbers"):
        decode_numbers(replace(counts, definition={}))
    with pytest.raises(CandidatesError, match="not a list of candidates"):
        metric_candidates(counts)
    with pytest.raises(CandidatesError, match="not a list of candidates"):
        decode(counts, Candidates.from_strings(["1", "2"]))
    gone = counts.without(range(0, metric.params.num_cohorts, metric.details.stride(2)))
    with pytest.raises(DecodeError, match="some questions have no reports"):
        decode_numbers(gone)
    other = expected(metric_with(none="apart"), falling(metric_with(none="apart")))
    with pytest.raises(DecodeError, match="different meanings"):
        compare_numbers(counts, other)


def test_cohorts_left_out_do_not_count() -> None:
    metric = metric_with()
    counts = expected(metric, falling(metric))
    poor = [list(row) for row in counts.bit_counts]
    poor[3] = [counts.reports_per_cohort[3], 0]  # follows no model
    spoilt = replace(counts, bit_counts=tuple(map(tuple, poor)))
    right = decode_numbers(counts).curve[3].estimate
    assert abs(decode_numbers(spoilt).curve[3].estimate - right) > 0.05
    kept = decode_numbers(spoilt, DecodeOptions(without_cohorts=(3,)))
    assert kept.curve[3].estimate == pytest.approx(right, abs=1e-4)


def test_a_change_is_found_and_named(tmp_path: Any) -> None:
    metric, rng = metric_with(), np.random.default_rng(4)
    shares = falling(metric)
    windows = [
        replace(
            aggregate_of(metric, share, 60_000, rng),
            first_day=MONDAY + timedelta(days=number),
            last_day=MONDAY + timedelta(days=number),
        )
        for number, share in enumerate((shares, shares, np.maximum(shares - 0.15, 0.01)))
    ]
    series = decode_numbers_over_time(windows)
    assert [(change.first, change.second) for change in series.changes] == [(0, 1), (1, 2), (0, 2)]
    none, one, ends = series.changes
    assert none.p_any > 1e-4
    assert max(one.p_any, ends.p_any) < 1e-6
    assert set(one.quantities) == {f"{edge:g}" for edge in metric.details.asked}
    assert one.rows.low[20] < -0.15 < one.rows.high[20]
    result = KIND.series(windows, Question())
    paths = write_result(result, KIND, "series", tmp_path, silent)
    assert {path.name for path in paths} >= {"changes.csv", "series.csv", "report.html"}


def test_files_are_the_same_for_the_same_counts(tmp_path: Any) -> None:
    metric = metric_with()
    decoding = decode_numbers(expected(metric, falling(metric)))
    for folder in ("a", "b"):
        result = numbers_result(decoding, DecodeOptions())
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
