"""What a broker holds is counted once: through repeats, bad messages and restores."""

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from collector.broker.consumer import GRACE
from collector.broker.counting import BrokerMessage
from collector.domain.batch_writer import ReportWriter
from collector.domain.report_validation import Day, ReportJudge
from collector.domain.submission import Content, decode_batch_json, read_submission
from collector.store.broker import leave, read_state
from rappor_core.calendar import day_of
from rappor_core.wire.report import JSON_CONTENT_TYPE
from rappor_server.errors import RequestError, SettingsError, StorageError
from tests.collector.broker import Broker, Line, make_line
from tests.collector.database_copies import copy_database, put_copy_back
from tests.collector.support import BOTH_DATABASES, Bench, make_bench, make_metric

METRIC = make_metric(min_reports=1)


@pytest.fixture
def line(broker: Broker, bench: Bench, database_url: str) -> Line:
    bench.collector.push_metrics([METRIC], "test")
    return make_line(broker, bench, database_url)


def accepted(bench: Bench) -> int:
    return sum(int(one["accepted"]) for one in bench.collector.list_metrics())


def skipped(line: Line) -> list[tuple[int, int, str]]:
    """Partition, offset and reason of each message; one row holds those of one fetch."""
    statement = text(
        'SELECT "partition", first_offset, last_offset, reason FROM broker_skipped'
        ' WHERE topic = :topic ORDER BY "partition", first_offset'
    )
    with line.bench.database.read() as connection:
        rows = connection.execute(statement, {"topic": line.topic}).all()
    return [(row[0], offset, row[3]) for row in rows for offset in range(row[1], row[2] + 1)]


def state(line: Line) -> Any:
    with line.bench.database.read() as connection:
        return read_state(connection)


def bodies(line: Line, many: int, reports: int = 3) -> list[bytes]:
    sender, day = line.bench.sender, line.bench.clock.now.date()
    return [sender.body(sender.reports(METRIC, reports, day)) for _ in range(many)]


def by_http(line: Line, body: bytes) -> Any:
    content = Content(body, JSON_CONTENT_TYPE)
    return line.bench.writer.write([read_submission(content)])[0]


@BOTH_DATABASES
def test_messages_are_counted_once_however_often_they_come(line: Line) -> None:
    """Each batch three times, in partitions drawn at random, as of a device that tries again."""
    found = bodies(line, 20)
    line.put(*[line.message(body, 3) for body in 3 * found])
    counted = line.count_all()
    assert (counted.messages, counted.accepted, counted.duplicates) == (60, 60, 40)
    assert accepted(line.bench) == 60
    again = line.count_all()  # another consumer, which begins at the stored positions
    assert again.messages == 0
    assert line.is_counted()


def test_a_batch_sent_twice_ways_counts_once(line: Line) -> None:
    first, second = bodies(line, 2)
    line.put(line.message(first, 3))
    line.count_all()
    assert by_http(line, first).duplicate
    assert not by_http(line, second).duplicate
    line.put(line.message(second, 3))
    assert line.count_all().duplicates == 1
    assert accepted(line.bench) == 6


def test_an_uncountable_message_is_noted_and_passed(line: Line) -> None:
    good, batch_id = bodies(line, 3), os.urandom(16)
    sender, today = line.bench.sender, day_of(line.bench.clock.now.date())
    one, other = (sender.body(sender.reports(METRIC, 2), batch_id) for _ in range(2))
    whole = line.message(good[0], 3)
    line.put(
        whole,
        b"",
        b"\x01",
        whole[:-1],
        b"\x09" + whole[1:],
        line.message(good[1], 3),
        line.message(good[1], 3, Day(today + 2, today + 2)),
        line.message(good[1], 3, Day(today, 2**31 - 1)),
        line.message(one, 2),
        line.message(other, 2),
        line.message(good[2], 3),
        partition=1,
    )
    counted = line.count_all()
    assert skipped(line) == [
        *((1, offset, "unreadable") for offset in range(1, 5)),
        *((1, offset, "received_in_future") for offset in (6, 7)),
        (1, 9, "batch_id_with_other_body"),
    ]
    assert (counted.accepted, counted.skipped) == (11, 7)
    assert accepted(line.bench) == 11


def test_a_full_counter_takes_the_others_reports(line, monkeypatch) -> None:
    sender = line.bench.sender
    made = [
        sender.body([sender.report(METRIC, cohort=cohort) for _ in range(3)])
        for cohort in (0, 0, 1, 0)
    ]
    monkeypatch.setattr("collector.store.counters.MAX_COUNT", 5)
    line.put(*[line.message(body, 3) for body in made], partition=0)
    line.count_all()
    assert skipped(line) == [(0, 1, "counter_full"), (0, 3, "counter_full")]
    assert accepted(line.bench) == 6


def test_a_defect_costs_its_own_message_alone(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    found = bodies(line, 5)
    bad, judge = decode_batch_json(found[2]).batch_id, ReportJudge.judge

    def fail(self: ReportJudge, batch: Any, *rest: Any) -> Any:
        if batch.batch_id == bad:
            raise ZeroDivisionError
        return judge(self, batch, *rest)

    monkeypatch.setattr(ReportJudge, "judge", fail)
    line.put(*[line.message(body, 3) for body in found], partition=3)
    line.count_all()
    assert skipped(line) == [(3, 2, "defect")]
    assert accepted(line.bench) == 12


def test_the_day_of_receipt_decides(line: Line) -> None:
    """Counted three weeks late, the reports are accepted; until then their day stays open."""
    line.put(*[line.message(body, 3) for body in bodies(line, 4)])
    day = line.bench.clock.now.date()
    line.bench.clock.pass_days(21)
    assert line.bench.collector.close_due(daily=True) is None
    counted = line.count_all()
    assert (counted.accepted, counted.refused) == (12, 0)
    assert state(line).counted_before == day_of(line.bench.clock.now.date())
    closed = line.bench.collector.close_due()
    assert closed.folded == 1
    assert line.bench.collector.read_aggregate("test", METRIC.name, last=day).num_reports == 12


def test_a_day_completes_with_its_last_message(line: Line) -> None:
    """Not before clocks that differ agree on the day, and not while one message is left."""
    line.bench.clock.now = line.bench.clock.now.replace(hour=0) + timedelta(days=1)
    today = day_of(line.bench.clock.now.date())
    line.bench.clock.now += GRACE - timedelta(seconds=1)
    line.put(line.message(bodies(line, 1)[0], 3, Day(today - 1, today - 1)))
    line.count_all()
    assert state(line).counted_before == today - 1
    line.bench.clock.now += timedelta(seconds=1)
    line.put(*[line.message(body, 3) for body in bodies(line, 2)])
    consumer = line.consumer()
    consumer._partitions = []
    consumer._watermark.advance(consumer._client)  # the ends are known, and not passed
    assert state(line).counted_before == today - 1
    consumer._client.close()
    line.count_all()
    assert state(line).counted_before == today


def test_days_with_a_broker_close_by_clock(line: Line) -> None:
    day = line.bench.clock.now.date()
    for act in (lambda: line.bench.collector.close_day(day, "test"),
                lambda: line.bench.collector.would_close(day)):  # fmt: skip
        with pytest.raises(RequestError, match="rappor consume --leave"):
            act()
    with line.bench.database.change() as connection:
        leave(connection)
    line.bench.collector.close_day(day, "test")


def test_what_was_retired_late_is_refused_and_told(line: Line) -> None:
    line.put(*[line.message(body, 3) for body in bodies(line, 2)])
    line.bench.collector.retire_metric(METRIC.name, "test")
    assert line.count_all().refused == 6
    assert state(line).refused == 6
    assert skipped(line) == []


def test_a_failing_database_is_tried_until_it_counts(line, monkeypatch) -> None:
    """Before the commit and after it, where the answer alone was lost."""
    write, failures = ReportWriter.write, ["after", "before"]

    def failing(self: ReportWriter, submissions: Sequence[Any], beside: Any) -> Any:
        kind = failures.pop() if failures else "none"
        if kind == "before":
            raise StorageError("the disk is full")
        outcomes = write(self, submissions, beside)
        if kind == "after":
            raise StorageError("the connection broke in the commit")
        return outcomes

    monkeypatch.setattr(ReportWriter, "write", failing)
    line.put(*[line.message(body, 3) for body in bodies(line, 30)])
    line.count_all()
    assert not failures
    assert accepted(line.bench) == 90


def test_a_stale_position_counts_nothing(line: Line) -> None:
    """The database itself refuses: the transaction is undone with its reports."""
    body = bodies(line, 1)[0]
    line.put(line.message(body, 3), partition=0)
    line.count_all()
    counter = line.consumer()._counter
    late = [BrokerMessage(0, 0, line.message(bodies(line, 1)[0], 3))]
    with pytest.raises(Exception, match="no longer at offset 0"):
        counter.count(late, {0: 0})
    assert accepted(line.bench) == 3


def test_messages_that_the_broker_deleted_are_noted(line: Line) -> None:
    """The mock cluster keeps 5 MB of a partition."""
    line.put(*[line.message(body, 3) for body in bodies(line, 2)], partition=2)
    line.count_all()
    line.put(*[b"\x00" * 900_000] * 12, line.message(bodies(line, 1)[0], 3), partition=2)
    line.count_all()
    found = skipped(line)
    assert [offset for _, offset, _ in found] == list(range(2, 14))
    assert list(dict.fromkeys(reason for *_, reason in found))[:2] == [
        "deleted_by_broker",
        "unreadable",
    ]
    assert accepted(line.bench) == 9


def test_a_topic_that_was_made_anew_is_refused(line: Line) -> None:
    line.put(line.message(bodies(line, 1)[0], 3), partition=0)
    line.count_all()
    with line.bench.database.change() as connection:
        connection.execute(text("UPDATE broker_positions SET next_offset = 5"))
    with pytest.raises(SettingsError, match="created again, which needs another name"):
        line.count_all()


@pytest.mark.parametrize("keep", [True, False])
def test_a_restore_counts_all_again_or_nothing(
    line: Line, tmp_path: Path, with_pg_programs: None, new_postgresql: Any, keep: bool
) -> None:
    """Kept, open days are as they were; discarded, no part of them comes back."""
    old, new, last = (bodies(line, many) for many in (3, 4, 5))
    line.put(*[line.message(body, 3) for body in old])
    line.count_all()
    copy = tmp_path / "copy"
    copy_database(line.settings.database, copy)
    line.put(*[line.message(body, 3) for body in new])
    line.count_all()
    line.bench.clock.pass_days(1)
    url = f"sqlite:///{tmp_path}/new.sqlite"
    if line.bench.database.is_postgresql:
        url = new_postgresql()
    put_copy_back(copy, url)
    bench = make_bench(url, line.bench.clock)
    bench.collector.settle_restore("test", keep_unserved=keep)
    again = Line(line.broker, bench, line.settings, line.rng)
    again.put(*[line.message(body, 3) for body in last])
    again.count_all()
    assert accepted(bench) == (36 if keep else 15)
    assert [reason for *_, reason in skipped(again)] == ([] if keep else ["discarded"] * len(new))
    bench.database.close()
