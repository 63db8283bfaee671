"""Series and the test for change."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from decoder import Candidates
from decoder.comparison.windows import compare_windows, decode_over_time
from decoder.errors import DecodeError
from decoder.kinds.result import Question
from decoder.kinds.run import write_result
from decoder.kinds.values import KIND
from decoder.options import CandidateChoice
from decoder.progress import silent
from rappor_core.aggregate import Aggregate
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor

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


def test_series_follow_values_and_find_the_change(windows, values, shares, tmp_path):
    series = decode_over_time(windows, Candidates.from_strings(values))
    assert series.values[0] == values[0]
    assert series.shares.shape == (3, len(series.values))
    error = np.abs(series.shares[:2, 0] - shares[0]) / series.std_errors[:2, 0]
    assert error.max() < 5
    steady, moved, overall = series.changes
    assert [(c.first, c.second) for c in series.changes] == [(0, 1), (1, 2), (0, 2)]
    assert overall.rows.p_adjusted[0] < 1e-6
    assert steady.rows.p_adjusted.min() > 0.001
    assert moved.rows.p_adjusted[0] < 1e-6
    assert moved.rows.difference[0] == pytest.approx(-0.1, abs=0.03)
    (tmp_path / "words.txt").write_text("\n".join(values))
    question = Question(CandidateChoice(tmp_path / "words.txt"))
    result = KIND.series(windows, question)
    names = {path.name for path in write_result(result, KIND, "series", tmp_path, silent)}
    assert names >= {"series.csv", "changes.csv", "candidates.csv", "report.html"}
    assert (tmp_path / "series.csv").read_text().count("\n") == 1 + 3 * len(series.values)
    assert "changed, p" in (tmp_path / "report.html").read_text()


def test_a_comparison_in_which_nothing_was_found_has_its_page(windows, tmp_path):
    (tmp_path / "words.txt").write_text("nobody\nno one\n")
    result = KIND.compare(
        [windows[0]], [windows[2]], Question(CandidateChoice(tmp_path / "words.txt"))
    )
    write_result(result, KIND, "compare", tmp_path / "out", silent)
    assert "There is no value that both lists hold" in (tmp_path / "out/report.html").read_text()


def test_windows_compare_in_their_shared_cohorts(windows, values):
    def without(aggregate, cohort):
        reports, counts = list(aggregate.reports_per_cohort), list(aggregate.bit_counts)
        reports[cohort], counts[cohort] = 0, (0,) * aggregate.params.num_bits
        return replace(aggregate, reports_per_cohort=tuple(reports), bit_counts=tuple(counts))

    pair = without(windows[0], 3), without(windows[2], 7)
    change = compare_windows(*pair, Candidates.from_strings(values[:10]))
    assert change.p_value[0] < 1e-6


def test_a_single_window_is_no_series(windows, values):
    with pytest.raises(DecodeError, match="1 window: a series needs two"):
        decode_over_time(windows[:1], Candidates.from_strings(values))


def one_hot(counts, day):
    params = rappor(3, 1, 1, 0, 0.25, 0.75, encoding="one_hot")
    definition = {"categories": ["light", "dark", "none"]}
    return Aggregate(
        "theme", params, (10_000,), (counts,), first_day=day, last_day=day, definition=definition
    )


def test_changes_of_categories_go_by_name():
    """From light to none: the order of the list, or a part of it, moves no change to another."""
    pair = one_hot((5_500, 4_000, 3_000), DAYS[0]), one_hot((3_500, 4_000, 5_000), DAYS[1])
    for names in (["none", "light"], ["dark", "none", "light"], ["light", "dark", "none"]):
        change = compare_windows(*pair, Candidates.from_strings(names))
        differences = dict(zip(names, change.difference.tolist(), strict=True))
        assert differences["none"] == pytest.approx(0.4)
        assert differences["light"] == pytest.approx(-0.4)
    series = decode_over_time(pair, Candidates.from_strings(["none", "light"]))
    last = dict(zip(series.values, series.shares[1].tolist(), strict=True))
    assert last["none"] == pytest.approx(0.5)


def test_windows_of_other_parameters_are_not_compared(windows, values):
    params = windows[1].params.replace(hash="md5")
    other = replace(windows[1], params=params)
    with pytest.raises(DecodeError, match="different parameters"):
        compare_windows(windows[0], other, Candidates.from_strings(values))


def test_a_window_without_reports_is_named(windows, values, params):
    m, k = params.num_cohorts, params.num_bits
    empty = replace(windows[1], reports_per_cohort=(0,) * m, bit_counts=((0,) * k,) * m)
    with pytest.raises(DecodeError, match="no reports from 2026-01-02 to 2026-01-02"):
        decode_over_time([windows[0], empty, windows[2]], Candidates.from_strings(values))


def test_rising_unlisted_values_are_no_listed_one():
    """One cohort of 128 bits, 94 values, one unlisted gains 9 points: before, false in half."""
    params = rappor(128, 2, 1, 0, 0.225, 0.775)
    shares = 0.9 / np.arange(1, 61) / (1 / np.arange(1, 61)).sum()
    for seed in range(12):
        rng = np.random.default_rng([7, seed])
        names = [f"{seed} {number}" for number in range(62)]
        listed = names[:54] + [f"{seed} nobody {number}" for number in range(40)]
        pair = [
            draw_aggregate(names, np.append(shares, unlisted), 100_000, params, rng)[0]
            for unlisted in ([0.0, 0.1], [0.09, 0.01])
        ]
        change = compare_windows(*pair, Candidates.from_strings(listed))
        assert change.p_adjusted.min() > 0.05
        assert ((change.low <= 0) & (change.high >= 0)).all()
