"""Series and the test for change."""

from dataclasses import replace
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, t

from collector.domain.aggregates import blocks_of_window
from collector.errors import NotServedError
from collector.store.blocks import BlockRow
from decoder import Candidates
from decoder.comparison.differences import (
    WindowChange,
    corrected,
    corrected_windows,
    decided,
    differences,
    independent,
    more_than,
    no_change,
)
from decoder.comparison.windows import compare_windows, decode_over_time
from decoder.density.cell_changes import corrected_changes
from decoder.density.space_time_model import patterns
from decoder.errors import DecodeError, RemoteError
from decoder.kinds.over_time import chart_csv
from decoder.kinds.result import Question
from decoder.kinds.run import claim, decode_counts, write_result
from decoder.kinds.values import KIND
from decoder.options import CandidateChoice
from decoder.output.charts import sparkline
from decoder.output.series_view import series_chart, windows_between
from decoder.progress import quiet, silent
from decoder.sources.aggregates import AggregateFiles
from decoder.sources.collector_client import ask, ask_json
from decoder.sources.windows import Each, windows_of_collector, windows_of_files
from decoder.typing import Floats
from rappor_cli.text import print_note
from rappor_core.aggregate import Aggregate
from rappor_core.calendar import date_of, day_of
from rappor_core.errors import AggregateError
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor
from tests.http_server import serving

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
    assert "No value on both lists" in (tmp_path / "out/report.html").read_text()


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


CHART_DAYS = [f"2026-11-{day:02}" for day in range(1, 31)]


def content(shares: dict[str, list[float | None]]) -> dict[str, Any]:
    """A series of windows of a day."""
    number = len(next(iter(shares.values())))
    ends = [{"first_day": day, "last_day": day, "reports": 1000} for day in CHART_DAYS[:number]]
    rows = [
        {**ends[i], "string": value, "proportion": one, "std_error": 0.01,
         "low": max(0.0, (one or 0.0) - 0.02), "high": (one or 0.0) + 0.02}
        for value, row in shares.items() for i, one in enumerate(row)
    ]  # fmt: skip
    return {"windows": ends, "level": 0.9, "alpha": 0.1, "rows": rows, "changes": []}


def test_a_linear_axis_begins_at_zero() -> None:
    drawn = series_chart(content({"a": [0.1, 0.2], "b": [0.3, 0.38]}), ["a", "b"])
    assert [tick.text for tick in drawn.up] == ["0 %", "10 %", "20 %", "30 %", "40 %"]
    top, bottom = drawn.frame.top, drawn.frame.bottom
    assert drawn.up[0].at == bottom
    assert drawn.up[-1].at == top
    first, second = drawn.lines[1].runs[0]
    assert first.y == pytest.approx(bottom - 0.75 * (bottom - top), abs=0.01)
    assert first.x < second.x
    assert drawn.level == 0.9


def test_a_window_without_a_share_is_a_gap() -> None:
    drawn = series_chart(content({"a": [0.1, None, 0.2, 0.2]}), ["a"])
    assert [len(run) for run in drawn.lines[0].runs] == [1, 2]
    assert drawn.lines[0].shares[1] is None
    assert len(sparkline([0.1, None, 0.2]).runs) == 2


def test_days_cut_a_chart_and_its_numbers() -> None:
    found = content({"a": [0.1] * 9, "b": [0.2] * 9})
    drawn = series_chart(found, ["a"], CHART_DAYS[2], CHART_DAYS[4])
    assert [name for name, _ in drawn.windows] == CHART_DAYS[2:5]
    assert [number for number, _ in windows_between(found, "", CHART_DAYS[1])] == [0, 1]
    text = chart_csv(found, ["a"], CHART_DAYS[2], CHART_DAYS[4]).decode()
    assert text.count("\n") == 4
    assert '"b"' not in text


GOLDEN = Path(__file__).parents[1] / "golden"
STRINGS = AggregateFiles((GOLDEN / "aggregates" / "strings.json",))
WORDS = Question(CandidateChoice(GOLDEN / "candidates.txt"))


class StoppedError(Exception):
    """Raised by a progress function."""


def test_errors_of_progress_end_a_decoding(tmp_path: Path) -> None:
    folder, reply = tmp_path / "out", list[str]()

    def stopped(stage: str, done: int, total: int) -> None:
        raise StoppedError(stage)

    claim(folder, KIND)
    with pytest.raises(StoppedError):
        decode_counts("decode", [STRINGS.read()], WORDS, stopped, quiet)
    result = decode_counts("decode", [STRINGS.read()], WORDS, lambda s, *_: reply.append(s), quiet)
    assert reply
    with pytest.raises(StoppedError):
        write_result(result, KIND, "decode", folder, stopped)
    assert list(folder.iterdir()) == []


CELLS, SERIES = 50, 1_000


def p_adjusted(shares: Floats) -> Floats:
    """For cells that were measured separately: shares (T, n), each with error 1."""
    tried = patterns(len(shares))
    weights = tried / tried.sum(axis=1, keepdims=True)
    weights -= (1 - tried) / (1 - tried).sum(axis=1, keepdims=True)
    sizes = weights @ shares
    errors = np.sqrt((weights**2).sum(axis=1, keepdims=True))
    return corrected_changes(tried, sizes, np.broadcast_to(errors, sizes.shape))


def test_windows_are_told_by_their_pattern() -> None:
    """One cell from the fourth week on, one in the second week alone, one in neither."""
    shares = np.zeros((6, CELLS))
    shares[3:, 0] = 8.0
    shares[1, 1] = -8.0
    found = p_adjusted(shares)
    assert np.flatnonzero((found <= 0.01).any(axis=0)).tolist() == [0, 1]
    assert (found[:, 1] <= 0.01).tolist() == [False, True, False, False, False, False]
    assert (found[3:, 0] <= 0.01).all()
    assert (found[:, 2:] == 1).all()


def test_a_step_tells_all_windows_above() -> None:
    shares = np.zeros((8, CELLS))
    shares[5:, 0] = 20.0, 20.0, 12.0
    found = p_adjusted(shares)[:, 0]
    assert (found[:5] == 1).all()
    assert (found[5:] < 1e-6).all()


@pytest.mark.parametrize("windows", [2, 3, 6])
def test_the_chance_of_any_change_is_alpha(windows: int) -> None:
    """1,000 series in which nothing changes; 4.5 standard errors above the level are allowed."""
    rng = np.random.default_rng(windows)
    least = [p_adjusted(rng.normal(size=(windows, CELLS))).min() for _ in range(SERIES)]
    for alpha in (0.01, 0.05, 0.2):
        wrong = np.mean(np.array(least) <= alpha)
        assert wrong < alpha + 4.5 * np.sqrt(alpha * (1 - alpha) / SERIES)
    assert np.mean(np.array(least) <= 0.2) > 0.08


def test_a_difference_has_the_error_of_both_windows() -> None:
    old = np.array([0.10, 0.2]), np.array([0.003, 0.004])
    new = np.array([0.12, 0.2]), np.array([0.004, 0.003])
    found = differences(*independent(old, new))
    assert found.difference == pytest.approx([0.02, 0.0])
    assert found.std_error == pytest.approx([0.005, 0.005])
    half = norm.isf(0.05 / 2 / 2) * 0.005  # one of two is detected
    assert found.low == pytest.approx([0.02 - half, -half])
    assert found.p_value[0] == pytest.approx(2 * norm.sf(4))
    assert found.p_adjusted == pytest.approx([4 * norm.sf(4), 1.0])
    assert found.detected.tolist() == [True, False]


def test_few_degrees_of_freedom_widen_intervals_and_tests() -> None:
    change, error = np.array([0.03]), np.array([0.01])
    found = differences(change, error, alpha=0.1, freedom=5)
    assert found.high[0] == pytest.approx(0.03 + t.ppf(0.95, 5) * 0.01)
    assert found.p_value[0] == pytest.approx(2 * t.sf(3, 5))


def test_a_reserved_value_is_tested_by_itself() -> None:
    change, error = np.array([0.02, 0.5]), np.array([0.01, 0.01])
    alone = np.array([False, True])
    found = differences(change, error, apart=alone)
    assert found.detected.tolist() == [True, True]
    assert found.p_adjusted[0] == pytest.approx(found.p_value[0])
    together = corrected(no_change(np.array([0.02, 0.02]), error), "bonferroni")
    assert not together.detected.any()


def test_a_bound_is_part_of_the_hypothesis() -> None:
    change, error = np.array([0.03, -0.03, 0.001]), np.full(3, 0.01)
    assert more_than(0.01, change, error) == pytest.approx([2 * norm.sf(2)] * 2 + [1.0])
    assert no_change(change, np.array([0.0, np.nan, 0.01]))[:2].tolist() == [1.0, 1.0]


PARAMS = rappor(2, 1, 1, 0, 0.25, 0.75)


def day(of_january: int) -> date:
    return date(2026, 1, of_january)


class Served:
    """Answers by the collector's own rules, with these blocks (first day, last day)."""

    def __init__(self, *blocks: tuple[int, int]) -> None:
        ends = [tuple(day_of(day(one)) for one in block) for block in blocks]
        self.blocks = [BlockRow(0, 0, first, last, 1_000, True) for first, last in ends]
        metric = SimpleNamespace(name="page", min_reports=1_000, cohort_floor=100, accept_days=7)
        self.entry = SimpleNamespace(
            metric=metric, closed_through=ends[-1][1], closes=lambda of: of + 8
        )
        self.asked: list[tuple[date, date]] = []

    def fetch(self, collector, metric, *, first, last):
        self.asked.append((first, last))
        try:
            inside = blocks_of_window(self.entry, self.blocks, first, last)
        except NotServedError as refusal:
            raise RemoteError(str(refusal), refusal.details) from refusal
        ends = date_of(inside[0].first_day), date_of(inside[-1].last_day)
        return Aggregate(metric, PARAMS, (9,), ((1, 2),), first_day=ends[0], last_day=ends[1])


@pytest.fixture
def served_windows(monkeypatch):
    def ask(served, first, last, each=Each.DAY):
        monkeypatch.setattr("decoder.sources.windows.fetch_aggregate", served.fetch)
        found = windows_of_collector(
            "http://127.0.0.1:1", "page", each, day(first), day(last), print_note
        )
        return [(one.first_day.day, one.last_day.day) for one in found]

    return ask


def test_files_without_days_join_no_series():
    dated = Aggregate("page", PARAMS, (9,), ((1, 2),), first_day=day(5), last_day=day(5))
    undated = Aggregate("page", PARAMS, (9,), ((1, 2),))
    with pytest.raises(AggregateError, match="has no first_day and last_day"):
        windows_of_files([dated, undated], Each.DAY)


def test_merged_days_lengthen_windows_missing_ones_none(served_windows, capsys):
    served = Served((1, 1), (2, 4), (7, 7))
    assert served_windows(served, 1, 7) == [(1, 1), (2, 4), (7, 7)]
    assert capsys.readouterr().err == ""


def test_starts_within_merged_days_lose_these_only(served_windows, capsys):
    assert served_windows(Served((1, 3), (4, 4), (5, 5)), 2, 5) == [(4, 4), (5, 5)]
    assert "left out 2026-01-02 to 2026-01-03: " in capsys.readouterr().err


def test_ends_within_merged_days_lose_these_only(served_windows, capsys):
    assert served_windows(Served((1, 1), (2, 4)), 1, 3) == [(1, 1)]
    assert "left out 2026-01-02 to 2026-01-03: " in capsys.readouterr().err


def test_weeks_end_on_sundays_or_merged_days(served_windows):
    blocks = [(n, n) for n in (1, 2, 3, 4, 6, 9)] + [(11, 12), (13, 13), (18, 18), (20, 20)]
    assert served_windows(Served(*blocks), 1, 20, Each.WEEK) == [(1, 4), (6, 18), (20, 20)]


def test_days_that_are_open_are_asked_for_once(served_windows, capsys):
    served = Served((1, 1), (2, 2))
    assert served_windows(served, 1, 31) == [(1, 1), (2, 2)]
    assert len(served.asked) == 3
    assert "left out 2026-01-03 to 2026-01-31: " in capsys.readouterr().err


def test_nothing_served_is_one_line_that_says_so(served_windows):
    with pytest.raises(RemoteError, match="no window of metric 'page' is served from 2026-01-03"):
        served_windows(Served((1, 1)), 3, 5)
    with pytest.raises(RemoteError, match="no window"):
        served_windows(Served((1, 1)), 5, 3)


def test_other_failures_are_no_empty_days(served_windows):
    class Gone(Served):
        def fetch(self, *words, **more):
            self.asked.append((date.min, date.min))
            raise RemoteError("the collector answered 401: no valid key")

    gone = Gone((1, 1))
    with pytest.raises(RemoteError, match="401"):
        served_windows(gone, 1, 31)
    assert len(gone.asked) == 1


class Target(HTTPServer):
    """Answers with `status` and a Location; what came is in `keys`."""

    def __init__(self, status: int, location: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.location = status, location
        self.keys: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        target = self.server
        target.keys.append(self.headers["Authorization"])
        self.send_response(target.status)
        self.send_header("Location", target.location)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None: ...


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(status: int) -> None:
    with serving(Target(200, "")) as stranger, serving(Target(status, stranger.url)) as collector:
        for asking in (ask, ask_json):
            with pytest.raises(RemoteError, match=f"answered {status}: it sends on to another"):
                asking(collector.url, "/v1/metrics", key="rk_secret")
        assert collector.keys == ["Bearer rk_secret"] * 2
        assert stranger.keys == []


def test_an_interval_agrees_with_the_decision() -> None:
    rng, error = np.random.default_rng(5), np.full(40, 0.01)
    for moved in (0, 1, 12):
        change = rng.normal(0, 0.01, 40) + 0.03 * (np.arange(40) < moved)
        rows = differences(change, error)
        found, separate = (
            corrected_windows([WindowChange(0, 1, ("",) * 20, rows.of(half)) for half in halves])
            for halves in (np.split(np.arange(40), 2), [np.arange(20)] * 2)
        )
        for one in (rows, *(pair.rows for pair in (*found, *separate))):
            assert (one.detected == ((one.low > 0) | (one.high < 0))).all()
        assert np.concatenate([pair.rows.low for pair in found]) == pytest.approx(rows.low)


def test_an_interval_reaches_0_where_another_rule_shows_no_change() -> None:
    rows = decided(differences(np.array([0.05, -0.05]), np.full(2, 0.01)), np.ones(2), 0.05)
    assert (rows.low[0], rows.high[1], rows.detected.any()) == (0, 0, False)
