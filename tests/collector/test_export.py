"""Raw reports: exported of closed days, whole, to admins, and noted; nothing else leaves."""

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from collector import chores
from collector.domain import raw_blocks
from collector.domain.raw_blocks import RawBlocks, find_expiring
from collector.errors import NotServedError
from rappor_cli.main import main
from rappor_core.calendar import date_of, day_of
from rappor_core.wire.json import decode_json
from rappor_core.wire.report import Report
from tests.collector.support import TODAY, Bench, Clock, make_metric
from tests.waiting import until

KEPT = make_metric("kept", keep_raw_days=30, accept_days=2, num_bits=20, min_reports=1)
YESTERDAY = TODAY - timedelta(days=1)


def read_lines(text: str) -> list[Report]:
    """The lines put into a batch again, read by the decoder of the wire."""
    fields = [json.loads(line) for line in text.splitlines()]
    batch = {"version": 1, "batch_id": "0" * 32, "reports": fields}
    body = json.dumps(batch).encode()
    return list(decode_json(body).ungrouped().reports)


def exported(bench: Bench, **window: Any) -> list[Report]:
    count, pages = bench.collector.export_reports("test", KEPT.name, **window)
    reports = [report for page in pages for report in page]
    assert len(reports) == count
    return reports


@pytest.fixture
def collected(bench: Bench) -> tuple[Bench, list[Report]]:
    """Reports of two days; equal ones and a refused one among them; the first day is closed."""
    bench.collector.push_metrics([KEPT, make_metric("not-kept", accept_days=2)], "test")
    reports = bench.sender.reports(KEPT, 40, YESTERDAY)
    reports += reports[:3]
    refused = reports[0]._replace(cohort=KEPT.params.num_cohorts)
    bench.send([*reports, refused])
    bench.send(bench.sender.reports(KEPT, 10, TODAY))
    bench.collector.close_day(YESTERDAY, "test")
    return bench, reports


def test_what_leaves_is_what_came_page_by_page(collected, monkeypatch) -> None:
    bench, reports = collected
    for size in (1, 7, 43, 1000):
        monkeypatch.setattr(raw_blocks, "EXPORT_PAGE", size)
        assert Counter(exported(bench)) == Counter(reports)
        assert Counter(exported(bench, first=YESTERDAY, last=YESTERDAY)) == Counter(reports)


@pytest.mark.parametrize(
    ("name", "window", "reason"),
    [
        ("kept", {"last": TODAY}, "day_open"),
        ("kept", {"first": TODAY}, "day_open"),
        ("kept", {"first": TODAY, "last": YESTERDAY}, "window_backwards"),
        ("kept", {"last": YESTERDAY - timedelta(days=1)}, "not_kept"),
        ("not-kept", {}, "not_kept"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_noted(collected, name, window, reason) -> None:
    bench, _ = collected
    with pytest.raises(NotServedError) as raised:
        bench.collector.export_reports("test", name, **window)
    assert raised.value.details["reason"] == reason
    noted = bench.collector.read_audit(1)[0]
    assert (noted.act, json.loads(noted.detail)["refused"]) == ("export", reason)


def test_an_export_is_noted_before_it_begins(collected: tuple[Bench, list[Report]]) -> None:
    bench, reports = collected
    bench.collector.export_reports("test", KEPT.name)
    noted = bench.collector.read_audit(1)[0]
    assert (noted.act, json.loads(noted.detail)["reports"]) == ("export", len(reports))


def test_reports_out_of_time_are_gone(collected: tuple[Bench, list[Report]], clock: Clock) -> None:
    bench, _ = collected
    clock.pass_days(29)
    assert {report.day for report in exported(bench)} == {YESTERDAY, TODAY}
    clock.pass_days(1)
    assert {report.day for report in exported(bench)} == {TODAY}


def test_collector_and_database_export_the_same(serving, sqlite_url, tmp_path) -> None:
    long_kept = KEPT.replace(keep_raw_days=3_650)  # the command counts from the machine's day
    with serving([long_kept]) as server:
        reports = server.sender.reports(long_kept, 2_500, YESTERDAY)
        for start in (0, 1_250):
            assert server.post(reports[start : start + 1_250]).status_code == 200
        url = str(server.http.base_url)
        target = tmp_path / "kept.jsonl"
        command = ["reports", "export", "kept", "-o", str(target)]
        assert main([*command, "--collector", url]) == 1  # nothing is closed
        assert not any(path.name.startswith("kept.jsonl") for path in tmp_path.iterdir())
        server.http.post(f"/v1/days/{YESTERDAY}/close")
        for source in (["--collector", url], ["--database", sqlite_url]):
            window = ["--from", str(YESTERDAY), "--to", str(YESTERDAY)]
            assert main([*command, *source, *window]) == 0
            assert Counter(read_lines(target.read_text())) == Counter(reports)
            assert target.stat().st_mode & 0o777 == 0o600
            target.unlink()
        assert main([*command, "--collector", url, "--to", "yesterday"]) == 2


def test_a_stream_that_ends_early_leaves_no_file(serving, tmp_path, monkeypatch) -> None:
    pages = raw_blocks.pages

    def half(*arguments: Any) -> Any:
        yield next(pages(*arguments))
        raise OSError("the disk is gone")

    with serving([KEPT]) as server:
        assert server.post(server.sender.reports(KEPT, 1_500, YESTERDAY)).status_code == 200
        server.http.post(f"/v1/days/{YESTERDAY}/close")
        monkeypatch.setattr(raw_blocks, "pages", half)
        command = ["reports", "export", "kept", "-o", str(tmp_path / "kept.jsonl")]
        assert main([*command, "--collector", str(server.http.base_url)]) == 1
    assert not any(path.name.startswith("kept.jsonl") for path in tmp_path.iterdir())


def test_raw_reports_soon_deleted_are_told(collected: tuple[Bench, list[Report]]) -> None:
    """Closed days alone, from two days before; not those that were moved."""
    bench, _ = collected
    kept = KEPT.keep_raw_days

    def result(day: int) -> list[tuple[str, str]]:
        with bench.database.read() as connection:
            found = find_expiring(connection, bench.collector.registry(), day)
        assert all(entry.metric == KEPT for entry, _ in found)
        return [(str(date_of(day)), str(date_of(day + kept))) for _, day in found]

    last = day_of(YESTERDAY) + kept  # of which they may be kept
    row = (str(YESTERDAY), str(YESTERDAY + timedelta(days=kept)))
    assert result(last - 2) == []
    assert result(last - 1) == result(last) == [row]
    blocks = RawBlocks(bench.database)
    for block in blocks.blocks():
        blocks.forget(block)
    assert result(last) == []


def test_a_running_collector_warns_of_expiring_reports(serving, capsys, monkeypatch) -> None:
    """Also where another look fails, as of a damaged row; that one waits for its next turn."""
    looks: list[None] = []
    rounds: list[None] = []

    def fail(*_: object) -> None:
        looks.append(None)
        raise KeyError("a row of no series")

    def find(*given: Any) -> Any:
        rounds.append(None)
        return find_expiring(*given)

    monkeypatch.setattr(chores, "find_expiring", find)
    monkeypatch.setattr(chores, "find_growth", fail)
    metric = make_metric("kept", keep_raw_days=2, accept_days=1, min_reports=1)
    with serving([metric], housekeeping_seconds=0.2, log_level="warning") as server:
        server.post(server.sender.reports(metric, 9, YESTERDAY))
        server.http.post(f"/v1/days/{YESTERDAY}/close").raise_for_status()
        until(lambda: "rappor_raw_days_expiring 1.0" in server.http.get("/metrics").text)
        before = len(rounds)
        until(lambda: len(rounds) > before + 1)
    assert len(looks) == 1
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    result = [one for one in lines if one["event"] == "raw_reports_expire"]
    assert [(one["metric"], one["day"]) for one in result] == [("kept", str(YESTERDAY))]
