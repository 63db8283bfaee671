"""Consumers and fronts killed with -9 at random points: each acknowledged report counts once."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from collector.broker.client import make_consumer
from collector.broker.consumer import Consumer as BatchConsumer
from collector.domain.clock import utc_now
from collector.settings import load_settings
from collector.store.broker import leave
from collector.store.database import CollectorDatabase
from rappor_server.database import make_engine
from rappor_server.logs import make_log
from tests.collector.broker import SINGLE, Broker, Line, Static, make_line, real_broker
from tests.collector.crash import METRIC, ROOT, Tally, crash_test
from tests.collector.support import Bench, make_bench, set_bits
from tests.waiting import until


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with real_broker() as running:
        yield running


@pytest.fixture
def line(broker: Broker, bench: Bench, database_url: str) -> Line:
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    return make_line(broker, bench, database_url)


def count_for_ever(given: dict[str, Any], every_partition: bool) -> None:
    """A consumer in a separate process, in small transactions, until it is killed."""
    settings, log = load_settings(**given), make_log("error")
    database = CollectorDatabase(make_engine(settings.database))
    client = make_consumer(settings, log)
    if every_partition:
        client = Static(client, settings.broker_topic)
    BatchConsumer(client, database, settings, log, utc_now, max_messages=5).run(threading.Event())


class Consumers:
    """Processes that count; started quickly, as copies of one that has loaded the code."""

    def __init__(self, line: Line, many: int, *, every_partition: bool) -> None:
        names = ("database", "broker", "broker_topic", "broker_group", "broker_options")
        self._given = {name: getattr(line.settings, name) for name in names}
        self._given["log_level"] = "error"
        self._every_partition = every_partition
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.collector.test_broker_crash"])
        self._running = [self._start() for _ in range(many)]

    def kill(self, which: int) -> None:
        old = self._running[which]
        old.kill()
        old.join()
        self._running[which] = self._start()

    def end(self) -> None:
        for one in self._running:
            one.kill()
            one.join()

    def _start(self) -> Any:
        args = (self._given, self._every_partition)
        process = self._context.Process(target=count_for_ever, args=args, daemon=True)
        process.start()
        return process


def feed(line: Line, many: int, expected: Counter[tuple[int, int]], size: int = 4) -> int:
    """Put batches of `size` reports, some of them twice; how many reports they hold."""
    sender, day = line.bench.sender, datetime.now(UTC).date()
    messages = []
    for _ in range(many):
        reports = sender.reports(METRIC, size, day)
        message = line.message(sender.body(reports), size)
        messages += [message] * line.rng.choice([1, 1, 1, 2, 3])
        expected.update((one.cohort, bit) for one in reports for bit in set_bits(one.bits))
    line.put(*messages)
    return size * many


def check(bench: Bench, reports: int, expected: dict[tuple[int, int], int]) -> None:
    with bench.database.change() as connection:
        leave(connection)  # so that the day may be closed before it is over
    bench.collector.close_day(datetime.now(UTC).date(), "test")
    aggregate = bench.collector.read_aggregate("test", METRIC.name)
    assert aggregate.num_reports == reports
    for cohort, row in enumerate(aggregate.bit_counts):
        assert list(row) == [expected.get((cohort, bit), 0) for bit in range(len(row))]


@pytest.mark.parametrize(
    ("kills", "batches", "size"), [(4, 40, 4), pytest.param(20, 500, 100, marks=pytest.mark.long)]
)
def test_consumers_killed_at_random_count_each_once(
    line: Line, kills: int, batches: int, size: int
) -> None:
    """Two, each of every partition, as if none had heard of the other; 1e6 reports if long."""
    expected: Counter[tuple[int, int]] = Counter()
    total, rng = 0, random.Random(17)
    consumers = Consumers(line, 2, every_partition=True)
    try:
        for kill in range(kills):
            total += feed(line, batches, expected, size)
            if kill % 4 == 3:  # on a busy machine a consumer takes longer than that to start
                await_more(line)
            time.sleep(rng.uniform(0.05, 0.2))
            consumers.kill(kill % 2)
    finally:
        consumers.end()
    before = sum(line.stored().values())
    line.count_all()
    print(f"{kills} kills, {total} reports, {before} of {sum(line.stored().values())} messages "
          "counted by who was killed")  # fmt: skip
    assert before > 0
    check(line.bench, total, expected)


@pytest.mark.long
def test_a_group_hands_partitions_over(broker: Broker, new_postgresql: Callable[[], str]) -> None:
    """The broker divides: a second consumer comes, the first is killed, a third comes."""
    url = new_postgresql()
    bench = make_bench(url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    quick = {"session.timeout.ms": "6000"}  # the mock cluster lets a group wait for 3 s
    line = make_line(broker, bench, url, broker_options=quick)
    expected: Counter[tuple[int, int]] = Counter()
    total = feed(line, 100, expected)
    consumers = [Consumers(line, 1, every_partition=False)]
    try:
        await_counted(line)
        consumers.append(Consumers(line, 1, every_partition=False))
        for _ in range(8):
            total += feed(line, 40, expected)
            time.sleep(0.5)
        consumers[0].kill(0)
        total += feed(line, 40, expected)
        await_counted(line)
    finally:
        for one in consumers:
            one.end()
    check(bench, total, expected)
    bench.database.close()


def await_more(line: Line, seconds: float = 60) -> None:
    """Until someone has counted more than there was, so that a kill meets one that works."""
    before = sum(line.stored().values())
    until(lambda: sum(line.stored().values()) > before, seconds, every=0.02, shown=line.stored)


def await_counted(line: Line, seconds: float = 90) -> None:
    until(line.is_counted, seconds, every=0.2, shown=line.stored)


@pytest.mark.long
def test_fronts_killed_under_load_lose_nothing_acknowledged(line: Line) -> None:
    """Devices send over HTTP, the front is killed, and what was acknowledged to them is counted."""
    given = {"RAPPOR_BROKER": line.broker.servers, "RAPPOR_BROKER_TOPIC": line.topic}
    given["RAPPOR_BROKER_OPTIONS"] = json.dumps(SINGLE)
    tally: Tally = crash_test(line.settings.database, 4, **given)
    assert tally.refused == 0
    assert tally.reports > 100
    counted = line.count_all()
    print(f"{tally.reports} reports, {counted.duplicates} batches twice in the broker")
    check(line.bench, tally.reports, tally.bits)


@pytest.mark.long
def test_the_command_counts_until_end_or_signal(line: Line) -> None:
    """`rappor consume`, as it is run."""
    expected: Counter[tuple[int, int]] = Counter()
    total = feed(line, 20, expected)
    command = [sys.executable, "-m", "rappor_cli", "consume", "--database", line.settings.database]
    command += ["--broker", line.broker.servers]
    given = os.environ | {"RAPPOR_BROKER_TOPIC": line.topic, "PYTHONPATH": str(ROOT)}
    given["RAPPOR_BROKER_GROUP"] = line.settings.broker_group
    done = subprocess.run(
        [*command, "--until-end"], env=given, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    assert f": {total} reports counted" in done.stdout
    process = subprocess.Popen(command, env=given, stderr=subprocess.PIPE, text=True)
    assert "consuming" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0
    left = subprocess.run([*command, "--leave"], env=given, capture_output=True, timeout=90)
    assert left.returncode == 0
    check(line.bench, total, expected)
