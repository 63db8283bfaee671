"""Windows of a series, asked of a collector that refuses some of them."""

from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from collector.domain.aggregates import blocks_of_window
from collector.errors import NotServedError
from collector.store.blocks import BlockRow
from decoder.errors import RemoteError
from decoder.sources.collector_client import ask, ask_json
from decoder.sources.windows import Each, windows_of_collector, windows_of_files
from rappor_cli.text import print_note
from rappor_core.aggregate import Aggregate
from rappor_core.calendar import date_of, day_of
from rappor_core.errors import AggregateError
from tests.decoder.params_support import rappor
from tests.http_server import serving

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
def windows(monkeypatch):
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


def test_merged_days_lengthen_windows_missing_ones_none(windows, capsys):
    served = Served((1, 1), (2, 4), (7, 7))
    assert windows(served, 1, 7) == [(1, 1), (2, 4), (7, 7)]
    assert capsys.readouterr().err == ""


def test_starts_within_merged_days_lose_these_only(windows, capsys):
    assert windows(Served((1, 3), (4, 4), (5, 5)), 2, 5) == [(4, 4), (5, 5)]
    assert "left out 2026-01-02 to 2026-01-03: " in capsys.readouterr().err


def test_ends_within_merged_days_lose_these_only(windows, capsys):
    assert windows(Served((1, 1), (2, 4)), 1, 3) == [(1, 1)]
    assert "left out 2026-01-02 to 2026-01-03: " in capsys.readouterr().err


def test_weeks_end_on_sundays_or_merged_days(windows):
    """2026-01-04 and 11 are Sundays; 11 and 12 were merged."""
    blocks = [(n, n) for n in (1, 2, 3, 4, 6, 9)] + [(11, 12), (13, 13), (18, 18), (20, 20)]
    assert windows(Served(*blocks), 1, 20, Each.WEEK) == [(1, 4), (6, 18), (20, 20)]


def test_days_that_are_open_are_asked_for_once(windows, capsys):
    served = Served((1, 1), (2, 2))
    assert windows(served, 1, 31) == [(1, 1), (2, 2)]
    assert len(served.asked) == 3
    assert "left out 2026-01-03 to 2026-01-31: " in capsys.readouterr().err


def test_nothing_served_is_one_line_that_says_so(windows):
    with pytest.raises(RemoteError, match="no window of metric 'page' is served from 2026-01-03"):
        windows(Served((1, 1)), 3, 5)
    with pytest.raises(RemoteError, match="no window"):
        windows(Served((1, 1)), 5, 3)


def test_other_failures_are_no_empty_days(windows):
    class Gone(Served):
        def fetch(self, *words, **more):
            self.asked.append((date.min, date.min))
            raise RemoteError("the collector answered 401: no valid key")

    gone = Gone((1, 1))
    with pytest.raises(RemoteError, match="401"):
        windows(gone, 1, 31)
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
