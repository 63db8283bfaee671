"""Counting in the database, SQLite and PostgreSQL: exact sums, no contention, no double count."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from collector.domain.batch_writer import Receipt
from collector.errors import BatchConflictError
from collector.store.group_commit import PostgresqlStatements
from collector.store.models import batches, counters, raw_reports
from rappor_core.aggregate import Aggregate
from rappor_core.wire.report import Report
from tests.collector.support import BOTH_DATABASES, TODAY, Bench, make_metric, set_bits, submission

METRIC = make_metric(min_reports=1)


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.collector.push_metrics([METRIC], "test")
    return bench


def naive(reports: list[Report]) -> tuple[list[int], list[list[int]]]:
    params = METRIC.params
    totals = [0] * params.num_cohorts
    bits = [[0] * params.num_bits for _ in totals]
    for report in reports:
        totals[report.cohort] += 1
        for position in set_bits(report.bits):
            bits[report.cohort][position] += 1
    return totals, bits


def served(bench: Bench) -> Aggregate:
    bench.collector.close_day(TODAY, "test")
    return bench.collector.read_aggregate("test", METRIC.name)


def assert_counts(aggregate: Aggregate, reports: list[Report]) -> None:
    totals, bits = naive(reports)
    assert list(aggregate.reports_per_cohort) == totals
    assert [list(row) for row in aggregate.bit_counts] == bits


@BOTH_DATABASES
def test_counts_are_the_sums_of_the_bits(bench: Bench) -> None:
    days = [TODAY - timedelta(days=back) for back in range(3)]
    reports = [bench.sender.report(METRIC, days[n % 3]) for n in range(300)]
    for start in range(0, 300, 30):
        bench.send(reports[start : start + 30])
    assert_counts(served(bench), reports)


def test_a_group_holds_a_batch_and_its_forgery(bench: Bench) -> None:
    reports = bench.sender.reports(METRIC, 5)
    body = bench.sender.body(reports, b"a" * 16)
    forged = bench.sender.body(bench.sender.reports(METRIC, 5), b"a" * 16)
    outcomes = bench.writer.write([submission(text) for text in (body, body, forged)])
    assert [outcome.duplicate for outcome in outcomes[:2]] == [False, True]  # type: ignore[union-attr]
    assert isinstance(outcomes[2], BatchConflictError)
    assert_counts(served(bench), reports)


@BOTH_DATABASES
def test_two_processes_on_one_database_count_once(bench: Bench, other: Bench) -> None:
    """Two writers, a shared set of batches that both send: each batch is counted once."""
    reports = [bench.sender.reports(METRIC, 10) for _ in range(40)]
    bodies = [submission(bench.sender.body(chunk)) for chunk in reports]
    outcomes: list[list[Receipt]] = [[], []]

    def send(slot: int, maker: Bench) -> None:
        order = bodies if slot == 0 else bodies[::-1]
        for one in order:
            outcomes[slot] += maker.writer.write([one])  # type: ignore[arg-type]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(send, (0, 1), (bench, other)))
    assert [len(slot) for slot in outcomes] == [40, 40]
    fresh = [one.batch_id for slot in outcomes for one in slot if not one.duplicate]
    assert len(fresh) == len(set(fresh)) == 40
    assert_counts(served(bench), [report for chunk in reports for report in chunk])


@BOTH_DATABASES
def test_another_process_metric_is_known_next_batch(bench: Bench, other: Bench) -> None:
    new = make_metric("new", min_reports=1)

    def reason() -> str:
        result = bench.send(bench.sender.reports(new, 1))[0].results[0]
        return "" if result is None else result.reason

    assert reason() == "unknown_metric"
    other.collector.push_metrics([new], "test")
    assert reason() == ""
    other.collector.close_day(TODAY, "test")
    assert reason() == "day_closed"


def test_batches_are_forgotten_with_their_days(bench: Bench) -> None:
    bench.send(bench.sender.reports(METRIC, 1))
    bench.clock.pass_days(7)
    bench.collector.close_due()
    assert _rows(bench, batches) == 1
    bench.clock.pass_days(1)
    bench.collector.close_due()
    assert _rows(bench, batches) == 0


def test_overdue_batches_go_though_admins_close_all(bench: Bench) -> None:
    """Then the clock never finds a day to close; retention must not wait for one."""
    kept = make_metric("kept", keep_raw_days=2)
    bench.collector.push_metrics([kept], "test")
    bench.send(bench.sender.reports(kept, 5))
    for left in (*[(5, 1)] * 3, *[(0, 1)] * 5, (0, 0)):
        bench.collector.close_day(bench.clock.now.date(), "test")
        assert bench.collector.close_due(daily=True) is None
        assert (_rows(bench, raw_reports), _rows(bench, batches)) == left
        bench.clock.pass_days(1)


def test_a_longer_accept_days_keeps_batches_for_longer(bench: Bench) -> None:
    """Else a batch sent again on a day that stayed open would count twice."""
    body = submission(bench.sender.body(bench.sender.reports(METRIC, 3)))
    bench.writer.write([body])
    bench.collector.push_metrics([make_metric(min_reports=1, accept_days=20)], "test", weaken=True)
    bench.clock.pass_days(15)
    bench.collector.close_due()
    assert bench.writer.write([body])[0].duplicate  # type: ignore[union-attr]


@pytest.mark.parametrize("again", ["longer", "slow clock"])
def test_no_batch_is_forgotten_before_its_closing(bench: Bench, again: str) -> None:
    """A day is closed permanently with the most patient version; until then it may open again."""
    first = make_metric("late", accept_days=3)
    bench.collector.push_metrics([first], "test")
    body = submission(bench.sender.body(bench.sender.reports(first, 3)))
    bench.writer.write([body])
    patient = make_metric("late", num_cohorts=8, accept_days=9)
    bench.collector.push_metrics([patient], "test", weaken=True)
    bench.clock.pass_days(4)
    bench.collector.close_due(daily=True)
    if again == "longer":
        longer = make_metric("late", accept_days=9)
        bench.collector.push_metrics([longer], "test", weaken=True)
    else:
        bench.clock.pass_days(-1)
    assert bench.writer.write([body])[0].duplicate  # type: ignore[union-attr]


def test_only_its_block_is_kept_of_a_day(bench: Bench) -> None:
    bench.send(bench.sender.reports(METRIC, 20))
    assert _rows(bench, counters) > 0
    bench.collector.close_day(TODAY, "test")
    assert _rows(bench, counters) == 0


def _rows(bench: Bench, table) -> int:  # type: ignore[no-untyped-def]
    with bench.database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def is_duplicate(bench: Bench, body: Any) -> bool:
    (receipt,) = bench.writer.write([body])
    return receipt.duplicate


def batch_of(bench: Bench, reports: int = 1) -> Any:
    day = bench.clock.now.date()
    return submission(bench.sender.body([bench.sender.report(METRIC, day) for _ in range(reports)]))


ON_POSTGRESQL = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@ON_POSTGRESQL
def test_a_batch_at_two_hosts_at_once_is_counted_once(bench, other, monkeypatch) -> None:
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


@ON_POSTGRESQL
def test_a_clock_that_goes_back_forgets_nothing(bench: Bench) -> None:
    bodies = []
    for days in (0, 6, -5, 1):
        bench.clock.now += timedelta(days=days)
        bodies.append(batch_of(bench))
        bench.writer.write([bodies[-1]])
        bench.collector.close_due(daily=True)
        assert all(is_duplicate(bench, one) for one in bodies[-2:])
