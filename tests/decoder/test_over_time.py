"""Series and the test for change."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from decoder import Candidates, metric_candidates
from decoder.errors import DecodeError
from decoder.over_time import compare_windows, decode_over_time
from decoder.series_outputs import write_series
from rappor_core.aggregate import Aggregate
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.draws import draw_aggregate

DAYS = [date(2026, 1, day) for day in (1, 2, 3)]


@pytest.fixture
def windows(make_aggregate, shares):
    moved = shares.copy()
    moved[0], moved[9] = shares[0] - 0.1, shares[9] + 0.1
    each = (shares, shares, moved)
    return [
        replace(
            make_aggregate(seed=20 + i, shares=held, num_reports=100_000), first_day=d, last_day=d
        )
        for i, (held, d) in enumerate(zip(each, DAYS, strict=True))
    ]


def test_a_series_follows_each_value_and_finds_the_change(windows, values, shares, tmp_path):
    series = decode_over_time(windows, Candidates.from_strings(values))
    assert series.values[0] == values[0]
    assert series.shares.shape == (3, len(series.values))
    error = np.abs(series.shares[:2, 0] - shares[0]) / series.std_errors[:2, 0]
    assert error.max() < 5
    steady, moved, overall = series.changes
    assert [(c.first, c.second) for c in series.changes] == [(0, 1), (1, 2), (0, 2)]
    assert overall.p_adjusted[0] < 1e-6
    assert steady.p_adjusted.min() > 0.001
    assert moved.p_adjusted[0] < 1e-6
    assert moved.difference[0] == pytest.approx(-0.1, abs=0.03)
    names = [path.name for path in write_series(series, tmp_path)]
    assert names == ["series.csv", "changes.csv", "series.html"]
    assert (tmp_path / "series.csv").read_text().count("\n") == 1 + 3 * len(series.values)
    assert "changed, p" in (tmp_path / "series.html").read_text()


def test_windows_with_different_empty_cohorts_are_compared_in_those_they_share(windows, values):
    def without(aggregate, cohort):
        reports, counts = list(aggregate.reports_per_cohort), list(aggregate.bit_counts)
        reports[cohort], counts[cohort] = 0, (0,) * aggregate.params.num_bits
        return replace(aggregate, reports_per_cohort=tuple(reports), bit_counts=tuple(counts))

    pair = without(windows[0], 3), without(windows[2], 7)
    change = compare_windows(*pair, Candidates.from_strings(values[:10]))
    assert change.p_value[0] < 1e-6


def test_one_bit_metrics_have_series_too():
    params = RapporParams.rappor(
        num_bits=1,
        num_hashes=1,
        num_cohorts=1,
        prob_f=0,
        prob_p=0.25,
        prob_q=0.75,
        encoding="boolean",
    )
    windows = [
        Aggregate("on", params, (10_000,), ((ones,),), first_day=d, last_day=d)
        for ones, d in zip((4_000, 4_000, 6_000), DAYS, strict=True)
    ]
    series = decode_over_time(windows, metric_candidates(windows[0]))
    assert set(series.values) == {"true", "false"}
    assert series.changes[0].p_adjusted.min() == pytest.approx(1.0)
    assert series.changes[1].p_adjusted.max() < 1e-6


def test_values_that_share_symbols_have_series_too(values, shares):
    rounds = TwoRoundMechanism.symbols(3, 3.0, 2.0)
    params, rng = RapporParams(3, 1, 64, rounds, "symbol"), np.random.default_rng(5)
    moved = shares.copy()
    moved[:2] = shares[0] - 0.1, shares[1] + 0.1
    drawn = (draw_aggregate(values, held, 200_000, params, rng)[0] for held in (shares, moved))
    windows = [replace(a, first_day=d, last_day=d) for a, d in zip(drawn, DAYS, strict=False)]
    series = decode_over_time(windows, Candidates.from_strings(values))
    at = series.values.index(values[0])
    assert np.abs((series.shares[0, at] - shares[0]) / series.std_errors[0, at]) < 5
    assert series.changes[0].difference[at] == pytest.approx(-0.1, abs=0.03)
    assert series.changes[0].p_adjusted[at] < 1e-6


def test_a_single_window_is_no_series(windows, values):
    with pytest.raises(DecodeError, match=r"1 window\(s\)"):
        decode_over_time(windows[:1], Candidates.from_strings(values))
