"""Each batch is counted once, also by two processes at one time and by clocks that go back."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from collector.domain.batch_writer import Receipt
from collector.store.group_commit import PostgresqlStatements
from tests.collector.support import Bench, Clock, make_bench, make_metric, submission

pytestmark = pytest.mark.usefixtures("databases_as_served")
METRIC = make_metric(min_reports=1)


@pytest.fixture
def url(new_postgresql: Callable[[], str]) -> str:
    return new_postgresql()


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    made = make_bench(url, Clock())
    made.collector.push_metrics([METRIC], "test")
    yield made
    made.database.close()


@pytest.fixture
def other(url: str) -> Iterator[Bench]:
    """Another process, with a clock of its own."""
    made = make_bench(url, Clock())
    yield made
    made.database.close()


def is_duplicate(bench: Bench, body: Any) -> bool:
    (receipt,) = bench.writer.write([body])
    assert isinstance(receipt, Receipt)
    return receipt.duplicate


def batch_of(bench: Bench, reports: int = 1) -> Any:
    day = bench.clock.now.date()
    return submission(bench.sender.body([bench.sender.report(METRIC, day) for _ in range(reports)]))


def test_a_batch_at_two_hosts_at_once_is_counted_once(
    bench: Bench, other: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = batch_of(bench)
    counting, go_on = threading.Event(), threading.Event()
    save = PostgresqlStatements.save

    def slow(*given: Any) -> None:
        save(*given)
        if threading.current_thread() is not threading.main_thread():
            counting.set()
            go_on.wait(20)

    monkeypatch.setattr(PostgresqlStatements, "save", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(is_duplicate, bench, body)
        counting.wait(20)
        timer = threading.Timer(0.5, go_on.set)
        timer.start()
        assert is_duplicate(other, body)
        assert go_on.is_set()  # it has waited
        timer.join()
    assert not first.result()
    assert bench.collector.list_metrics()[0]["accepted"] == 1


def test_a_clock_that_goes_back_forgets_nothing(bench: Bench) -> None:
    bodies = []
    for days in (0, 6, -5, 1):
        bench.clock.now += timedelta(days=days)
        bodies.append(batch_of(bench))
        bench.writer.write([bodies[-1]])
        bench.collector.close_due(daily=True)
        assert all(is_duplicate(bench, one) for one in bodies[-2:])
