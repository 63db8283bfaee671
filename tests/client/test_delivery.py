"""Every report is counted exactly once, whatever happens between the device and the collector."""

import errno
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import pytest

from client_sdk import Delivery, Encoder
from client_sdk.client import HOUSEKEEPING
from client_sdk.delivery.messages import make_body, read_body
from client_sdk.delivery.schedule import MAX_DELAY, Pauses, geometric_delay
from client_sdk.errors import TransportError
from client_sdk.storage.sqlite import SqliteState
from client_sdk.testing import FixedRandomness, MemoryCollector
from rappor_core.errors import WireFormatError
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.report import Batch
from tests.waiting import flush_in_vain, until, waited

REPORTS = 300
AT_ONCE = Delivery(mean_delay=0, first_pause=0.05, timeout=10)
WHEN_FLUSHED = AT_ONCE.replace(mean_delay=3600.0)


def record(client: Any, number: int = REPORTS) -> None:
    for _ in range(number):
        assert client.record("homepage", "a")


def counted(collector: MemoryCollector) -> int:
    return collector.counted()["homepage"]


def test_a_hanging_server_delays_no_call_and_no_delivery(open_client, collector) -> None:
    hanging = threading.Event()
    release = threading.Event()

    def hang(_: Batch) -> None:
        hanging.set()
        release.wait(20)

    collector.answer = hang
    seconds = []
    for _ in range(3):  # the best of three: other threads of the process are not the client's
        hanging.clear()
        client = open_client()
        record(client, REPORTS // 3 - 50)
        assert hanging.wait(5)
        assert waited(partial(record, client, 50)) < 1.0
        seconds.append(waited(client.close))
    assert min(seconds) < 0.2
    collector.answer = None
    release.set()
    client = open_client()
    assert client.flush(20)
    assert counted(collector) == REPORTS


def test_the_same_bytes_are_sent_until_answered(open_client, collector) -> None:
    collector.answer = lambda _: (503, {}, b"{}")
    with open_client(delivery=WHEN_FLUSHED) as client:  # so that all five are in one batch
        record(client, 5)
        flush_in_vain(client, lambda: len(collector.requests) >= 2)
    collector.answer = None
    with open_client(delivery=WHEN_FLUSHED) as client:
        assert client.flush(20)
    assert len(collector.requests) >= 3
    assert len({(str(headers), body) for headers, body in collector.requests}) == 1


def test_random_faults_lose_nothing_and_count_nothing_twice(open_client, collector) -> None:
    draw = random.Random(20_261_121)
    client = open_client()
    recorded = 0
    for _ in range(80):
        operation = draw.choice(["record", "record", "restart", "lose", "fail", "heal", "flush"])
        if operation == "record":
            number = draw.randrange(1, 30)
            record(client, number)
            recorded += number
        elif operation == "restart":
            client.close()
            client = open_client()
        elif operation == "lose":
            collector.lose_answers = draw.randrange(1, 3)
        elif operation == "fail":
            collector.answer = lambda _: (draw.choice([500, 503, 408, 302]), {}, b"{}")
        elif operation == "heal":
            collector.answer = None
        else:
            client.flush(0.05)
    collector.answer, collector.lose_answers = None, 0
    assert client.flush(20)
    assert counted(collector) == recorded
    counters = client.inspect()["counters"]
    assert counters["accepted:homepage"] == recorded


def test_a_delay_is_kept_over_a_restart(open_client, collector, clock) -> None:
    slow = Delivery(mean_delay=3600)
    with open_client(delivery=slow) as client:
        record(client, 2)
        until_due(client, lambda due: due is not None)
        send_at = client._life.session.state.get("send_at")
        assert 0 < send_at - clock.now <= 3600 * MAX_DELAY
    with open_client(delivery=slow) as client:
        time.sleep(0.1)
        assert client._life.session.state.get("send_at") == send_at
    assert not collector.requests


def test_what_became_due_while_closed_waits_anew(open_client, collector, clock) -> None:
    slow = Delivery(mean_delay=3600)
    with open_client(delivery=slow) as client:
        record(client, 2)
        until_due(client, lambda due: due is not None)
    drawn = []
    for _ in range(6):
        clock.now += 20 * 86_400.0
        with open_client(delivery=slow) as client:
            until_due(client, lambda due: due > clock.now)
            drawn.append(client._life.session.state.get("send_at") - clock.now)
    assert not collector.requests
    assert max(drawn) > 300  # all six below it: (1 - .99**8)**6 = 2e-7


def until_due(client: Any, fits: Callable[[Any], bool]) -> None:
    until(lambda: fits(client._life.session.state.get("send_at")))


def test_sizes_tell_the_number_in_eight_classes(metrics) -> None:
    """The batches that docs/client.md describes; padded to 4,096 bytes there is one."""
    encoder = Encoder(metrics.metrics, bytes(32))
    reports = [encoder.encode("homepage", "a", date(2026, 11, 21)) for _ in range(100)]
    sizes = {
        pad_to: {len(make_body(bytes(16), reports[:n], pad_to=pad_to)) for n in range(1, 101)}
        for pad_to in (Delivery().pad_to, 4_096)
    }
    assert {pad_to: len(several) for pad_to, several in sizes.items()} == {256: 8, 4_096: 1}


def test_the_write_ahead_log_is_bounded(open_client, metrics_text, tmp_path, monkeypatch) -> None:
    kept, checkpoint = threading.Event(), SqliteState.checkpoint

    def finished(state: SqliteState, min_bytes: int = 0) -> None:
        checkpoint(state, min_bytes)
        kept.set()

    monkeypatch.setattr(SqliteState, "checkpoint", finished)
    metrics = parse_metrics(metrics_text.replace("num_bits = 128", "num_bits = 1024"))
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setattr("client_sdk.storage.state_file.MAX_LOG_BYTES", 500_000)
    client = open_client(metrics=metrics, collector=nowhere, delivery=WHEN_FLUSHED)
    log, longest = tmp_path / "state" / "state.sqlite-wal", 0
    for _ in range(12):
        kept.clear()
        record(client, HOUSEKEEPING)  # then the thread is woken
        assert kept.wait(20)
        longest = max(longest, log.stat().st_size)
    assert longest < 1_500_000
    assert client.inspect()["queued"] == {"homepage": 3_000}


def test_the_queue_is_bounded_oldest_first(open_client, clock) -> None:
    client = open_client(delivery=WHEN_FLUSHED.replace(max_queued=250))
    for _ in range(3):
        record(client, 1_000)
        clock.now += 86_400

    def is_bounded() -> bool:
        client._life.session.worker.run_maintenance()
        return bool(client.inspect()["queued"]["homepage"] <= 250)

    until(is_bounded)
    account = client.inspect()
    assert account["queued"]["homepage"] == 250
    assert account["counters"]["dropped:queue_full"] == 2_750
    (days,) = client._life.session.state.rows("SELECT count(DISTINCT day) FROM queue")
    assert days == (1,)  # the last day's are left


def test_composed_batches_are_bounded_too(open_client) -> None:
    client = open_client(collector="http://127.0.0.1:9", delivery=AT_ONCE.replace(max_queued=150))
    record(client, 100)
    flush_in_vain(client, lambda: client.inspect()["in_batches"] == 100)
    record(client, 100)
    assert not client.flush(0.3)
    client._life.session.worker.run_maintenance()
    until(lambda: "dropped:queue_full" in client.inspect()["counters"])
    account = client.inspect()
    waiting = account["in_batches"] + account["queued"].get("homepage", 0)
    assert waiting <= 150
    assert account["counters"]["dropped:queue_full"] >= 50


def test_reports_too_old_for_any_collector_are_dropped(open_client, clock, collector) -> None:
    with open_client(collector="http://127.0.0.1:9") as client:
        record(client, 4)
        flush_in_vain(client, lambda: client.last_error)  # so that they are composed
        clock.now += 200 * 86_400
        record(client, 3)
        flush_in_vain(client, lambda: "dropped:too_old" in client.inspect()["counters"])
        assert client.inspect()["counters"]["dropped:too_old"] == 4
    with open_client() as client:
        assert client.flush(20)
    assert counted(collector) == 3


def test_a_body_says_nothing_by_its_order(metrics) -> None:
    encoder = Encoder(metrics.metrics, bytes(32))
    reports = [encoder.encode("homepage", value, date(2026, 11, 21)) for value in "abcdefgh"]
    one = make_body(bytes(16), reports)
    assert make_body(bytes(16), reversed(reports)) == one
    assert Counter(read_body(one).ungrouped().reports) == Counter(reports)
    with pytest.raises(WireFormatError, match="gzip"):
        read_body(b"no")


def test_delays_are_geometric_with_the_stated_mean() -> None:
    """4,000 draws; the sample mean of a geometric delay has a standard error of mean / 63."""
    source = FixedRandomness(5)
    delays = [geometric_delay(100.0, source) for _ in range(4_000)]
    mean = sum(delays) / len(delays)
    assert abs(mean - 100.0) < 5 * 100.0 / 63
    assert max(delays) <= 100.0 * MAX_DELAY
    assert min(delays) >= 1.0
    later = [delay - 50 for delay in delays if delay > 50]  # memoryless
    assert abs(sum(later) / len(later) - 100.0) < 5 * 100.0 / 45
    assert geometric_delay(0.0001, source) > 0


def test_pauses_grow_at_random_within_their_bounds() -> None:
    delivery = Delivery(first_pause=1.0, longest_pause=60.0, longest_retry_after=100.0)
    failure = TransportError("no", reason="x", retry=True)
    longest: list[float] = []
    for seed in range(200):
        pauses = Pauses(delivery, FixedRandomness(seed))
        drawn = []
        for _ in range(12):
            pauses.failed(failure)
            drawn.append(pauses.seconds_left(hurried=False))
        longest = [max(a, b) for a, b in zip(longest or drawn, drawn, strict=True)]
    for number, pause in enumerate(longest, start=1):
        bound = min(60.0, 2.0**number)
        assert 0.8 * bound < pause <= bound
    asked = TransportError("no", reason="x", retry=True, retry_after=5_000.0)
    pauses = Pauses(delivery, FixedRandomness())
    pauses.failed(asked)
    assert 99 < pauses.seconds_left(hurried=True) <= 102
    pauses.succeeded()
    assert pauses.seconds_left(hurried=False) <= 0


@pytest.mark.parametrize(
    "choice",
    [
        {"timeout": "1"},
        {"mean_delay": -1},
        {"pad_to": 1 << 20},
        {"batch_reports": 50.0},  # the sending thread would fail at each of these permanently
        {"proxy": "relay.example"},
    ],
)
def test_choices_are_checked(choice) -> None:
    (name,) = choice
    with pytest.raises(ValueError, match=name):
        Delivery(**choice)


def test_a_clock_before_1970_still_sends(open_client, collector, clock) -> None:
    """A clock after a flat battery, west of Greenwich: no batch can hold such a day."""
    now, clock.now = clock.now, -1.5 * 86_400
    client = open_client()
    assert client.record("homepage", "a")
    clock.now = now
    assert client.record("homepage", "a")
    assert client.flush(10), client.last_error
    days = sorted(report.day.isoformat() for report in collector.reports)
    assert days == ["1970-01-01", "2026-11-21"]


def test_nothing_is_sent_before_it_is_on_the_disk(open_client, collector, monkeypatch) -> None:
    """A loss of power after sending would have its reports sent again, as others."""
    client = open_client(delivery=WHEN_FLUSHED)
    record(client, 1)

    def fail(handle: int) -> None:
        raise OSError(errno.EIO, f"no sync of {handle}")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        flush_in_vain(client, lambda: "no sync" in client.last_error)
        assert not collector.requests
    assert client.flush(20)
    assert counted(collector) == 1
