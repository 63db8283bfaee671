"""What Prometheus and the log say: counts that add up, and days with far more reports."""

import io
import json
import os
import random
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector import chores
from collector.domain.growth import find_growth, highest_usual
from collector.telemetry import MULTIPROCESS_DIR, forget_dead_workers
from rappor_cli.main import main
from rappor_core.metrics.metric import Metric
from rappor_server.logs import make_log
from tests.collector.support import NOON, TODAY, Bench, Server, ServerMaker, make_metric
from tests.waiting import until

METRIC = make_metric(min_reports=10, accept_days=6)


def test_what_the_next_days_lack_is_listed(bench: Bench) -> None:
    """One report of one cohort, then enough of yesterday: that day is served when it closes."""
    metric = make_metric(min_reports=10, min_reports_per_cohort=3, accept_days=6)
    bench.collector.push_metrics([metric], "test")

    def listed() -> tuple[object, object]:
        (row,) = bench.collector.list_metrics()
        return row["today"], row["next"]

    assert listed() == (0, None)
    bench.send([bench.sender.report(metric, TODAY, cohort=0)])
    closes = str(TODAY + timedelta(days=7))
    assert listed() == (1, {"closes": closes, "missing_reports": 9})
    yesterday = TODAY - timedelta(days=1)
    bench.send([bench.sender.report(metric, yesterday, cohort=n) for n in (1, 2) for _ in range(4)])
    assert listed() == (1, {"closes": closes, "missing_reports": 1})
    bench.collector.close_day(yesterday, "test")  # its eight reports wait for the next day
    assert listed() == (1, {"closes": closes, "missing_reports": 1})
    bench.send([bench.sender.report(metric, TODAY, cohort=0) for _ in range(2)])
    assert listed() == (3, {"closes": closes, "missing_reports": 0})


def test_reports_are_shown_as_they_come(bench, database_url, capsys, monkeypatch) -> None:
    bench.clock.now = datetime.now(UTC)
    today = bench.clock.now.date()
    bench.collector.push_metrics([METRIC], "test")
    report = bench.sender.report(METRIC, today)
    arriving = iter([[report], [], None])

    def wait(_: float) -> None:
        if (reports := next(arriving)) is None:
            raise KeyboardInterrupt
        if reports:
            bench.send(reports)

    monkeypatch.setattr("rappor_cli.metrics.time.sleep", wait)
    assert main(["metrics", "list", "--watch", "--database", database_url]) == 130
    assert capsys.readouterr().out.splitlines() == [
        "homepage: 0 reports accepted, 0 today",
        f"homepage: 1 report accepted, 1 today; decodable on {today + timedelta(days=7)} at the "
        "earliest, missing: 9 reports",
    ]


def _growth(bench: Bench) -> list[tuple[str, int, int]]:
    with bench.database.read() as connection:
        found = find_growth(connection, bench.collector.registry())
    return [(one.day, one.reports, one.usual) for one in found]


def test_a_flood_is_told_and_steadiness_not(bench: Bench) -> None:
    bench.collector.push_metrics([METRIC], "test")
    for days in (5, 4, 3, 2):
        bench.send(bench.sender.reports(METRIC, 100 + days, TODAY - timedelta(days)))
    bench.send(bench.sender.reports(METRIC, 120, TODAY))
    assert _growth(bench) == []
    bench.send(bench.sender.reports(METRIC, 200, TODAY))
    assert _growth(bench) == [(str(TODAY), 320, 104)]


def test_a_flood_stands_in_the_list_of_metrics(bench, database_url, capsys) -> None:
    """The command has the clock of the machine: days are counted from it."""
    bench.clock.now = datetime.now(UTC)
    today = bench.clock.now.date()
    bench.collector.push_metrics([METRIC, make_metric(name="other", min_reports=10)], "test")
    for days in (4, 3, 2):
        bench.send(bench.sender.reports(METRIC, 100, today - timedelta(days)))
    bench.send(bench.sender.reports(METRIC, 1_500, today))
    growing = {row["name"]: row["growing"] for row in bench.collector.list_metrics()}
    result = {"day": str(today), "reports": 1_500, "usual": 100}
    assert growing == {"homepage": [result], "other": []}
    assert main(["metrics", "list", "--database", database_url]) == 0
    said = f"homepage grows: 1,500 reports of {today}, usual are 100"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("mean", [20, 100_000])
def test_steady_populations_give_no_false_alarm(mean: int) -> None:
    """Poisson days with a week's rhythm of 20 %; 10,000 days and no alarm."""
    rng = random.Random(mean)

    def count(day: int) -> float:
        expected = mean * (1.1 if day % 7 < 5 else 0.9)
        return max(0.0, rng.gauss(expected, expected**0.5))

    days = [count(day) for day in range(10_000)]
    alarms = [d for d in range(28, 10_000) if days[d] > highest_usual(days[d - 28 : d])]
    assert alarms == []
    assert 2 * mean > highest_usual(days[:28]) or mean < 100  # twice the usual is reported


def _send(bench: Bench, metric: Metric, days_ago: int, count: int) -> None:
    bench.send(bench.sender.reports(metric, count, TODAY - timedelta(days_ago)))


def test_a_weekly_rhythm_is_no_growth(bench: Bench) -> None:
    """An app of the weekend, four times as busy then: reported each Saturday before."""
    metric = make_metric(min_reports=10, accept_days=30)
    bench.collector.push_metrics([metric], "test")
    for days_ago in range(21, -1, -1):
        busy = (TODAY - timedelta(days_ago)).weekday() >= 5
        _send(bench, metric, days_ago, 200 if busy else 50)
    first_week = {str(TODAY - timedelta(days)) for days in range(15, 22)}
    assert {day for day, _, _ in _growth(bench)} <= first_week  # a rhythm is known after a week
    bench.collector.close_day(TODAY - timedelta(7), "test")
    assert _growth(bench) == []
    _send(bench, metric, 0, 200)
    assert _growth(bench) == [(str(TODAY), 400, 50)]


@pytest.mark.parametrize(("period", "every"), [("week", 7), ("month", 28)])
def test_periodic_reports_on_one_day_are_no_growth(bench: Bench, period: str, every: int) -> None:
    """For places, which state the last day of the period: blocks spread it over all days."""
    metric = make_metric(min_reports=10, accept_days=3, period=period)
    bench.clock.now = NOON - timedelta(3 * every)
    bench.collector.push_metrics([metric], "test")
    for step in (3, 2, 1):
        bench.clock.now = NOON - timedelta(step * every)
        _send(bench, metric, step * every, 100)
    bench.clock.now = NOON
    bench.collector.close_due()
    _send(bench, metric, 0, 110)
    assert _growth(bench) == []
    _send(bench, metric, 0, 100)
    assert [day for day, _, _ in _growth(bench)] == [str(TODAY)] * (every == 7)


def test_a_collector_that_runs_tells_once(serving, capsys, monkeypatch) -> None:
    monkeypatch.setattr(chores, "_GROWTH_SECONDS", 0.0)
    with serving([METRIC], housekeeping_seconds=0.2, log_level="warning") as server:
        for days, reports in ((3, 100), (2, 100), (1, 100), (0, 1_000)):
            server.post(server.sender.reports(METRIC, reports, TODAY - timedelta(days)))
        until(lambda: "rappor_days_growing 1.0" in server.http.get("/metrics").text)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    result = [line for line in lines if line["event"] == "reports_grow"]
    assert [(one["metric"], one["reports"], one["usual"]) for one in result] == [
        ("homepage", 1_000, 100)
    ]


OF_ONE = make_metric(min_reports=1)


def value(server: Server, name: str) -> float:
    text = server.http.get("/metrics").text
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def test_counts_add_up(server: Server) -> None:
    body = server.sender.body(
        [
            *server.sender.reports(OF_ONE, 4),
            server.sender.report(OF_ONE, cohort=4),
            server.sender.report(OF_ONE, metric="nothing"),
        ]
    )
    for _ in range(2):
        server.post_body(body)
    server.post_body(b"{")
    assert value(server, "rappor_reports_accepted_total") == 4
    assert value(server, 'rappor_reports_refused_total{reason="cohort_out_of_range"}') == 1
    assert value(server, 'rappor_reports_refused_total{reason="unknown_metric"}') == 1
    assert value(server, 'rappor_reports_refused_total{reason="day_closed"}') == 0
    assert value(server, "rappor_batches_duplicate_total") == 1
    assert value(server, 'rappor_requests_total{status="200"}') == 2
    assert value(server, 'rappor_requests_total{status="400"}') == 1
    assert value(server, "rappor_commit_seconds_count") == 2
    assert value(server, "rappor_commit_failures_total") == 0
    assert value(server, "rappor_queued_reports") == 0
    assert value(server, "rappor_open_days") == OF_ONE.accept_days + 1
    assert value(server, "rappor_metrics_current") == 1


def test_a_flood_of_warnings_is_one_line() -> None:
    stream, now = io.StringIO(), [0.0]
    log = make_log("info", stream, lambda: now[0])
    for _ in range(50):
        log.warning("request_failed", status=503)
    now[0] = 1.5
    log.warning("request_failed", status=503)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["more_before"] for line in lines] == [0, 49]


def test_days_close_by_themselves(serving: ServerMaker) -> None:
    with serving([OF_ONE], housekeeping_seconds=0.05) as server:
        server.post(server.sender.reports(OF_ONE, 3))
        server.clock.pass_days(8)
        deadline = time.monotonic() + 20
        while server.http.get("/v1/metrics").json()["metrics"][0]["served"] is None:
            assert time.monotonic() < deadline
        listed = server.http.get("/v1/metrics").json()["metrics"][0]
        assert listed["closed_through"] == str(TODAY)
        assert listed["served"] == {"first_day": str(TODAY), "last_day": str(TODAY)}
        late = server.post(server.sender.reports(OF_ONE, 1))
        assert late.json()["results"][0]["reason"] == "day_closed"


def test_the_gauges_of_a_killed_worker_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    kept = {f"gauge_livesum_{os.getpid()}.db", f"counter_{ended.pid}.db"}
    for name in kept | {f"gauge_livesum_{ended.pid}.db", f"gauge_livemax_{ended.pid}.db"}:
        (tmp_path / name).touch()
    monkeypatch.setenv(MULTIPROCESS_DIR, str(tmp_path))
    forget_dead_workers()
    assert {path.name for path in tmp_path.iterdir()} == kept
