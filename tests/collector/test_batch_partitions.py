"""PostgreSQL drops remembered batches by whole partitions, and still counts each batch once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from collector.domain.batch_writer import Receipt
from collector.store import batches as partitions
from collector.store.group_commit import _Postgresql
from tests.collector.support import Bench, Clock, make_bench, make_metric, submission

pytestmark = pytest.mark.usefixtures("databases_as_served")
METRIC = make_metric(min_reports=1)
WEEK = partitions.PARTITION_DAYS


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


def numbers(bench: Bench) -> list[int]:
    """Of the partitions that there are, as PostgreSQL has them."""
    statement = (
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'batches'::regclass"
    )
    with bench.database.read() as connection:
        names = connection.execute(text(statement)).scalars().all()
    return sorted(int(name.removeprefix("batches_")) for name in names)


def is_duplicate(bench: Bench, body: Any) -> bool:
    (receipt,) = bench.writer.write([body])
    assert isinstance(receipt, Receipt)
    return receipt.duplicate


def batch_of(bench: Bench, reports: int = 1) -> Any:
    day = bench.clock.now.date()
    return submission(bench.sender.body([bench.sender.report(METRIC, day) for _ in range(reports)]))


def test_a_new_partition_waits_for_the_olds_writers(
    bench: Bench, other: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same batch at two hosts at midnight: one counts, the other opens a partition."""
    body = batch_of(bench)
    counting, go_on = threading.Event(), threading.Event()
    save = _Postgresql.save

    def slow(*given: Any) -> None:
        save(*given)
        if threading.current_thread() is not threading.main_thread():
            counting.set()
            go_on.wait(20)

    monkeypatch.setattr(_Postgresql, "save", slow)
    other.clock.pass_days(WEEK + 1)  # it needs a partition that is not there
    later = batch_of(other)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(is_duplicate, bench, body)
        counting.wait(20)
        timer = threading.Timer(0.5, go_on.set)
        timer.start()
        assert not is_duplicate(other, later)
        assert go_on.is_set()  # it has waited
        assert is_duplicate(other, body)
        timer.join()
    assert not first.result()
    assert len(numbers(bench)) == 2
    assert is_duplicate(bench, later)


def test_a_missing_partition_is_made_on_need(bench: Bench) -> None:
    """Nobody did the chores for weeks."""
    bench.clock.pass_days(40)
    body = batch_of(bench)
    assert not is_duplicate(bench, body)
    assert is_duplicate(bench, body)
    assert len(numbers(bench)) == 2


def test_a_clock_that_goes_back_forgets_nothing(bench: Bench) -> None:
    bodies = []
    for days in (0, 6, 3, -5, 1, -3):
        bench.clock.now += timedelta(days=days)
        bodies.append(batch_of(bench))
        bench.writer.write([bodies[-1]])
        bench.collector.close_due(daily=True)
        assert all(is_duplicate(bench, one) for one in bodies[-2:])
