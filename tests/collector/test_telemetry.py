"""What Prometheus and the log say: counts that add up, and days that close by themselves."""

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collector.telemetry import MULTIPROCESS_DIR, forget_dead_workers
from rappor_server.logs import make_log
from tests.collector.support import TODAY, Server, ServerMaker, make_metric

METRIC = make_metric(min_reports=1)


def value(server: Server, name: str) -> float:
    text = server.http.get("/metrics").text
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def test_counts_add_up(server: Server) -> None:
    body = server.sender.body(
        [
            *server.sender.reports(METRIC, 4),
            server.sender.report(METRIC, cohort=4),
            server.sender.report(METRIC, metric="nothing"),
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
    assert value(server, "rappor_open_days") == METRIC.accept_days + 1
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
    with serving([METRIC], housekeeping_seconds=0.05) as server:
        server.post(server.sender.reports(METRIC, 3))
        server.clock.pass_days(8)
        deadline = time.monotonic() + 20
        while server.http.get("/v1/metrics").json()["metrics"][0]["served"] is None:
            assert time.monotonic() < deadline
        listed = server.http.get("/v1/metrics").json()["metrics"][0]
        assert listed["closed_through"] == str(TODAY)
        assert listed["served"] == {"first_day": str(TODAY), "last_day": str(TODAY)}
        late = server.post(server.sender.reports(METRIC, 1))
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
