"""What fails around a broker is told, leaves nobody waiting, and changes nothing by itself."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from collector.broker import consumer
from collector.broker.client import make_consumer, make_producer, partitions_of
from collector.broker.consumer import Consumer as BatchConsumer
from collector.broker.counting import UnreadableError, decode_message
from collector.domain.commit_queue import CommitQueue
from collector.domain.report_validation import Day
from collector.domain.submission import Content, read_submission
from collector.settings import load_settings
from collector.store.broker import Move, move, positions, read_state, start_positions
from collector.store.models import raw_reports
from rappor_core.calendar import day_of
from rappor_core.wire.report import JSON_CONTENT_TYPE
from rappor_server.errors import SettingsError, StorageError
from rappor_server.logs import make_log
from tests.collector.broker import Broker, Line, make_line
from tests.collector.support import make_bench, make_metric
from tests.waiting import until

METRIC = make_metric(min_reports=1)


def body_of(line: Line) -> bytes:
    return line.bench.sender.body(line.bench.sender.reports(METRIC, 2))


def test_a_commit_after_its_loop_ends_nothing(line: Line) -> None:
    """The same where there is no broker."""
    may_write, writer = threading.Event(), line.bench.writer

    def write(submissions: Any) -> Any:
        assert may_write.wait(10)
        return writer.write(submissions)

    bounds = {"max_queued_bytes": 1 << 20, "max_group": 100}
    queue = CommitQueue(write, **bounds, on_commit=lambda *_: None, on_crash=lambda _: None)
    queue.start()

    def made() -> Any:
        return read_submission(Content(body_of(line), JSON_CONTENT_TYPE))

    async def give_up() -> None:
        task = asyncio.create_task(queue.submit(made()))
        await asyncio.sleep(0.05)
        task.cancel()

    async def act() -> Any:
        return await asyncio.wait_for(queue.submit(made()), 10)

    asyncio.run(give_up())
    may_write.set()
    until(lambda: line.bench.collector.list_metrics()[0]["accepted"] == 2)
    assert asyncio.run(act()).accepted == 2
    queue.stop()


@pytest.mark.parametrize("make", [make_producer, make_consumer])
@pytest.mark.parametrize("name", ["ssl.nonsense", "ssl.ca.location"])
def test_options_the_library_refuses_are_wrong_settings(
    make: Any, name: str, sqlite_url: str
) -> None:
    """Named, and without the value, which may be a password."""
    options = {"security.protocol": "ssl", name: "/very secret"}
    settings = load_settings(database=sqlite_url, broker="a:1", broker_options=options)
    with pytest.raises(SettingsError, match="broker_options") as refused:
        make(settings, make_log("error"))
    assert "very secret" not in str(refused.value)
    assert name in str(refused.value)


def test_bodies_larger_than_messages_are_wrong_settings(sqlite_url: str) -> None:
    settings = load_settings(database=sqlite_url, broker="a:1", max_inflated_bytes=1 << 30)
    with pytest.raises(SettingsError, match="max_inflated_bytes"):
        make_producer(settings, make_log("error"))


def test_a_consumer_that_cannot_start_marks_no_database(
    sqlite_url: str, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong address or topic must not keep days open for ever."""
    bench = make_bench(sqlite_url, clock)
    monkeypatch.setattr(partitions_of, "__defaults__", (0.3,))
    settings = load_settings(database=sqlite_url, broker="127.0.0.1:1", log_level="error")
    with pytest.raises(StorageError, match="does not answer"):
        consumer.consume(settings)

    def missing() -> Any:
        raise SettingsError("no library")

    monkeypatch.setattr("collector.broker.client.load_library", missing)
    with pytest.raises(SettingsError, match="no library"):
        consumer.consume(settings, leave_broker=True)
    with bench.database.read() as connection:
        assert read_state(connection) is None
    bench.database.close()


class Unassigned:
    """A broker that never gives this consumer a partition."""

    def __init__(self, each: Callable[[], None] = lambda: None) -> None:
        self.each = each

    def subscribe(self, topics: object, **_: object) -> None: ...
    def assign(self, where: object) -> None: ...
    def close(self) -> None: ...

    def poll(self, _: float) -> None:
        self.each()


def test_a_consumer_without_partitions_ends_with_reasons(
    line: Line, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another consumer counts twice between two looks."""
    clock = iter(range(10_000))  # a minute and more passes from look to look
    monkeypatch.setattr(consumer, "monotonic", lambda: 40.0 * next(clock))
    left = [1, 2]

    def count_elsewhere() -> None:
        if left:
            with line.bench.database.add() as connection:
                start_positions(connection, line.topic, {9: 0})
                before = positions(connection, line.topic)[9]
                move(connection, line.topic, [Move(9, before, before + left.pop())])

    log = make_log("warning")
    client = Unassigned(count_elsewhere)
    one = BatchConsumer(client, line.bench.database, line.settings, log, line.bench.clock)
    with pytest.raises(StorageError, match=r"no partition .* nobody counted meanwhile"):
        one.run(threading.Event(), lambda: False)
    assert not left
    assert '"event": "no_partition"' in capsys.readouterr().err
    assert one.counted.messages == 0


def test_raw_reports_expire_without_consumers(sqlite_url: str, broker: Broker, clock: Any) -> None:
    """Days stay open while none runs; what is kept for so many days is not kept for longer."""
    kept = make_metric("kept", keep_raw_days=3)
    bench = make_bench(sqlite_url, clock)
    bench.collector.push_metrics([kept], "test")
    line = make_line(broker, bench, sqlite_url)
    bench.send(bench.sender.reports(kept, 5, clock.now.date()))
    for _ in range(5):
        bench.collector.close_due(daily=True)
        clock.pass_days(1)
    bench.collector.close_due(daily=True)
    with bench.database.read() as connection:
        left = connection.execute(select(func.count()).select_from(raw_reports)).scalar_one()
    assert left == 0
    assert line.stored() == {}
    bench.database.close()


@pytest.mark.parametrize(("shift", "accepted"), [(-(1 << 31), 2), (0, 3), (0, 2**32 - 1)])
def test_a_head_that_no_front_writes_is_unreadable(line: Line, shift: int, accepted: int) -> None:
    """A day before 1970 is of no restore; more reports than there are were not acknowledged."""
    today = day_of(line.bench.clock.now.date())
    message = line.message(body_of(line), accepted, Day(shift or today, today))
    with pytest.raises(UnreadableError):
        decode_message(message)


def test_a_fast_clock_closes_no_day_early(line: Line) -> None:
    """What was received in the last second of the day is counted before its day closes."""
    clock, metric = line.bench.clock, make_metric(accept_days=0)
    line.bench.collector.push_metrics([metric], "test", weaken=True)
    clock.now = clock.now.replace(hour=23, minute=59, second=58)
    clock.pass_days(1)
    line.count_all()
    clock.pass_days(-1)
    line.count_all()
    sender, day = line.bench.sender, clock.now.date()
    line.put(line.message(sender.body(sender.reports(metric, 4, day)), 4))
    clock.now += timedelta(seconds=5)
    line.bench.collector.close_due(daily=True)
    counted = line.count_all()
    assert (counted.accepted, counted.refused) == (4, 0)
    clock.now += timedelta(minutes=6)
    line.count_all()
    closed = line.bench.collector.close_due()
    assert closed is not None
    assert closed.folded == 1
