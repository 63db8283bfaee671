"""Devices behind batches, known by cohorts: without its protection each attack succeeds."""

import random
import statistics
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Delivery
from client_sdk.delivery.messages import Ack, Answer, read_body
from client_sdk.delivery.queue import ReportQueue
from client_sdk.delivery.schedule import SendLoop
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.directory import FileLock
from client_sdk.storage.sqlite import SqliteState
from client_sdk.testing import FixedRandomness, MemoryCollector
from rappor_core.metrics.file import parse_metrics
from rappor_core.risk import linked_by_groups
from tests.metric_texts import declaration

DAY = 86_400.0
NOON = 1_795_262_400.0
COHORTS, DEVICES = 4, 20
NAMES = ("a", "b", "c", "d")
SHAPE = {"num_bits": 32, "num_hashes": 2, "num_cohorts": COHORTS, "fallback": "other"}
NOISE = {"prob_f": 0.75, "prob_p": 0.5, "prob_q": 0.75, "max_memoized_values": 2}
METRICS = parse_metrics("".join(declaration(one, "string", **SHAPE, **NOISE) for one in NAMES))
Body = frozenset[
    tuple[str, int]
]  # what a body reveals for certain: the metrics in it, their cohorts


def bodies_of(requests: list[Any]) -> list[Body]:
    batches = (read_body(raw).ungrouped() for _, raw in requests)
    return [frozenset((r.metric, r.cohort) for r in batch.reports) for batch in batches]


def two_days(folder: Path, delivery: Delivery) -> dict[int, list[tuple[int, Body]]]:
    """Bodies by day, each with the device that it came from, of clients that send for real."""
    days: dict[int, list[tuple[int, Body]]] = {0: [], 1: []}
    with MemoryCollector(METRICS.metrics) as collector:
        for device in range(DEVICES):
            for day, seen in days.items():
                before = len(collector.requests)
                with Client.open(
                    METRICS,
                    state_dir=folder / str(device),
                    collector=collector.url,
                    consent=True,
                    delivery=delivery,
                    randomness=FixedRandomness(1_000 * device + day),
                    clock=lambda now=NOON + day * DAY: now,  # type: ignore[misc]
                ) as client:
                    assert all(client.record(name, "v") for name in NAMES)
                    assert client.flush(20)
                bodies = bodies_of(collector.requests[before:])
                seen += [(device, body) for body in bodies]
    return days


def linked(days: dict[int, list[tuple[int, Body]]]) -> float:
    """How often a body of the first day is paired with one of its device on the second."""
    right = []
    for device, body in days[0]:
        same = [other for other, it in days[1] if it == body]
        right.append(same.count(device) / len(same))
    return statistics.fmean(right)


def test_batches_of_two_days_no_longer_link(tmp_path: Path) -> None:
    """One metric a batch, by default: what links is the cohort of one metric, not of four."""
    days = two_days(tmp_path, Delivery(mean_delay=DAY))
    assert all(len(body) == 1 for day in days.values() for _, body in day)
    assert len(days[0]) == DEVICES * len(NAMES)
    assert linked(days) <= 1.2 * linked_by_groups(COHORTS, DEVICES)  # 4 cohorts among 20: .20


class FakeTransport:
    """Takes every batch at once, and notes which metric it was of."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def post(self, body: bytes, batch_id: str, num_reports: int, **_: Any) -> Answer:
        self.sent.append(body)
        return Answer((Ack("accepted"),) * num_reports, duplicate=False)

    def close(self) -> None: ...

    def abort(self) -> None: ...


@pytest.fixture
def state(tmp_path: Path) -> Iterator[SqliteState]:
    opened = SqliteState(str(tmp_path / "s"), threading.RLock())
    opened.set_secret(bytes(32))
    yield opened
    opened.close()


def test_each_metric_leaves_at_its_random_time(state, tmp_path, monkeypatch) -> None:
    """Independent delays: each with the mean that was asked for, and not correlated.

    One after the other, as they left before, the second of two would wait twice as long, and their
    times be correlated by .7; a standard error is .1 for each.
    """
    delivery = Delivery(mean_delay=600.0)
    now = [0.0]
    monkeypatch.setattr("client_sdk.delivery.schedule.time.monotonic", lambda: now[0])
    recorder = Recorder(METRICS.metrics, state)
    source = random.Random(3)
    transport = FakeTransport()
    times: dict[str, list[float]] = {"a": [], "b": []}
    for trial in range(100):
        state.put("send_at", None)
        for name in times:
            assert recorder.record(name, "v", NOON + trial * DAY) == "queued"
        loop = SendLoop(
            state, transport, FileLock(str(tmp_path / "lock")), delivery,  # type: ignore[arg-type]
            source.randbytes, lambda: NOON, lambda _: None,
        )  # fmt: skip
        start = now[0]
        while (wait := loop.step(hurried=False)) is not None:
            count = len(transport.sent)
            now[0] += wait
            if len(transport.sent) > count:
                raise AssertionError("sent before its time")
            for body in _newly(transport):
                (group,) = read_body(body).groups
                times[group.metric].append(now[0] - start)
    for waits in times.values():
        assert len(waits) == 100
        assert statistics.fmean(waits) == pytest.approx(600, rel=0.3)
    assert abs(statistics.correlation(*times.values())) < 0.35


def _newly(transport: FakeTransport) -> list[bytes]:
    sent, transport.sent = transport.sent, []
    return sent


def test_which_batch_leaves_first_is_drawn_at_random(state: SqliteState) -> None:
    """300 times of 3: each is first 100 times on average, with a deviation of 8."""
    first: Counter[str] = Counter()
    recorder = Recorder(METRICS.metrics, state)
    outbox = ReportQueue(state, Delivery(), random.Random(1).randbytes)
    for name in ("a", "b", "c"):
        assert recorder.record(name, "v", NOON) == "queued"
    assert outbox.waiting() == 3
    outbox.compose()
    assert outbox.waiting() == 3
    for _ in range(300):
        (group,) = read_body(next(outbox.batches()).body).groups
        first[group.metric] += 1
    assert all(70 < number < 130 for number in first.values())


def expected_groups(shares: list[float], devices: int) -> float:
    """How many groups have a device, on average, where each falls into one by these shares."""
    return sum(1 - (1 - share) ** devices for share in shares)


def test_unequal_cohorts_are_worse_than_equal_ones() -> None:
    """An estimate gains by 1 / sum of squared shares: here as much as from 3 equal cohorts."""
    shares = [2.0 ** -(number + 1) for number in range(31)]
    shares.append(shares[-1])
    useful = 1 / sum(share**2 for share in shares)
    assert useful == pytest.approx(3, abs=0.01)
    assert expected_groups(shares, 150) > 2.5 * expected_groups([1 / 3] * 3, 150)
