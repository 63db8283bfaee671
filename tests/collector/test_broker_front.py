"""A front answers when the broker has a batch; what fails around a broker changes nothing."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from sqlalchemy import func, select

from collector.app import create_app
from collector.broker import consumer
from collector.broker.broker_queue import BrokerQueue
from collector.broker.client import make_consumer, make_producer, partitions_of
from collector.broker.counting import decode_message
from collector.domain.commit_queue import CommitQueue
from collector.domain.report_validation import ReportJudge
from collector.domain.submission import Content, read_submission
from collector.settings import load_settings
from collector.store.broker import read_state
from collector.store.models import raw_reports
from rappor_core.calendar import day_of
from rappor_core.wire.report import JSON_CONTENT_TYPE
from rappor_server.errors import BodyTooLargeError, OverloadedError, SettingsError, StorageError
from rappor_server.logs import make_log
from rappor_server.serving import MAX_AGE
from tests.collector.broker import PARTITIONS, Line, Quiet, make_line, running_broker
from tests.collector.support import Server, make_bench, make_metric, running_server
from tests.waiting import until

METRIC = make_metric(min_reports=1)


@pytest.fixture
def server(line: Line) -> Iterator[Server]:
    settings = line.settings
    given = {name: getattr(settings, name) for name in ("database", "broker", "broker_topic")}
    with running_server(None, line.bench.clock, **given) as running:
        yield running


def in_broker(line: Line) -> int:
    return sum(line.broker.ends(line.topic).values())


def test_what_is_answered_is_stored_and_counted_later(line: Line, server: Server) -> None:
    day = line.bench.clock.now.date()
    good = server.sender.reports(METRIC, 3)
    strange = server.sender.report(METRIC, metric="unknown")
    old = server.sender.report(METRIC, day.replace(day=1))
    answer = server.post([*good, strange, old])
    assert answer.status_code == 200
    document = answer.json()
    assert document["duplicate"] is False
    reasons = [one.get("reason") for one in document["results"]]
    assert reasons == [None, None, None, "unknown_metric", "day_closed"]
    assert in_broker(line) == 1
    assert line.bench.collector.list_metrics()[0]["accepted"] == 0
    counted = line.count_all()
    assert (counted.accepted, counted.refused) == (3, 0)
    assert line.bench.collector.list_metrics()[0]["accepted"] == 3


def test_what_is_refused_altogether_is_not_stored(line: Line, server: Server) -> None:
    assert server.post([server.sender.report(METRIC, metric="unknown")]).status_code == 200
    assert server.post_body(b"no batch").status_code == 400
    assert in_broker(line) == 0


def test_a_batch_sent_again_counts_once(line: Line, server: Server) -> None:
    reports, batch_id = server.sender.reports(METRIC, 4), b"i" * 16
    for _ in range(3):
        answer = server.post(reports, batch_id).json()
        assert [one["status"] for one in answer["results"]] == ["accepted"] * 4
    counted = line.count_all()
    assert (counted.accepted, counted.duplicates) == (4, 2)


def test_a_message_tells_the_day_only(line: Line, server: Server) -> None:
    """Value, time, key and headers, as the broker has them."""
    server.post(server.sender.reports(METRIC, 2))
    config = {"bootstrap.servers": line.broker.servers, "group.id": "look"}
    reader = Consumer(config, logger=Quiet())
    reader.assign([TopicPartition(line.topic, one, 0) for one in range(PARTITIONS)])
    message = reader.poll(20)
    reader.close()
    today = day_of(line.bench.clock.now.date())
    assert message.timestamp()[1] == today * 86_400_000
    assert message.key() is None
    assert not message.headers()
    found = decode_message(message.value())
    assert found.accepted == 2
    assert found.submission.received.today == today


def test_a_broker_that_died_gets_nothing_acknowledged(sqlite_url, clock, seconds) -> None:
    with running_broker() as broker:
        bench = make_bench(sqlite_url, clock)
        bench.collector.push_metrics([METRIC], "test")
        line = make_line(broker, bench, sqlite_url)
        given = {name: getattr(line.settings, name) for name in ("broker", "broker_topic")}
        with running_server(
            None, clock, database=sqlite_url, broker_seconds=0.5, **given
        ) as server:

            def status() -> int:
                return server.post(server.sender.reports(METRIC, 1)).status_code

            until(lambda: status() == 200)  # half a second is short on a busy machine
            assert server.http.get("/readyz").status_code == 200
            broker.stop()
            answer = server.post(server.sender.reports(METRIC, 1))
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
            seconds.passed += MAX_AGE
            until(lambda: server.http.get("/readyz").status_code != 200)
        bench.database.close()


class FakeProducer:
    """The library's producer, failing on request."""

    def __init__(self, topics: Any = None, error: Exception | None = None) -> None:
        self.topics, self.error = topics, error
        self.waiting: list[Any] = []
        self.answers: list[KafkaError | None] = []
        self.least = 1  # messages of which the first is answered
        self.is_broken = False  # fails as the library never should
        self.produced = threading.Event()

    def list_topics(self, topic: str, timeout: float) -> Any:
        there = SimpleNamespace(error=None, partitions={0: None})
        return self.topics or SimpleNamespace(topics={topic: there})

    def produce(self, _topic: str, _value: bytes, *, timestamp: int, on_delivery: Any) -> None:
        if self.error is not None:
            raise self.error
        self.waiting.append(on_delivery)
        self.produced.set()

    def poll(self, seconds: float) -> None:
        self.produced.wait(0.01)
        self.produced.clear()
        if len(self.waiting) < self.least:
            return
        if self.is_broken and not self.answers:
            raise ZeroDivisionError
        while self.waiting and self.answers:
            self.waiting.pop(0)(self.answers.pop(0), None)

    def purge(self) -> None:
        self.answers = [KafkaError(KafkaError._PURGE_QUEUE)] * len(self.waiting)
        self.least = 1

    def flush(self, seconds: float) -> None:
        self.poll(seconds)


def front_of(line: Line, *producers: FakeProducer, **changes: Any) -> BrokerQueue:
    made = iter(producers)
    settings = line.settings.model_copy(update=changes)
    judge = ReportJudge(refuse_implausible=False)
    front = BrokerQueue(settings, line.bench.collector, judge, lambda *_: None, make_log("error"))
    front._make_producer = lambda: next(made)
    return front


def test_metrics_are_reread_after_any_failure(line, monkeypatch, capsys) -> None:
    """The database is away, or holds a definition of a later version that this code cannot read."""
    answers: list[Any] = ["first", StorageError("away"), ZeroDivisionError(), "later"]

    def load() -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("collector.broker.broker_queue.REGISTRY_SECONDS", 0.01)
    front = front_of(line, FakeProducer())
    with pytest.raises(StorageError, match="not read yet"):
        front._judged(None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(line.bench.collector, "registry", load)
    front.start()
    until(lambda: str(front._registry) == "later")
    front.stop()
    err = capsys.readouterr().err
    assert err.count('"event": "') == err.count("ZeroDivisionError") == 1


def submit(front: BrokerQueue, line: Line, many: int = 1) -> list[Any]:
    async def act() -> list[Any]:
        sender = line.bench.sender
        bodies = [sender.body(sender.reports(METRIC, 2)) for _ in range(many)]
        made = [read_submission(Content(one, JSON_CONTENT_TYPE), keep=True) for one in bodies]
        return await asyncio.gather(*(front.submit(one) for one in made), return_exceptions=True)

    return asyncio.run(act())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, BodyTooLargeError),
        (KafkaError._MSG_TIMED_OUT, StorageError),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, StorageError),
    ],
)
def test_what_the_broker_did_not_store_is_refused(line, code, kind) -> None:
    producer = FakeProducer()
    producer.answers = [KafkaError(code)]
    front = front_of(line, producer)
    front.start()
    assert type(submit(front, line)[0]) is kind
    front.stop()


def test_no_more_waits_than_the_bound(line: Line) -> None:
    """The bound of bytes in our own count, and of what the library takes."""
    producer = FakeProducer()
    front = front_of(line, producer, max_queued_bytes=1_000)
    front.start()
    threading.Timer(0.5, lambda: producer.answers.extend([None] * 9)).start()
    answers = submit(front, line, 9)
    late = [one for one in answers if isinstance(one, OverloadedError)]
    assert 0 < len(late) < 9
    producer.error = BufferError()
    assert isinstance(submit(front, line)[0], OverloadedError)
    producer.error = KafkaException(KafkaError(KafkaError._QUEUE_FULL))
    assert isinstance(submit(front, line)[0], StorageError)
    front.stop()
    assert front.queued_reports == 0
    assert isinstance(submit(front, line)[0], OverloadedError)


def test_what_exactly_once_needs_is_fixed(sqlite_url: str) -> None:
    for name in (
        "acks",
        "enable.idempotence",
        "group.id",
        "auto.offset.reset",
        "message.max.bytes",
    ):
        with pytest.raises(SettingsError, match="cannot be set"):
            load_settings(database=sqlite_url, broker="a:1", broker_options={name: "1"})
    options = {"sasl.password": "very secret", "security.protocol": "sasl_ssl"}
    settings = load_settings(database=sqlite_url, broker="a:1", broker_options=options)
    assert "very secret" not in repr(settings)
    assert create_app(settings).state.parts.queue.keeps_bodies
    with pytest.raises(SettingsError, match="broker_options") as refused:
        load_settings(database=sqlite_url, broker="a:1", broker_options={"acks": "very secret"})
    assert "very secret" not in str(refused.value)


@pytest.mark.parametrize("is_defect", [False, True])
def test_a_broken_producer_is_replaced(line: Line, is_defect: bool) -> None:
    """What it held is answered as not stored, and the next batch goes to a new one."""
    old, new = FakeProducer(), FakeProducer()
    old.is_broken, fatal = is_defect, KafkaError(KafkaError._FATAL, "out of order", True)
    old.answers = [] if is_defect else [fatal]
    old.least = 2
    new.answers = [None]
    front = front_of(line, old, new)
    front.start()
    first, second = submit(front, line, 2)
    assert isinstance(first, StorageError)
    assert isinstance(second, StorageError)
    until(lambda: front._producer is new)  # what comes before is answered as not stored, too
    assert submit(front, line)[0].accepted == 2
    front.stop()
    assert front.queued_reports == 0


def body_of(line: Line) -> bytes:
    return line.bench.sender.body(line.bench.sender.reports(METRIC, 2))


def test_a_commit_after_its_loop_ends_nothing(line: Line) -> None:
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
def test_options_the_library_refuses_are_wrong_settings(make, name, sqlite_url) -> None:
    """Named, and without the value, which may be a password."""
    options = {"security.protocol": "ssl", name: "/very secret"}
    settings = load_settings(database=sqlite_url, broker="a:1", broker_options=options)
    with pytest.raises(SettingsError, match="broker_options") as refused:
        make(settings, make_log("error"))
    assert "very secret" not in str(refused.value)
    assert name in str(refused.value)


def test_a_consumer_that_cannot_start_marks_no_database(bench, database_url, monkeypatch) -> None:
    """A wrong address or topic must not keep days open for ever."""
    monkeypatch.setattr(partitions_of, "__defaults__", (0.3,))
    settings = load_settings(database=database_url, broker="127.0.0.1:1", log_level="error")
    with pytest.raises(StorageError, match="does not answer"):
        consumer.consume(settings)

    def missing() -> Any:
        raise SettingsError("no library")

    monkeypatch.setattr("collector.broker.client.load_library", missing)
    with pytest.raises(SettingsError, match="no library"):
        consumer.consume(settings, leave_broker=True)
    with bench.database.read() as connection:
        assert read_state(connection) is None


def test_raw_reports_expire_without_consumers(bench, database_url, broker) -> None:
    """Days stay open while none runs; what is kept for so many days is not kept for longer."""
    kept = make_metric("kept", keep_raw_days=3)
    bench.collector.push_metrics([kept], "test")
    line = make_line(broker, bench, database_url)
    bench.send(bench.sender.reports(kept, 5, bench.clock.now.date()))
    for _ in range(5):
        bench.collector.close_due(daily=True)
        bench.clock.pass_days(1)
    bench.collector.close_due(daily=True)
    with bench.database.read() as connection:
        left = connection.execute(select(func.count()).select_from(raw_reports)).scalar_one()
    assert left == 0
    assert line.stored() == {}


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
    assert closed.folded == 1
